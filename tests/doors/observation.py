"""What a step of a sequence led to behind one door, in a form that can be compared with another's."""

import re
from dataclasses import dataclass, fields
from typing import Final

from fallback_plugin.health.closure import Closure
from fallback_plugin.health.scope import Key

_CLOCK: Final = re.compile(r"\b\d\d:\d\d\b")


@dataclass(frozen=True, slots=True)
class Observation:
    """What is to be seen of a step.

    Attributes:
        outcome: who answered; ``no answer`` or ``stopped`` if nobody did; empty if nobody was asked to.
        asked: the models that the provider saw requests for, in this order.
        closed: what health keeps closed or half-open, why and for how long.
        words: the toasts, each as ``variant: title: message``, without times of the clock.
    """

    outcome: str
    asked: tuple[str, ...]
    closed: tuple[str, ...]
    words: tuple[str, ...]

    def difference(self, other: "Observation") -> list[str]:
        """Return a line for each field in which another observation differs."""
        pairs = ((each.name, getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return [f"{name}: {own!r} and not {its!r}" for name, own, its in pairs if own != its]


def shown_closure(key: Key, record: Closure, now: float) -> str:
    """Write a closure without times of the clock; its length is rounded, since hosts report it late."""
    state = "closed" if now < record.until else "half-open"
    for_s = round(record.until - record.closed_at, -1)
    return f"{key.scope} {key.provider}/{key.name}: {record.reason}, {state}, {for_s:g} s, {record.failures}"


def without_clock(message: str) -> str:
    """Return a toast's message without times of the clock."""
    return _CLOCK.sub("CLOCK", message)
