"""Identifiers of sessions, messages, parts, runs and events, in the form that OpenCode gives its own.

An identifier is its kind, 12 hexadecimal digits that hold the time and a counter, and 14 random characters.
OpenCode's clients sort by it: messages and parts in the order of their making, sessions the newest first.
"""

import secrets
from collections.abc import Callable
from threading import Lock
from time import time
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["ses", "msg", "prt", "run", "call", "per", "evt", "tok", "err"]

NewId: TypeAlias = Callable[[Kind], str]
"""Makes the identifier of a new session, message, part, run, run's token, tool call, question or event."""

Clock: TypeAlias = Callable[[], float]

_DESCENDING: Final[frozenset[Kind]] = frozenset({"ses"})
_TICKS_PER_MS: Final = 0x1000
_TICK_BITS: Final = 48
_RANDOM_LENGTH: Final = 14
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Identifiers:
    """Makes identifiers that rise in the order of the calls; those of sessions descend. Threads may share it.

    A clock that is set back does not set them back: they go on from the last one. A new process begins at its
    clock. As in OpenCode, 48 bits hold 2.2 years of ticks and then begin again, next in October 2028.
    """

    def __init__(self, clock: Clock = time) -> None:
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._last = 0

    def __call__(self, kind: Kind) -> str:
        """Return an identifier such as ``msg_21eca75b1001OcqAFFav8NuU3B``."""
        with self._lock:
            now = round(self._clock() * 1000) * _TICKS_PER_MS
            self._last = tick = max(now, self._last) + 1
        if kind in _DESCENDING:
            tick = ~tick
        return f"{kind}_{tick % (1 << _TICK_BITS):012x}{_random_characters()}"


def _random_characters() -> str:
    number = secrets.randbelow(len(_BASE62) ** _RANDOM_LENGTH)
    characters = []
    for _ in range(_RANDOM_LENGTH):
        number, digit = divmod(number, len(_BASE62))
        characters.append(_BASE62[digit])
    return "".join(characters)


new_id: Final[NewId] = Identifiers()
"""Makes the identifiers of this process."""
