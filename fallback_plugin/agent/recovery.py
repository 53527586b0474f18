"""What an earlier start of the host left unfinished is brought to an end: once, before anything else.

Nothing is guessed from times. A run that has not ended and belongs to another start is not alive, since no
two hosts share a folder.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.ending import end_run, leave
from fallback_plugin.agent.journal.runs import cancel_waiting
from fallback_plugin.agent.records import Run
from fallback_plugin.agent.store import Store, Transaction, runs, segments, sessions

OnRestart: TypeAlias = Literal["ask", "run", "cancel"]
"""What becomes of prompts that were accepted and never begun: a person is asked, they run, or they end."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found, in the order of acceptance.

    Attributes:
        ended: runs that were under way, and those that ``cancel`` ended.
        held: prompts that a person sends or discards, those of earlier restarts too.
        resumed: prompts for the dispatcher to begin, with ``run``.
    """

    ended: tuple[Run, ...] = ()
    held: tuple[Run, ...] = ()
    resumed: tuple[Run, ...] = ()


async def recover(store: Store, defaults: Defaults, *, on_restart: OnRestart = "ask") -> Recovered:
    """Bring what earlier starts left to an end, one session at a time; twice is as good as once."""
    left, in_flight = await store.read(
        lambda rows: (runs.left_by_others(rows, store.boot), segments.sessions_in_flight(rows))
    )
    found: list[Run] = []
    for session_id in dict.fromkeys([*(run.session_id for run in left), *in_flight]):
        mine = [run for run in left if run.session_id == session_id]
        found += await store.write(_Recovery(session_id, mine, defaults, on_restart))
    found.sort(key=lambda run: run.sequence)
    return Recovered(
        ended=tuple(run for run in found if run.state == "ended"),
        held=tuple(run for run in found if run.state == "held"),
        resumed=tuple(run for run in found if run.state == "accepted"),
    )


@dataclass(frozen=True, slots=True)
class _Recovery:
    """The one transaction of a session."""

    session_id: str
    left: Sequence[Run]
    defaults: Defaults
    on_restart: OnRestart

    def __call__(self, tx: Transaction) -> list[Run]:
        segments.give_back(tx.rows, self.session_id)
        found = [self._recovered(tx, run) for run in self.left]
        if any(run.state == "ended" for run in found):
            publishing.session_status(tx, self.session_id, "idle")
        return found

    def _recovered(self, tx: Transaction, run: Run) -> Run:
        if sessions.find(tx.rows, run.session_id) is None:
            return leave(tx, run, "cancelled")
        if run.state == "active":
            outcome: Literal["cancelled", "interrupted"] = (
                "cancelled" if runs.is_stopping(tx.rows, run.id) else "interrupted"
            )
            return end_run(tx, run, outcome, None, self.defaults)
        if run.state == "held":
            return run
        if self.on_restart == "cancel" or runs.is_stopping(tx.rows, run.id):
            cancel_waiting(tx, run.id, self.defaults)
            return runs.get(tx.rows, run.id)
        state: Literal["held", "accepted"] = "held" if self.on_restart == "ask" else "accepted"
        waiting = runs.put(tx.rows, dataclasses.replace(run, state=state), boot=tx.boot)
        publishing.run_updated(tx, waiting)
        return waiting
