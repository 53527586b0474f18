"""The store as the host sees it: jobs that write, jobs that read, and a close that leaves one whole file."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self, TypeVar

from fallback_plugin.agent.records import HostEvent, StoredEvent
from fallback_plugin.agent.store import events
from fallback_plugin.agent.store.backup import back_up
from fallback_plugin.agent.store.folder import DataFolder
from fallback_plugin.agent.store.opening import Prepared, check_sqlite, connect, connect_to_read, prepare
from fallback_plugin.agent.store.transaction import Rows, Transaction
from fallback_plugin.agent.store.trouble import explaining
from fallback_plugin.agent.store.writer import Committed, Job, Writer
from fallback_plugin.errors import StoreError

READERS: Final = 2


def _nothing(_: Transaction) -> None:
    """Do nothing, in its turn."""


T = TypeVar("T")


class Store:
    """All sessions of a data folder. Made by `open`; used on one event loop.

    Attributes:
        file: the database.
        boot: the number of this start of the host.
        was_cut_off: whether an earlier start did not end in good order.
        last_event: the sequence of the last event that was published.
        notices: what a person should know about the place, e.g. that it is slow.
    """

    def __init__(
        self,
        folder: DataFolder,
        rows: Rows,
        prepared: Prepared,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.file: Final = folder.file
        self.boot: Final = prepared.boot
        self.was_cut_off: Final = prepared.was_cut_off
        self.notices: Final = prepared.notices
        self.last_event = events.last_sequence(rows)
        self._folder: Final = folder
        self._rows: Final = rows
        self._clock: Final = clock
        self._listeners: Final[list[Committed]] = []
        self._writer: Final = Writer(
            rows, folder.file, boot=prepared.boot, clock=clock, committed=self._publish
        )
        self._readers: Final = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._reading: Final[list[Rows]] = []
        self._local: Final = threading.local()
        self._is_open = True
        self._writer.start()

    @classmethod
    def open(cls, folder: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open the data folder, made first if there is none. No other host can until `close`, or our end.

        Raises:
            StoreError: if it cannot be used; nothing in it was changed then.
        """
        check_sqlite()
        held = DataFolder.enter(folder)
        try:
            with explaining(held.file):
                held.check_not_emptied()
                held.make_private()
                rows = connect(held.file)
                try:
                    prepared = prepare(rows, held.file, clock())
                except BaseException:
                    rows.close()
                    raise
                held.note_sessions()
        except BaseException:
            held.leave()
            raise
        return cls(held, rows, prepared, clock=clock)

    def listen(self, committed: Committed) -> None:
        """Have what each job publishes handed over too: after its commit, before its caller goes on."""
        self._listeners.append(committed)

    async def write(self, work: Callable[[Transaction], T], *, durable: bool = True) -> T:
        """Carry a job out in a transaction and return its answer, when it is committed.

        The job is queued when this is called, and carried out even if the caller is cancelled meanwhile. What
        it raises takes it back, and nothing else.

        Args:
            work: a function of the transaction alone; it may run twice, the first time without effect.
            durable: whether to wait for stable storage; otherwise a power failure may take the last ones.

        Raises:
            StoreError: if the disk refuses, or the store is closed.
        """
        return await self.submit(work, durable=durable)

    async def settle(self) -> None:
        """Wait until every job that was queued before is committed and published.

        Raises:
            StoreError: if the disk refuses, or the store is closed.
        """
        await self.submit(_nothing, durable=False)

    def submit(self, work: Callable[[Transaction], T], *, durable: bool = True) -> "asyncio.Future[T]":
        """Queue a job as `write` does, without waiting for it; what `write` raises is the future's."""
        job = Job(work, durable=durable)
        if self._is_open:
            self._writer.put(job)
        else:
            job.answer.set_exception(self._closed())
        return job.answer

    async def read(self, work: Callable[[Rows], T]) -> T:
        """Answer a question in a thread, from one state of everything that was committed.

        Raises:
            StoreError: if the file cannot be read, or the store is closed.
        """
        if not self._is_open:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    async def backup(self, to: Path) -> None:
        """Copy everything into a new file, while the store goes on being used.

        Raises:
            StoreError: if there is such a file, or it cannot be written.
        """
        await asyncio.get_running_loop().run_in_executor(self._readers, back_up, self.file, to)

    def close(self) -> None:
        """Carry out what is queued, put everything into the one file, and let the folder go."""
        if not self._is_open:
            return
        self._is_open = False
        self._writer.stop()
        self._readers.shutdown()
        for rows in self._reading:
            rows.close()
        # What is committed is stored in any case; what this does not note is checked at the next start.
        with contextlib.suppress(sqlite3.Error):
            self._rows.execute("UPDATE boot SET stopped = ? WHERE id = ?", (self._clock(), self.boot))
            self._rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._rows.close()
        self._folder.leave()

    def _closed(self) -> StoreError:
        return StoreError(f"{self.file}: the host is stopping; start it again", status=503)

    def _publish(self, published: Sequence[HostEvent]) -> None:
        for event in published:
            if isinstance(event, StoredEvent):
                self.last_event = event.sequence
        for committed in self._listeners:
            committed(published)

    def _read(self, work: Callable[[Rows], T]) -> T:
        with explaining(self.file):
            rows = self._reader()
            rows.execute("BEGIN")
            try:
                return work(rows)
            finally:
                rows.rollback()

    def _reader(self) -> Rows:
        """Return this thread's own connection."""
        if (rows := getattr(self._local, "rows", None)) is None:
            rows = self._local.rows = connect_to_read(self.file)
            self._reading.append(rows)
        return rows
