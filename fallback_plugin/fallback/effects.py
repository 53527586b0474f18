"""What the engine asks to be done, and what it is told of the outcome."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from fallback_plugin.events import StoredMessage
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.state import PassedOver, Plan
from fallback_plugin.health.closure import MAX_WAIT_S
from fallback_plugin.health.scope import Key, Scope
from fallback_plugin.host_client import OUTDATED, STOPPED, Receipt, SessionInfo
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FailureKind
from fallback_plugin.wire import prompt, toast

PROBED: Final = "somebody else probes it"

TimerName: TypeAlias = Literal["first_token", "stall", "settle", "reopen"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Take the lease on one failure; whoever else sees the same failure is refused.

    With ``probe`` the next model is half-open: if somebody else probes it, the outcome is `Failed` with
    `PROBED` for a reason, and the lease is taken all the same.
    """

    session_id: str
    attempt: int
    key: str
    probe: Key | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop the session's run; ``attempt`` numbers the attempt of the turn that is given up.

    ``after`` is the last event of the session that was known then, None where it does not matter;
    ``run_over`` says that the run has ended by itself as far as was known.
    """

    session_id: str
    attempt: int
    after: int | None = field(default=None, compare=False)
    run_over: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Leave the model that the session waits for, so that its request is answered by another.

    With ``flowing`` also one that has begun to answer; ``evidence`` is what was seen of its silence.
    """

    session_id: str
    attempt: int
    agent: str | None
    evidence: str
    flowing: bool = False


@dataclass(frozen=True, slots=True)
class FetchSession:
    """Look a session up whose beginning was not seen."""

    session_id: str


@dataclass(frozen=True, slots=True)
class FetchMessages:
    """Read the session's history, to find what attempt ``attempt`` has to send."""

    session_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Revert:
    """Take the turn's message back, with all that followed it."""

    session_id: str
    attempt: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Unrevert:
    """Show again what was taken back: its turn is not sent again after all."""

    session_id: str


@dataclass(frozen=True, slots=True)
class DeleteMessage:
    """Take one message out of the history."""

    session_id: str
    attempt: int
    message_id: str


@dataclass(frozen=True, slots=True)
class CloseModel:
    """Let everybody who shares our health know that a model cools until ``until``, and what with it.

    ``base_s`` is what is doubled with each failure in a row, up to ``grows_to_s``.
    """

    session_id: str
    model: ModelRef
    scope: Scope
    until: float
    reason: FailureKind
    base_s: float
    grows_to_s: float = MAX_WAIT_S


@dataclass(frozen=True, slots=True)
class Reopen:
    """Let them know that a model has answered what it was asked at ``asked_at``."""

    session_id: str
    model: ModelRef
    asked_at: float


@dataclass(frozen=True, slots=True)
class EndProbe:
    """Let others probe: the session asked a half-open model and nobody will know what came of it."""

    session_id: str
    model: ModelRef


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hand in the prompt of attempt ``attempt``; ``after`` as in `Abort`."""

    session_id: str
    attempt: int
    body: prompt.Prompt
    after: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Toast:
    """Show a note; with ``once``, only if no other instance has taken that lease to show it.

    ``after`` is as in `Abort`: what was going to happen does not once the user has stopped it.
    """

    session_id: str
    body: toast.Toast
    once: str | None = None
    after: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Hand `TimerFired` to the engine in ``after_s`` seconds, instead of any running timer of that name."""

    session_id: str
    name: TimerName
    attempt: int
    after_s: float


@dataclass(frozen=True, slots=True)
class StopTimer:
    """Forget a timer, if it runs."""

    session_id: str
    name: TimerName


@dataclass(frozen=True, slots=True)
class Why:
    """What led to a decision about a failed model.

    Attributes:
        turn: the message of the person's that is to be answered.
        sign: how the host showed the failure.
        failed: the model that failed.
        failure: what was made of it.
        taken: the model that is asked next, None if none is left.
        passed_over: the candidates before that one, and why each was not taken.
        closes: what is closed by the failure, None if nothing is.
    """

    turn: str
    sign: str
    failed: ModelRef
    failure: Failure
    taken: ModelRef | None = None
    passed_over: tuple[PassedOver, ...] = ()
    closes: Scope | None = None


def scope_of(closed: Sequence[CloseModel]) -> Scope | None:
    """Return what is being closed, None if nothing is."""
    return closed[0].scope if closed else None


@dataclass(frozen=True, slots=True)
class Record:
    """Write down a decision and its reason. Holds no text of the user's or the provider's."""

    session_id: str
    decision: str
    reason: str
    why: Why | None = None

    @classmethod
    def of_step(
        cls,
        session_id: str,
        turn: str,
        sign: str,
        failure: Failure,
        plan: Plan,
        *,
        closed: Sequence[CloseModel],
        how: str = "",
    ) -> "Record":
        """Write down a step along the chain: the failed model is left, or asked once more."""
        why = Why(turn, sign, plan.failed, failure, plan.model, plan.passed_over, scope_of(closed))
        reason = f"{plan.failed}: {failure.kind} by {failure.evidence}{how}"
        return cls(session_id, "retry" if plan.retries else "switch", reason, why)


NOT_INLINE: Final = "not inline"
"""The decision that comes before a replay which could have been spared."""

REDIRECT: Final = "redirect"
"""The decision to keep a prompt from a closed model."""

BACK: Final = "back"
"""The decision to send a prompt to the primary again."""

CHOSEN: Final = "chosen by the user"
"""The decision to take the model a prompt asks for as the session's primary."""

Effect: TypeAlias = (
    Claim
    | Abort
    | GiveUp
    | FetchSession
    | FetchMessages
    | Revert
    | Unrevert
    | DeleteMessage
    | CloseModel
    | Reopen
    | EndProbe
    | Prompt
    | Toast
    | StartTimer
    | StopTimer
    | Record
)


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer that was started has run out."""

    session_id: str
    name: TimerName
    attempt: int


@dataclass(frozen=True, slots=True)
class Done:
    """A call was answered; ``receipt`` tells where the call stands among the host's events."""

    receipt: Receipt = field(default_factory=Receipt)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A look-up was answered."""

    session: SessionInfo | None = None
    messages: tuple[StoredMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A call was not carried out.

    ``status`` is the host's HTTP status. Without one the host gave no answer, so the call may have had its
    effect all the same.
    """

    reason: str
    status: int | None = None


Outcome: TypeAlias = Done | Fetched | Failed


def crossed(effect: Abort | Prompt, outcome: Outcome) -> int | None:
    """Return the status of a call that was not carried out since the user had gone on before it came."""
    status = outcome.status if isinstance(outcome, Failed) else None
    return status if status == OUTDATED or (status == STOPPED and effect.after is not None) else None
