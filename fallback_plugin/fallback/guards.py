"""What keeps one failure from being answered twice, and tells our own aborts from the user's."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fallback_plugin.fallback.state import FallbackState
from fallback_plugin.model_ref import ModelRef

ABORT_GRACE_S: Final = 2.0
"""How long after the host answered our abort its error may still arrive."""


class RetryInFlight:
    """The sessions whose failure is being answered at this moment."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()

    def claim(self, session_id: str) -> bool:
        """Take a session's mark; False if somebody holds it."""
        if session_id in self._sessions:
            return False
        self._sessions.add(session_id)
        return True

    def release(self, session_id: str) -> None:
        """Give the mark back; harmless if nobody holds it."""
        self._sessions.discard(session_id)

    def __contains__(self, session_id: object) -> bool:
        """Tell whether a session's failure is being answered."""
        return session_id in self._sessions

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sessions in flight."""
        return iter(self._sessions)


def superseded(state: FallbackState, model: ModelRef) -> bool:
    """Tell whether an error of ``model`` is old news because another model is pending."""
    return state.pending is not None and state.pending != model


@dataclass(slots=True)
class OwnAbort:
    """An abort of ours, written down before the host is asked."""

    attempt: int
    opened_at: float
    answered_at: float | None = None
    idle_seen: bool = False

    def may_still_report(self, now: float) -> bool:
        """Tell whether the host may still send this abort's error without naming a message."""
        if self.answered_at is None:
            return True
        return not self.idle_seen and now - self.answered_at < ABORT_GRACE_S


@dataclass(slots=True)
class AbortLedger:
    """The aborts in a session that are ours. Whatever it does not explain, the user did.

    The host sends an abort's events before it answers the call, so the time of the answer alone is no guide:
    an entry is opened before the call and closed by the idle that follows, or by expiry. Attempts are
    numbered through the whole session.
    """

    entries: dict[int, OwnAbort] = field(default_factory=dict)

    def open(self, attempt: int, now: float) -> None:
        """Write down that an attempt is about to be aborted."""
        self.entries[attempt] = OwnAbort(attempt, now)

    def answered(self, attempt: int, now: float) -> None:
        """Note that the host has answered the call."""
        if entry := self.entries.get(attempt):
            entry.answered_at = now

    def withdraw(self, attempt: int) -> None:
        """Forget an abort that the host refused."""
        self.entries.pop(attempt, None)

    def idle(self) -> None:
        """Note an idle: the aborts written down so far have had their effect."""
        for entry in self.entries.values():
            entry.idle_seen = True

    def aborted(self, attempt: int) -> bool:
        """Tell whether we aborted this attempt; its message may say so at any later time."""
        return attempt in self.entries

    def may_still_report(self, now: float) -> bool:
        """Tell whether an abort error that names no message can be one of ours."""
        return any(entry.may_still_report(now) for entry in self.entries.values())

    def forget_before(self, attempt: int, now: float) -> None:
        """Drop the closed entries of earlier attempts."""
        for number, entry in list(self.entries.items()):
            if number < attempt and not entry.may_still_report(now):
                del self.entries[number]
