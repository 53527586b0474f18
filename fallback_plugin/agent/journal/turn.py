"""What a turn writes down in its run's name."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.continuing import Opening, continue_session
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.delivering import remove
from fallback_plugin.agent.journal.ending import end_run
from fallback_plugin.agent.journal.growing import GrowingText, Growth
from fallback_plugin.agent.records import Json, Outcome, Run
from fallback_plugin.agent.store import Store, Transaction, messages, parts, runs, segments, sessions
from fallback_plugin.agent.store.parts import GROWING
from fallback_plugin.agent.store.stored_json import storable
from fallback_plugin.errors import AgentError, FencedError
from fallback_plugin.wire.fields import optional_object

FLUSH_AFTER_S: Final = 0.05
"""How long text may wait; the contract allows 0.1 s until it is written, and the write takes some of that."""

FLUSH_SIZE: Final = 4096
"""Bytes of text that are written at once."""


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> object:
        """Take it back."""
        ...


BeforeMoving: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Told of a session's id and of the one it goes on under, before that one is stored."""

CallLater: TypeAlias = Callable[[float, Callable[[], object]], Timer]


class StoredTurn:
    """The `TurnJournal` over a store. Text waits in memory, no longer than `FLUSH_AFTER_S`."""

    def __init__(
        self,
        store: Store,
        run: Run,
        defaults: Defaults,
        *,
        memory_owner: str | None = None,
        call_later: CallLater | None = None,
        before_moving: BeforeMoving | None = None,
    ) -> None:
        self._store: Final = store
        self._run: Final = run
        self._defaults: Final = defaults
        self._memory_owner: Final = memory_owner
        self._call_later: Final[CallLater] = call_later or asyncio.get_running_loop().call_later
        self._before_moving: Final = before_moving or _nobody_to_tell
        self._growing: Final = GrowingText()
        self._timer: Timer | None = None
        self._trouble: BaseException | None = None

    async def put_message(self, info: Json) -> None:
        """Add or replace an answer's ``info``, or replace that of the person's message."""
        is_last = "completed" in (optional_object(info, "time") or {})
        await self._write(lambda tx, session: _put_message(tx, self._run.id, session, info), durable=is_last)

    async def remove_message(self, message_id: str) -> None:
        """Take a message of this run away, with its parts."""
        await self._write(
            lambda tx, session: _remove_message(tx, self._run.id, session, message_id), durable=True
        )

    async def put_part(self, part: Json, *, durable: bool = True) -> None:
        """Add or replace a part of a message of this run.

        A text that is not given stays as it has grown; one that is given replaces it.
        """
        self.flush()
        if part.get("type") in GROWING:
            self._growing.put(
                str(part["messageID"]), str(part["id"]), part.get("text"), is_open=_is_open(part)
            )
        await self._write(lambda tx, session: _put_part(tx, self._run.id, session, part), durable=durable)

    async def append(self, part_id: str, field: str, delta: str) -> None:
        """Let an open part's text grow."""
        self._check()
        if field != "text":
            raise AgentError(f"part {part_id}: only its text grows, not its {field}")
        self._growing.append(part_id, storable(delta))
        if self._growing.size >= FLUSH_SIZE:
            await self._written(self.flush())
        elif self._timer is None:
            self._timer = self._call_later(FLUSH_AFTER_S, self.flush)

    async def continue_in(self, session_id: str, opening: Sequence[Json]) -> Run:
        """Carry the run on in a new session; what is written from then on is written there."""
        begun = [Opening(each["info"], each["parts"]) for each in opening]
        await self._before_moving(self._run.session_id, session_id)
        moved: list[Run] = []

        def work(tx: Transaction, _: str) -> None:
            moved.append(
                continue_session(tx, self._run, begun, self._defaults, new_id=session_id, keep_from=None).run
            )

        await self._write(work, durable=True)
        return moved[-1]

    async def finish(self, info: Json | None, outcome: Outcome, error: Json | None = None) -> None:
        """End the turn: its last message, the run, its memory segment and the terminal event, all at once."""

        def work(tx: Transaction, session_id: str) -> None:
            if info is not None:
                _put_message(tx, self._run.id, session_id, info)
            end_run(tx, runs.get(tx.rows, self._run.id), outcome, error, self._defaults)
            if outcome == "completed" and self._memory_owner is not None:
                segments.mark_turn(tx.rows, session_id, self._memory_owner)

        await self._write(work, durable=True)
        self._trouble = FencedError(f"run {self._run.id} has ended; what it still writes is refused")

    def flush(self) -> "asyncio.Future[None] | None":
        """Have the text that waits written, before whatever is written next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        grown = self._growing.take()
        if not grown or self._trouble is not None:
            return None
        job = self._store.submit(
            self._guarded(lambda tx, session: _grow(tx, self._run.id, session, grown)), durable=False
        )
        job.add_done_callback(self._note_trouble)
        return job

    async def _write(self, work: Callable[[Transaction, str], None], *, durable: bool) -> None:
        if isinstance(self._trouble, FencedError):
            raise self._trouble
        self.flush()
        await self._store.write(self._guarded(work), durable=durable)

    def _guarded(self, work: Callable[[Transaction, str], None]) -> Callable[[Transaction], None]:
        """Have a job refused, in its own transaction, once the run's token is gone."""
        return lambda tx: work(tx, runs.writing_session(tx.rows, self._run))

    async def _written(self, job: "asyncio.Future[None] | None") -> None:
        if job is not None:
            # Shielded: the job is carried out in any case, and its outcome has to reach `_note_trouble`.
            await asyncio.shield(job)

    def _note_trouble(self, job: "asyncio.Future[None]") -> None:
        if not job.cancelled() and (error := job.exception()) is not None:
            self._trouble = error

    def _check(self) -> None:
        # Once some text is lost, no later text may follow it: there would be a hole.
        if self._trouble is not None:
            raise self._trouble


async def _nobody_to_tell(old_id: str, new_id: str) -> None:
    del old_id, new_id


def _is_open(part: Json) -> bool:
    if part.get("type") in GROWING:
        return "end" not in (optional_object(part, "time") or {})
    return part.get("type") == "tool" and (optional_object(part, "state") or {}).get("status") in (
        "pending",
        "running",
    )


def _put_message(tx: Transaction, run_id: str, session_id: str, info: Json) -> None:
    if messages.find(tx.rows, session_id, str(info["id"])) is not None:
        messages.key_in_run(tx.rows, session_id, str(info["id"]), run_id)
    info = {**info, "sessionID": session_id}
    publishing.message_updated(tx, messages.put(tx.rows, session_id, info, run_id=run_id))


def _remove_message(tx: Transaction, run_id: str, session_id: str, message_id: str) -> None:
    messages.key_in_run(tx.rows, session_id, message_id, run_id)
    remove(tx, session_id, [messages.get(tx.rows, session_id, message_id)], run_id)
    session = sessions.get(tx.rows, session_id)
    sessions.put(tx.rows, session, revision=session.revision + 1)


def _put_part(tx: Transaction, run_id: str, session_id: str, part: Json) -> None:
    message = messages.key_in_run(tx.rows, session_id, str(part["messageID"]), run_id)
    whole: dict[str, Any] = {**part, "sessionID": session_id}
    if part.get("type") in GROWING and "text" not in part:
        whole["text"] = parts.text_of(tx.rows, message, str(part["id"]))
    parts.put(tx.rows, message, whole, is_open=_is_open(part))
    sessions.touch(tx.rows, session_id, tx.now)
    publishing.part_updated(tx, whole, run_id)


def _grow(tx: Transaction, run_id: str, session_id: str, grown: Sequence[Growth]) -> None:
    for growth in grown:
        message = messages.key_in_run(tx.rows, session_id, growth.message_id, run_id)
        parts.grow(tx.rows, message, growth.part_id, growth.text)
        publishing.part_grown(tx, session_id, growth)
