"""The one writer: a thread that carries queued jobs out, several to a transaction."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from fallback_plugin.agent.records import HostEvent
from fallback_plugin.agent.store.transaction import Rows, Transaction
from fallback_plugin.agent.store.trouble import explained

MOST_TOGETHER: Final = 64
"""Jobs of one transaction; more wait for the next, so that the first of them need not wait for all."""

T = TypeVar("T")

Committed: TypeAlias = Callable[[Sequence[HostEvent]], None]
"""Called on the event loop with what one job has published, in the order of the commits."""


class Job:
    """What is to be done, and for whom."""

    def __init__(self, work: Callable[[Transaction], Any], *, durable: bool) -> None:
        self.durable: Final = durable
        self.loop: Final = asyncio.get_running_loop()
        self.answer: Final[asyncio.Future[Any]] = self.loop.create_future()
        self.events: Sequence[HostEvent] = ()
        self.error: BaseException | None = None
        self._work: Final = work
        self._result: Any = None

    def run(self, transaction: Transaction) -> None:
        """Do it, or leave no trace of it."""
        rows = transaction.rows
        rows.execute("SAVEPOINT job")
        try:
            self._result = self._work(transaction)
            self.error, self.events = None, transaction.events
        except BaseException as error:  # noqa: BLE001 -- it is its caller's, who gets it
            self.error, self.events = error, ()
            if rows.in_transaction:
                rows.execute("ROLLBACK TO job")
        if rows.in_transaction:
            rows.execute("RELEASE job")

    def fail(self, error: BaseException) -> None:
        """Note that nothing of it was stored."""
        self.error, self.events = error, ()

    def settle(self, committed: Committed) -> None:
        """Publish its events, then let its caller go on. Runs on the caller's loop."""
        try:
            if self.events:
                committed(self.events)
        finally:
            # A caller that was cancelled waits no more; what it asked for is done all the same.
            if not self.answer.done():
                self._answer()

    def _answer(self) -> None:
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self._result)


class Writer:
    """Owns the writing connection. A job may run twice, the first time without effect."""

    def __init__(
        self, rows: Rows, file: Path, *, boot: int, clock: Callable[[], float], committed: Committed
    ) -> None:
        self._rows: Final = rows
        self._file: Final = file
        self._boot: Final = boot
        self._clock: Final = clock
        self._committed: Final = committed
        self._jobs: Final[queue.SimpleQueue[Job | None]] = queue.SimpleQueue()
        self._is_full = True
        self._thread: Final = threading.Thread(target=self._serve, name="store-writer", daemon=True)

    def start(self) -> None:
        """Begin to carry jobs out."""
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job behind all others."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Carry out what is queued, then end."""
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next()
            if not batch:
                continue
            # What does not fit together may fit one by one: a full disk takes the small ones still.
            if (error := self._attempt(batch)) is not None:
                for job in batch:
                    alone = self._attempt([job]) if len(batch) > 1 else error
                    if alone is not None:
                        job.fail(alone)
            for job in batch:
                if isinstance(job.error, sqlite3.Error):
                    job.fail(explained(job.error, self._file))
                with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits
                    job.loop.call_soon_threadsafe(job.settle, self._committed)

    def _next(self) -> tuple[list[Job], bool]:
        batch: list[Job] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == MOST_TOGETHER:
                return batch, True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _attempt(self, batch: Sequence[Job]) -> Exception | None:
        """Run jobs in one transaction; return why none of them is stored, None if all that succeeded are."""
        rows = self._rows
        try:
            self._set_durability(full=any(job.durable for job in batch))
            rows.execute("BEGIN IMMEDIATE")
            for job in batch:
                job.run(Transaction(rows, now=self._clock(), boot=self._boot))
                if not rows.in_transaction:
                    # SQLite took everything back by itself, as it does on a full disk.
                    return job.error if isinstance(job.error, Exception) else sqlite3.OperationalError()
            rows.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 -- the thread has to outlive whatever it meets
            with contextlib.suppress(sqlite3.Error):
                if rows.in_transaction:
                    rows.rollback()
            return error
        return None

    def _set_durability(self, *, full: bool) -> None:
        if full != self._is_full:
            self._rows.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._is_full = full
