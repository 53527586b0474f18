"""Health that several machines share: a Redis or Valkey server, and beside it the store of this machine.

Everything that is known stands in the local store, so that looking costs no way over the network. A thread
listens to what others change and writes it there. What changes here is changed at the server first, if it
answers in time, and in the local store then. While the server cannot be used, the local store goes on alone:
what it closes is marked as not shared, and handed in when the server is back.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Event, Thread
from typing import Final

from fallback_plugin.health.closure import Closure, joined, remembered
from fallback_plugin.health.redis_link import Change, LinkDownError, RedisLink
from fallback_plugin.health.scope import Key
from fallback_plugin.health.store import HealthStore, LocalHealth, Move
from fallback_plugin.health.view import HealthView

FIRST_WAIT_S: Final = 0.25
"""How long the first lease waits for the server, so that what another machine has is not taken again."""

RETRY_S: Final = 0.1
LONGEST_RETRY_S: Final = 5.0
"""How long to wait before the first and before a later attempt to reach the server again."""

LASTING_S: Final = 30.0
"""A server that stayed so long is tried at once when it goes; one that comes and goes, ever less often."""

LISTEN_S: Final = 0.5
ASK_EVERY: Final = 10
"""After so many waits without any news the server is asked whether it is still there."""


class RedisHealth(HealthStore):
    """Keeps everything at a server and in ``local``; connects, in a thread of its own, with the first call.

    ``on_trouble`` is told once when the server cannot be used and once when it is back, from either thread.
    ``local`` must allow threads that take turns.
    """

    def __init__(
        self, local: LocalHealth, link: RedisLink, *, server: str, on_trouble: Callable[[str], None]
    ) -> None:
        self._local = local
        self._link = link
        self._server = server
        self._on_trouble = on_trouble
        self._turn = Condition()
        """Whoever reads or writes the local store or what stands below has it, but never over the network."""
        self._online = False
        self._troubled = False
        self._revisions: dict[Key, int] = {}
        self._revision = 0
        self._opened_alone: dict[Key, Move] = {}
        self._now = 0.0
        self._tried = Event()
        self._stopping = Event()
        self._thread: Thread | None = None

    def view(self, now: float) -> HealthView:
        """Return what is closed at ``now``, as far as it is known here."""
        self._begin(now)
        with self._turn:
            return self._local.view(now)

    def change(self, key: Key, move: Move) -> Closure | None:
        """Carry a move of a key's record out, at the server if it answers, and return the outcome."""
        self._begin(self._now)
        with self._turn:
            known = self._known(key)
        if move(known) == known:
            return known
        if self._online:
            try:
                if known is None or known.shared:
                    made = self._link.change(key, known, move, self._now)
                else:
                    made = self._link.change(key, None, lambda theirs: move(joined(theirs, known)), self._now)
            except LinkDownError as error:
                self._lost(str(error))
            else:
                with self._turn:
                    self._take_in(made)
                return made.record
        with self._turn:
            after = self._local.change(key, move)
            if after is None:
                self._opened_alone[key] = move
            else:
                self._opened_alone.pop(key, None)
        return after

    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take the lease ``key`` for ``ttl_s`` seconds and tell whether ``holder`` has it now.

        While the server cannot be used, of the holders of each machine one gets it.
        """
        self._begin(now)
        self._tried.wait(FIRST_WAIT_S)
        if self._online:
            try:
                if not self._link.claim(key, holder, now, ttl_s=ttl_s):
                    return False
            except LinkDownError as error:
                self._lost(str(error))
        with self._turn:
            return self._local.claim(key, holder, now, ttl_s=ttl_s)

    def settle(self, timeout_s: float) -> None:
        """Wait until the server was reached, or could not be."""
        self._begin(self._now)
        self._tried.wait(timeout_s)

    def shut(self) -> None:
        """Let go of the local store and, as soon as the thread notices, of the server."""
        self._stopping.set()
        self._tried.set()
        with self._turn:
            self._online = False
            self._local.shut()
            self._turn.notify_all()

    def _begin(self, now: float) -> None:
        self._now = now
        if self._thread is None and not self._stopping.is_set():
            self._thread = Thread(target=self._listen, name="fallback-plugin redis", daemon=True)
            self._thread.start()

    def _known(self, key: Key) -> Closure | None:
        return self._local.view(self._now).closures.get(key)

    def _listen(self) -> None:
        """Keep the local store as the server is, for as long as the process wants."""
        retry_s = RETRY_S
        while not self._stopping.is_set():
            try:
                self._link.connect()
                with self._link.changes() as next_change:
                    self._join()
                    joined_at = time.monotonic()
                    self._follow(next_change)
                if time.monotonic() - joined_at > LASTING_S:
                    retry_s = RETRY_S
            except LinkDownError as error:
                self._lost(str(error))
            self._tried.set()
            self._stopping.wait(retry_s)
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)
        self._link.disconnect()

    def _follow(self, next_change: Callable[[float], Change | None]) -> None:
        silent = last = 0
        while self._online and not self._stopping.is_set():
            news = next_change(LISTEN_S)
            if news is not None:
                if news.revision <= last:
                    raise LinkDownError("it has lost its memory")
                silent, last = 0, news.revision
                with self._turn:
                    self._hear(news)
            elif (silent := silent + 1) >= ASK_EVERY:
                silent = 0
                self._link.ping()

    def _join(self) -> None:
        """Take in what others changed, hand in what was changed here alone, and go online."""
        revision, theirs = self._link.load()
        with self._turn:
            # Fewer changes than were seen already: the server lost its memory, and ours is worth handing in.
            forgot = revision < max(self._revisions.values(), default=self._revision)
            self._revisions.clear()
            self._revision = revision
            if not self._stopping.is_set():
                ours = self._local.view(self._now).closures
                known = {key: record for key, record in ours.items() if record.shared}
                lost = {
                    key: replace(record, shared=False) if forgot else None for key, record in known.items()
                }
                # A record of our own that nobody knows yet is joined with theirs below.
                new = {
                    key: replace(record, shared=True)
                    for key, record in theirs.items()
                    if key in known or key not in ours
                }
                self._local.take_in({**lost, **new})
        while (handed_in := self._next_alone()) is not None:
            key, record, move = handed_in
            made = self._link.change(key, None, move, self._now)
            with self._turn:
                if self._known(key) == record:
                    self._opened_alone.pop(key, None)
                    self._write(made)
        self._back()
        self._tried.set()

    def _next_alone(self) -> tuple[Key, Closure | None, Move] | None:
        """Return a key changed here alone, its record, and how the server learns it; else go online."""
        with self._turn:
            if self._stopping.is_set():
                return None
            for key, move in self._opened_alone.items():
                return key, self._known(key), move
            for key, record in self._local.view(self._now).closures.items():
                if not record.shared and remembered(record, self._now):
                    return key, record, lambda theirs, ours=record: joined(theirs, ours)
            self._online = True
            self._turn.notify_all()
        return None

    def _hear(self, news: Change) -> None:
        """Take in what somebody changed, unless something longer was closed here that nobody knows yet."""
        ours = self._known(news.key)
        if ours is None or ours.shared or joined(news.record, ours) is not ours:
            self._take_in(news)

    def _take_in(self, change: Change) -> None:
        """Write down what a key became at the server, unless something later is known."""
        if not self._stopping.is_set() and change.revision >= self._revisions.get(change.key, self._revision):
            self._write(change)

    def _write(self, change: Change) -> None:
        self._revisions[change.key] = change.revision
        record = change.record
        self._local.take_in({change.key: replace(record, shared=True) if record else None})
        self._turn.notify_all()

    def _lost(self, reason: str) -> None:
        with self._turn:
            self._online = False
            said, self._troubled = self._troubled, True
            self._turn.notify_all()
        if not said and not self._stopping.is_set():
            self._on_trouble(
                f"{self._server} cannot be used: {reason}. Until it is back, closed models and leases are "
                "shared by the processes of this machine only; nothing is lost, and it is tried again"
            )

    def _back(self) -> None:
        with self._turn:
            said, self._troubled = self._troubled and self._online, False
        if said:
            self._on_trouble(
                f"{self._server} is back: closed models and leases are shared by all machines again"
            )
