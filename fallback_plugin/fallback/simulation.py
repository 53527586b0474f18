"""A recorded stretch of a host's events, played through the engine: what would be done, and why.

Time is the recording's, and ends with it. Calls are answered at once and well; a prompt of ours does not
change what the recording goes on to show, so that the model it went to is not held to any time.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fallback_plugin.errors import FallbackPluginError, WireError
from fallback_plugin.events import Event, StoredMessage
from fallback_plugin.fallback.effects import (
    PROBED,
    Abort,
    Claim,
    CloseModel,
    DeleteMessage,
    Done,
    Effect,
    Failed,
    Fetched,
    FetchMessages,
    FetchSession,
    Outcome,
    Prompt,
    Record,
    Reopen,
    Revert,
    StartTimer,
    StopTimer,
    TimerFired,
    Toast,
)
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.health import MemoryHealth
from fallback_plugin.settings import Settings
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.message import read_history

HOLDER: Final = "simulation"
LEASE_S: Final = 120.0
_NOT_EVENTS: Final = frozenset({"client", "note", "provider"})


class TraceError(FallbackPluginError):
    """A file is no recording of a host."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of a recording; ``at`` is in seconds from its beginning."""

    trace: str
    at: float
    event: Event
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that would be done: ``at`` seconds after the recording began, in words, and why."""

    trace: str
    at: float
    session: str
    effect: str
    reason: str = ""


def read_trace(lines: Iterable[str]) -> Iterator[Moment]:
    """Read a recording: ``{t, event}`` a line, in seconds, or ``{trace, t_ms, type, properties}``.

    Raises:
        TraceError: with the line's number, if a line is neither.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            source = json.loads(line)
        except (ValueError, RecursionError):
            raise TraceError(f"line {number}: this is no JSON; a recording has one object a line") from None
        found = _moment(source) if isinstance(source, dict) else None
        if found is not None:
            yield found
        elif not isinstance(source, dict) or not _is_known(source):
            raise TraceError(
                f"line {number}: this is no event of a host; "
                'write {"t": seconds, "event": {"type": …, "properties": …}}'
            )


def _is_known(source: Mapping[str, Any]) -> bool:
    """Tell whether a line belongs to a recording though it is no event the host sends."""
    return bool(_NOT_EVENTS & source.keys()) or "event" in source or "type" in source


def _moment(source: Mapping[str, Any]) -> Moment | None:
    raw = source.get("event")
    if isinstance(raw, dict):
        at = source.get("t", 0.0)
        raw = raw.get("payload", raw)  # a stream of all directories wraps its events
    elif isinstance(source.get("type"), str) and isinstance(source.get("properties"), dict):
        raw, at = source, source.get("t_ms", 0.0) / 1000
    if not isinstance(raw, dict) or raw.get("type") == "sync" or str(raw.get("type")).startswith("HOOK"):
        return None
    try:
        return Moment(str(source.get("trace", "")), float(at), read_event(raw), raw)
    except (WireError, TypeError, ValueError):
        return None


def simulate(moments: Iterable[Moment], settings: Settings, *, began: float = 0.0) -> Iterator[Step]:
    """Play a recording, each trace of it by itself, and yield what would be done.

    ``began`` is when the recording began, in seconds since the epoch, for reset times.
    """
    player: _Player | None = None
    for sequence, moment in enumerate(moments, 1):
        if player is None or player.trace != moment.trace:
            player = _Player(moment.trace, Engine(settings), began)
        yield from player.play(moment, sequence)


@dataclass(slots=True)
class _Player:
    """One engine in front of one trace; ``beyond`` are sessions that a prompt of ours took out of it."""

    trace: str
    engine: Engine
    began: float
    at: float = 0.0
    health: MemoryHealth = field(default_factory=MemoryHealth)
    timers: dict[tuple[str, str], tuple[float, StartTimer]] = field(default_factory=dict)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    beyond: set[str] = field(default_factory=set)

    @property
    def now(self) -> float:
        return self.began + self.at

    def play(self, moment: Moment, sequence: int) -> Iterator[Step]:
        """Let the timers run out that are due, then tell the event."""
        yield from self._wait_until(moment.at)
        self._remember(moment.raw)
        yield from self._tell(read_event(moment.raw, sequence=sequence))

    def _wait_until(self, at: float) -> Iterator[Step]:
        while due := min((t for t in self.timers.values() if t[0] <= at), key=lambda t: t[0], default=None):
            moment, timer = due
            del self.timers[timer.session_id, timer.name]
            self.at = max(self.at, moment)
            yield from self._tell(TimerFired(timer.session_id, timer.name, timer.attempt))
        self.at = max(self.at, at)

    def _tell(self, event: Event | TimerFired) -> Iterator[Step]:
        self._look()
        yield from self._take(self.engine.handle(event, self.now))

    def _look(self) -> None:
        self.engine.health.view = self.health.view(self.now)

    def _take(self, effects: Iterable[Effect]) -> Iterator[Step]:
        taken = list(effects)
        for effect in taken:
            if words := _words(effect):
                reason = effect.reason if isinstance(effect, Record) else ""
                yield Step(self.trace, round(self.at, 3), effect.session_id, words, reason)
        for effect in taken:
            outcome = self._outcome(effect)
            if outcome is not None:
                self._look()
                yield from self._take(self.engine.finished(effect, outcome, self.now))

    def _outcome(self, effect: Effect) -> Outcome | None:
        """Carry an effect out; None if the engine does not wait for what comes of it."""
        match effect:
            case Claim():
                probing = effect.probe is None or self._probe(effect)
                return Done() if probing else Failed(PROBED)
            case Prompt():
                self.beyond.add(effect.session_id)
                return Done()
            case Abort() | Revert() | DeleteMessage():
                return Done()
            case FetchSession():
                return Fetched()
            case FetchMessages():
                return Fetched(messages=tuple(self._history(effect.session_id)))
            case StartTimer() if effect.name == "settle" or effect.session_id not in self.beyond:
                self.timers[effect.session_id, effect.name] = self.at + effect.after_s, effect
            case StopTimer():
                self.timers.pop((effect.session_id, effect.name), None)
            case CloseModel():
                self.health.close(
                    effect.model,
                    effect.scope,
                    effect.until,
                    reason=effect.reason,
                    now=self.now,
                    base_s=effect.base_s,
                )
            case Reopen():
                self.health.reopen(effect.model, asked_at=effect.asked_at)
        return None

    def _probe(self, claim: Claim) -> bool:
        if claim.probe is None:
            return True
        return self.health.begin_probe(claim.probe, claim.session_id, self.now, ttl_s=LEASE_S)

    def _remember(self, raw: Mapping[str, Any]) -> None:
        """Keep what the host's history would hold."""
        properties = raw.get("properties") or {}
        info, part = properties.get("info"), properties.get("part")
        if raw.get("type") == "message.updated" and isinstance(info, dict):
            if info.get("role") == "user" and str(info.get("id")) not in self.messages:
                self.beyond.discard(str(info.get("sessionID")))
            self.messages.setdefault(str(info.get("id")), {"parts": {}})["info"] = info
        elif raw.get("type") == "message.part.updated" and isinstance(part, dict):
            entry = self.messages.setdefault(str(part.get("messageID")), {"parts": {}})
            entry["parts"][part.get("id")] = part

    def _history(self, session_id: str) -> list[StoredMessage]:
        entries = [
            {"info": entry["info"], "parts": list(entry["parts"].values())}
            for entry in self.messages.values()
            if entry.get("info", {}).get("sessionID") == session_id
        ]
        return read_history(entries)


def _words(effect: Effect) -> str:
    """Put an effect into words; what only prepares another one is left out."""
    match effect:
        case Abort():
            words = "stop the run"
        case Prompt():
            again = "the turn in place" if effect.body.message_id else "the message anew"
            words = f"run {again} on {effect.body.model}"
        case Revert():
            words = f"take back {effect.message_id}"
        case DeleteMessage():
            words = f"delete {effect.message_id}"
        case CloseModel():
            words = f"close {effect.model} ({effect.scope}) for {effect.reason}"
        case Reopen():
            words = f"reopen {effect.model}"
        case Toast():
            lines = effect.body.message.replace("\n", " / ")
            words = f"show “{effect.body.title}: {lines}”"
        case Record():
            words = f"decide: {effect.decision}"
        case _:
            words = ""
    return words
