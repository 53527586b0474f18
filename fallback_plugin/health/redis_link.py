"""A Redis or Valkey server, as the few things that are asked of it; nothing here knows when it is asked.

Every key begins with ``fallback-plugin:``. ``closed:…`` holds a record and ``lease:…`` a lease, both with a
time to live that only cleans up: the times inside say what has expired. ``index`` names the records,
``revision`` counts their changes, and the channel ``changes:<database>`` carries each one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from fallback_plugin.extras import how_to_add
from fallback_plugin.health.closure import FORGOTTEN_AFTER_S, Closure
from fallback_plugin.health.scope import Key
from fallback_plugin.health.store import Move
from fallback_plugin.health.text import entry_text, key_text, lease_text, read_entry, read_lease
from fallback_plugin.settings.store_url import StoreUrl

if TYPE_CHECKING:
    from redis import Redis

PREFIX: Final = "fallback-plugin:"

ANSWER_TIMEOUT_S: Final = 0.15
"""How long the engine waits for an answer: the event loop stands still meanwhile."""

TRIES_LAST: Final = 2 / 3
"""For how much of a time-out a move is begun again when others were faster; with the last try, 250 ms."""

PATIENT_TIMEOUT_S: Final = 2.0
"""How long connecting, and an answer that only a thread waits for, may take."""

_SWAP: Final = """
local present = redis.call('GET', KEYS[1]) or ''
if present ~= ARGV[1] then return {0, redis.call('GET', KEYS[3]) or '0', present} end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
if ARGV[4] == '' then return {1, '0', ''} end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ARGV[6])
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[2], KEYS[1])
else
  redis.call('ZADD', KEYS[2], ARGV[6] + ARGV[3], KEYS[1])
end
local revision = redis.call('INCR', KEYS[3])
redis.call('PUBLISH', ARGV[5], revision .. ' ' .. ARGV[4])
return {1, revision, ''}
"""
"""Put a new value in the place of the expected one, or return the one that is there; return the revision too.

What the value becomes is decided in Python by the same functions as for every other store; the script makes
it one step. Arguments: what is expected and what comes (empty for none), time to live in ms, what to publish
(empty for a lease), the channel, the time in ms.
"""

LEASE_KEPT_S: Final = 60.0
"""How long a lease is kept behind its time, for those whose clock is behind."""

_NAME_LENGTH: Final = 200
_PAGE: Final = 500


class LinkDownError(Exception):
    """The server cannot be used now; the message says why, without the password.

    It never leaves this package.
    """


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a key, and the number of this change among all; a later one has a higher number."""

    key: Key
    record: Closure | None
    revision: int


class RedisLink:
    """Connections to one server: one for those who wait for the answer, others for the thread that listens.

    ``connect`` makes a client of the library with a time-out for its answers; ``answer_timeout_s`` is that of
    those who wait.

    Raises:
        LinkDownError: from every method, when the server cannot be used.
    """

    def __init__(
        self,
        url: StoreUrl,
        *,
        connect: Callable[[StoreUrl, float], "Redis"] | None = None,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._url = url
        self._connect = connect or _connected
        self._answer_timeout_s = answer_timeout_s
        self._index, self._revision = f"{PREFIX}index", f"{PREFIX}revision"
        self._channel = f"{PREFIX}changes:{url.database}"
        self._patient: Redis | None = None
        self._quick: Redis | None = None
        self._swap: Any = None

    def connect(self) -> None:
        """Make new connections; those of before are given up."""
        with self._explained():
            self.disconnect()
            self._patient = self._connect(self._url, PATIENT_TIMEOUT_S)
            self._patient.script_load(_SWAP)
            self._quick = self._connect(self._url, self._answer_timeout_s)
            self._swap = self._quick.register_script(_SWAP)
            self._quick.ping()

    def disconnect(self) -> None:
        """Give the connections up."""
        for client in (self._patient, self._quick):
            if client is not None:
                client.close()
        self._patient = self._quick = self._swap = None

    def change(self, key: Key, known: Closure | None, move: Move, now: float) -> Change:
        """Carry a move of a key's record out on the server; ``known`` is what the record is thought to be."""
        name = self._name("closed", key_text(key))
        deadline = time.monotonic() + self._answer_timeout_s * TRIES_LAST
        expected, after = entry_text(key, known) if known else "", move(known)
        while True:
            text = entry_text(key, after)
            lives_s = after.until + FORGOTTEN_AFTER_S - now if after else 0.0
            done, revision, present = self._swapped(
                name, expected, text if after else "", lives_s, now, publish=text
            )
            if done:
                return Change(key, after, revision)
            entry = read_entry(present)
            before = entry[1] if entry else None
            expected, after = present, move(before)
            if after == before and entry:
                return Change(key, before, revision)
            if time.monotonic() > deadline:
                raise LinkDownError("too many processes changed one record at once")

    def claim(self, key: str, holder: str, now: float, *, ttl_s: float) -> bool:
        """Take a lease unless another holder has it, and tell whether it was taken."""
        name = self._name("lease", key)
        deadline = time.monotonic() + self._answer_timeout_s * TRIES_LAST
        expected, wanted = "", lease_text(holder, now + ttl_s)
        while True:
            done, _, expected = self._swapped(name, expected, wanted, ttl_s + LEASE_KEPT_S, now, publish="")
            if done:
                return True
            owner, until = read_lease(expected) or (holder, now)
            if owner != holder and until > now:
                return False
            if time.monotonic() > deadline:
                raise LinkDownError("too many processes asked for one lease at once")

    def load(self) -> tuple[int, dict[Key, Closure]]:
        """Return every record, and the number of a change that all of them have seen."""
        with self._explained():
            client: Any = self._patient
            revision = int(client.get(self._revision) or 0)
            names = client.zrange(self._index, 0, -1)
            pages = (names[start : start + _PAGE] for start in range(0, len(names), _PAGE))
            texts = [text for page in pages for text in client.mget(page)]
        entries = (read_entry(text) for text in texts if text)
        return revision, {key: record for key, record in filter(None, entries) if record is not None}

    @contextmanager
    def changes(self) -> Iterator[Callable[[float], Change | None]]:
        """Listen, and hand out a function that waits at most so many seconds for a change of anybody's."""
        with self._explained():
            client: Any = self._patient
            listener = client.pubsub()
        try:
            with self._explained():
                listener.subscribe(self._channel)
                # Before the server has confirmed it, a change that is made next might be missed.
                if listener.get_message(timeout=PATIENT_TIMEOUT_S) is None:
                    raise LinkDownError("it does not answer")

            def next_change(timeout_s: float) -> Change | None:
                with self._explained():
                    message = listener.get_message(timeout=timeout_s)
                return _change(message["data"]) if message and message["type"] == "message" else None

            yield next_change
        finally:
            listener.close()

    def ping(self) -> None:
        """Ask whether the server is still there."""
        with self._explained():
            client: Any = self._patient
            client.ping()

    def _swapped(
        self, name: str, expected: str, new: str, lives_s: float, now: float, *, publish: str
    ) -> tuple[bool, int, str]:
        with self._explained():
            done, revision, present = self._swap(
                keys=[name, self._index, self._revision],
                args=[expected, new, max(1, int(lives_s * 1000)), publish, self._channel, int(now * 1000)],
            )
        return bool(done), int(revision), str(present)

    @staticmethod
    def _name(kind: str, text: str) -> str:
        plain = text.encode("ascii", "backslashreplace").decode()
        short = plain if len(plain) <= _NAME_LENGTH else sha256(plain.encode()).hexdigest()
        return f"{PREFIX}{kind}:{short}"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn whatever the library raises into one kind of error, without the password."""
        try:
            yield
        except LinkDownError:
            raise
        except ImportError:
            raise LinkDownError(f"the Python package redis is missing; {how_to_add('redis')}") from None
        except Exception as error:  # noqa: BLE001 -- a bad option of an address is any of several kinds
            raise LinkDownError(_without_password(str(error) or type(error).__name__, self._url)) from None


def _connected(url: StoreUrl, timeout_s: float) -> "Redis":
    from redis import Redis  # noqa: PLC0415 -- only where a server is used
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    return Redis.from_url(
        url.secret,
        decode_responses=True,
        encoding_errors="replace",
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_connect_timeout=PATIENT_TIMEOUT_S,
        socket_timeout=timeout_s,
        # Connected here and now, so that nobody who waits for an answer waits for a connection.
        single_connection_client=timeout_s != PATIENT_TIMEOUT_S,
    )


def _change(message: str) -> Change | None:
    revision, _, text = message.partition(" ")
    entry = read_entry(text)
    return Change(*entry, int(revision)) if entry and revision.isdecimal() else None


def _without_password(text: str, url: StoreUrl) -> str:
    password = urlsplit(url.secret).password
    for secret in filter(None, (password, unquote(password or ""))):
        text = text.replace(secret, "***")
    return text
