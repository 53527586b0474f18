"""What the dispatcher writes down: a run's way from its acceptance to its one end."""

import dataclasses
import logging
import weakref
from collections.abc import Sequence
from typing import Final

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.accepting import accept
from fallback_plugin.agent.journal.continuing import Continued, Opening, continue_session
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.delivering import deliver
from fallback_plugin.agent.journal.ending import end_run, leave
from fallback_plugin.agent.journal.turn import BeforeMoving, StoredTurn
from fallback_plugin.agent.protocols import Accepted, StatusWord
from fallback_plugin.agent.records import Json, Outcome, Run, RunState, UserPrompt
from fallback_plugin.agent.store import Store, Transaction, runs, sessions
from fallback_plugin.errors import AgentError, StoreError

logger = logging.getLogger(__name__)


class StoredRuns:
    """The `RunJournal` over a store, and the maker of each run's `TurnJournal`."""

    def __init__(
        self, store: Store, defaults: Defaults, *, before_moving: BeforeMoving | None = None
    ) -> None:
        self._before_moving: Final = before_moving
        self._store: Final = store
        self._defaults: Final = defaults
        self._turns: Final[weakref.WeakValueDictionary[str, StoredTurn]] = weakref.WeakValueDictionary()

    def turn(self, run: Run, *, memory_owner: str | None = None) -> StoredTurn:
        """Return what an active run writes with; ``memory_owner`` is whom its memory is owed to."""
        turn = StoredTurn(
            self._store,
            run,
            self._defaults,
            memory_owner=memory_owner,
            before_moving=self._before_moving,
        )
        self._turns[run.id] = turn
        return turn

    async def ids_of(self, session_id: str) -> list[str]:
        """Return every id that a session has had, the newest last. Raises `AgentError` 404."""
        return await self._store.read(lambda rows: sessions.ids_of(rows, session_id))

    async def accept(self, session_id: str, prompt: UserPrompt, sequence: int) -> Accepted:
        """Keep a prompt, or return the run that a repeated one had begun.

        Raises:
            AgentError: 404 without such a session, 400 without a model or anything to answer, 409 for the id
                of a message that is stored already, with other parts.
        """
        return await self._store.write(lambda tx: accept(tx, session_id, prompt, sequence, self._defaults))

    async def queue(self, run: Run) -> None:
        """Note that a run waits behind another."""
        await self._store.write(lambda tx: _queue(tx, run))

    async def activate(self, run: Run) -> Run:
        """Begin a run: its person's message appears, and it gets its token.

        One that its session is still busy with is interrupted: its end could not be written when it came.

        Raises:
            AgentError: 409 if it began or ended before.
        """
        token = self._defaults.new_id("tok")

        def work(tx: Transaction) -> Run:
            found = dataclasses.replace(_waiting(tx, run), prompt=run.prompt)
            if (unended := runs.active(tx.rows, found.session_id)) is not None:
                end_run(tx, unended, "interrupted", None, self._defaults)
            delivered, _ = deliver(tx, found, self._defaults)
            begun = dataclasses.replace(delivered, state="active", writer=token, started_at=tx.now)
            runs.put(tx.rows, begun, boot=tx.boot)
            publishing.run_updated(tx, begun)
            return begun

        return await self._store.write(work)

    async def cancel(self, runs: Sequence[Run]) -> None:
        """End runs that never began, all at once; what began or ended meanwhile is left as it is."""

        def work(tx: Transaction) -> None:
            for run in runs:
                cancel_waiting(tx, run.id, self._defaults)

        await self._store.write(work)

    async def fold(self, runs: Sequence[Run], into: Run) -> None:
        """End runs by making their prompts messages of an active one's turn. Raises `FencedError`."""
        await self._store.write(lambda tx: _fold(tx, runs, into, self._defaults))

    async def note_stop(self, run: Run) -> None:
        """Note that a person stopped a run: should the host end first, it ends as cancelled."""
        await self._store.write(lambda tx: runs.note_stop(tx.rows, run.id))

    async def end(self, run: Run, outcome: Outcome, error: Json | None = None) -> bool:
        """End a run whatever is open in it, and take its token away; False if it had ended, or is held.

        One that never began is delivered first; where that is what cannot be done, it ends without a message.
        """
        if (turn := self._turns.get(run.id)) is not None:
            turn.flush()

        def work(tx: Transaction) -> bool:
            if (found := _unended(tx, run)) is None:
                return False
            if found.state != "active":
                found = deliver(tx, found, self._defaults).run
            end_run(tx, found, outcome, error, self._defaults)
            return True

        def leave_it(tx: Transaction) -> bool:
            found = _unended(tx, run)
            return found is not None and bool(leave(tx, found, outcome, error))

        try:
            return await self._store.write(work)
        except Exception as refused:
            if isinstance(refused, StoreError) and refused.may_pass:
                raise
            logger.exception("run %s ends without an answer", run.id)
            return await self._store.write(leave_it)

    async def continue_as(
        self, run: Run, opening: Sequence[Opening] = (), *, keep_from: str | None = None
    ) -> Continued:
        """Go on with an active run under a new session id, after its history was compacted.

        Args:
            run: the active run. A `StoredTurn` of it writes to the new session from then on.
            opening: what stands first in the new session.
            keep_from: the message from which on the old history is copied behind it.

        Raises:
            FencedError: if the run has ended.
        """
        new_id = self._defaults.new_id("ses")
        return await self._store.write(
            lambda tx: continue_session(tx, run, opening, self._defaults, new_id=new_id, keep_from=keep_from)
        )

    async def status(self, ids: Sequence[str], status: StatusWord) -> None:
        """Publish that a session became busy or idle. After a power failure, recovery says it anew."""

        def work(tx: Transaction) -> None:
            for session_id in ids:
                publishing.session_status(tx, session_id, status)

        await self._store.write(work, durable=False)

    async def send(self, run_id: str, sequence: int) -> Run:
        """Accept a held run anew, under a new number; the dispatcher has to be told of it.

        Raises:
            AgentError: 404 if there is none, 409 if it is not held.
        """

        def work(tx: Transaction) -> Run:
            held = dataclasses.replace(_in_state(tx, run_id, _HELD), state="accepted", sequence=sequence)
            runs.put(tx.rows, held, boot=tx.boot)
            publishing.run_updated(tx, held)
            return held

        return await self._store.write(work)

    async def discard(self, run_id: str, *, waiting: bool = False) -> Run:
        """End a held run without a trace in the history, or one that has not begun if ``waiting``.

        Raises:
            AgentError: 404 if there is none, 409 if it is not.
        """
        states = runs.WAITING if waiting else _HELD
        return await self._store.write(lambda tx: leave(tx, _in_state(tx, run_id, states), "discarded"))


def cancel_waiting(tx: Transaction, run_id: str, defaults: Defaults) -> None:
    """End a run that never began as cancelled: its prompt is kept, with an empty stopped answer."""
    found = runs.find(tx.rows, run_id)
    if found is not None and found.state in runs.WAITING:
        end_run(tx, deliver(tx, found, defaults).run, "cancelled", None, defaults)


def _fold(tx: Transaction, folded: Sequence[Run], into: Run, defaults: Defaults) -> None:
    active = runs.writing(tx.rows, into)
    for run in folded:
        found = runs.find(tx.rows, run.id)
        if found is not None and found.state in runs.WAITING:
            leave(tx, deliver(tx, found, defaults, writer=active).run, "folded")


def _unended(tx: Transaction, run: Run) -> Run | None:
    found = runs.find(tx.rows, run.id)
    return None if found is None or found.state in ("ended", "held") else found


def _queue(tx: Transaction, run: Run) -> None:
    found = runs.find(tx.rows, run.id)
    if found is not None and found.state in runs.WAITING:
        found = runs.put(tx.rows, dataclasses.replace(found, state="queued"), boot=tx.boot)
        publishing.run_updated(tx, found)


def _waiting(tx: Transaction, run: Run) -> Run:
    found = runs.get(tx.rows, run.id)
    if found.state not in runs.WAITING:
        raise AgentError(f"run {run.id} cannot begin: it is {found.state}", status=409)
    return found


_HELD: Final[frozenset[RunState]] = frozenset({"held"})


def _in_state(tx: Transaction, run_id: str, states: frozenset[RunState]) -> Run:
    found = runs.get(tx.rows, run_id)
    if found.state not in states:
        raise AgentError(f"run {run_id} is not {' or '.join(sorted(states))} but {found.state}", status=409)
    return found
