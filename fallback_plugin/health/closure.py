"""What is known of one closed key, and how that changes: plain functions that every store applies.

A key without a record is open. With one it is closed until ``until`` and *half-open* from then on: one holder
may begin a probe, which is a request to see whether it works again. A success removes the record, a failure
closes the key for longer. A record that nobody probes is forgotten a day after its time.
"""

from dataclasses import dataclass, field, replace
from typing import Final

MAX_WAIT_S: Final = 24 * 3600.0
"""No hint closes anything for longer; reports of week-long hints that were wrong are common."""

FORGOTTEN_AFTER_S: Final = 24 * 3600.0
"""How long a record is kept behind its time, so that the next failure still counts as one in a row."""

NEVER: Final = float("-inf")

_MOST_DOUBLINGS: Final = 30
_REASON_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Probe:
    """The one request that may go out: whose it is, and when it counts as abandoned."""

    holder: str
    until: float


@dataclass(frozen=True, slots=True)
class Closure:
    """Why and until when a key is closed. Times are seconds since the epoch.

    Attributes:
        until: when a probe may begin.
        reason: the kind of the last failure.
        failures: how often in a row a failure closed the key; those in mid-closure do not count.
        closed_at: when the last failure closed it.
        probe: the probe that runs, or ran last.
        shared: whether other machines know this record; no part of what it says.
    """

    until: float
    reason: str
    failures: int
    closed_at: float
    probe: Probe | None = None
    shared: bool = field(default=False, compare=False)


def remembered(record: Closure | None, now: float) -> Closure | None:
    """Return a record unless it is so old that it says nothing any more."""
    return record if record is not None and now < record.until + FORGOTTEN_AFTER_S else None


def closed_until(record: Closure, now: float, holder: str = "") -> float:
    """Return until when a record closes its key for a holder, `NEVER` if it does not.

    A half-open key is open to whoever may probe it: to all while no probe runs, then to its holder only.
    """
    if now < record.until:
        return record.until
    probe = record.probe
    if probe is None or now >= probe.until or probe.holder == storable(holder):
        return NEVER
    return probe.until


def half_open(record: Closure, now: float) -> bool:
    """Tell whether a record's time is over and it waits for a probe, or for the end of one."""
    return record.until <= now < record.until + FORGOTTEN_AFTER_S


def closed(
    record: Closure | None,
    until: float,
    *,
    reason: str,
    now: float,
    base_s: float,
    grows_to_s: float = MAX_WAIT_S,
) -> Closure | None:
    """Return the record after a failure.

    In mid-closure a key is closed for longer if the failure asks for it, never for shorter. Otherwise it is
    closed until ``until``, or for ``base_s`` doubled with each failure in a row if that is longer, up to
    ``grows_to_s``; never for longer than `MAX_WAIT_S`. A time that is over closes nothing.
    """
    record = remembered(record, now)
    latest = now + MAX_WAIT_S
    if record is not None and now < record.until:
        end = min(max(until, now + base_s), latest)
        if end <= record.until:
            return record
        return Closure(end, _short(reason), record.failures, now)
    failures = record.failures + 1 if record else 1
    grown = now + min(base_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), grows_to_s)
    end = min(max(until, grown), latest)
    return Closure(end, _short(reason), failures, now) if end > now else record


def probed(record: Closure | None, holder: str, now: float, *, ttl_s: float) -> Closure | None:
    """Return the record after a holder asked for the probe: changed if it is granted."""
    record = remembered(record, now)
    if record is None or closed_until(record, now, holder) > now:
        return record
    return replace(record, probe=Probe(storable(holder), now + ttl_s), shared=False)


def may_ask(record: Closure | None, holder: str, now: float) -> bool:
    """Tell from the record after `probed` whether the holder may send its request."""
    if record is None:
        return True
    probe = record.probe
    return now >= record.until and probe is not None and probe.holder == storable(holder)


def given_back(record: Closure | None, holder: str) -> Closure | None:
    """Return the record after a holder's probe ended without showing anything."""
    if record is None or record.probe is None or record.probe.holder != storable(holder):
        return record
    return replace(record, probe=None, shared=False)


def reopened(record: Closure | None, *, asked_at: float) -> Closure | None:
    """Return the record after a success: none, unless a failure came after the request was sent."""
    return record if record is not None and record.closed_at > asked_at else None


def joined(one: Closure | None, other: Closure | None) -> Closure | None:
    """Return what two places that did not hear of each other know together: the longer closure."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda record: (record.until, record.failures, record.closed_at))


def storable(text: str) -> str:
    """Return a text that every store takes: half a surrogate pair, which JSON may bring, has no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _short(reason: str) -> str:
    return storable(reason[:_REASON_LENGTH])
