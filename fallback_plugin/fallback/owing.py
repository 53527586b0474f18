"""A failed turn that has to wait for the end of its run.

`opencode run` is over at its first idle, and so is an editor's prompt in `opencode acp`: to stop a failed
turn there and send it again would end it. The turn is written down, and `settling` sends it again when the
run has ended; in `opencode acp` the prompt is held until then.
"""

from fallback_plugin.events import Ending
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import Context, stop_timers
from fallback_plugin.fallback.effects import Effect, Record
from fallback_plugin.fallback.session import Owed, RunState, Session, Turn


def owes(context: Context, session: Session) -> bool:
    """Tell whether a failed turn of a session is owed, and cannot be sent again while its run lasts."""
    return context.ends_at_idle and session.parent_id is None


def owe(session: Session, turn: Turn, failure: Failure, sign: RunState | Ending) -> list[Effect]:
    """Write down that the turn's attempt failed and the turn is still to be answered."""
    attempt = turn.attempt
    attempt.failed = True
    turn.reasons[attempt.model] = failure
    session.owed = Owed(turn, attempt, failure, sign)
    reason = f"{attempt.model}: {failure.kind} by {failure.evidence}"
    return [*stop_timers(session), Record(session.id, "owed", reason)]
