"""What was decided and why, in a file that outlives the process: one JSON object a line.

The file is bounded: a full one is renamed, and the one renamed before is gone. It holds names of models,
kinds and rules, and nothing that the person, a model or a provider wrote.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fallback_plugin.fallback.effects import NOT_INLINE, REDIRECT, Record, Why

MAX_BYTES: Final = 1_000_000
MAX_LINE: Final = 4_000
LATEST_S: Final = 1e11
"""Times past this, in seconds since the epoch, are none."""

BEGINNINGS: Final = frozenset({"switch", "retry", "exhausted", REDIRECT})
"""Decisions that answer a failure; what follows one in its session is how that ended."""


def beside(health_file: Path) -> Path:
    """Return where decisions are kept: in the folder of the health file."""
    return health_file.with_name("decisions.jsonl")


@dataclass(slots=True)
class DecisionLog:
    """Appends decisions. Several processes may share the file: a line is one write.

    ``on_trouble`` is told once why nothing can be kept.
    """

    file: Path
    on_trouble: Callable[[str], object]
    max_bytes: int = MAX_BYTES
    _told: bool = field(default=False, init=False)

    def write(self, record: Record, now: float) -> None:
        """Write a decision down; a failure to do so harms nobody."""
        line = next(line for said in _shorter(_plain(record, now)) if len(line := _line(said)) <= MAX_LINE)
        try:
            self._append(line)
        except OSError as error:
            if not self._told:
                self._told = True
                self.on_trouble(f"{self.file}: decisions are not kept ({error.strerror or error})")

    def _append(self, line: bytes) -> None:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
            if os.fstat(descriptor).st_size > self.max_bytes:
                self._make_room(descriptor)
        finally:
            os.close(descriptor)

    def _make_room(self, descriptor: int) -> None:
        """Rename the full file, unless another process does so or has done so."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), self.file.stat()):
                self.file.replace(_older(self.file))
        except (BlockingIOError, FileNotFoundError):
            return


def read_decisions(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what was decided, oldest first; lines that make no sense are passed over.

    Raises:
        OSError: if a file is there and cannot be read.
    """
    for place in (_older(file), file):
        try:
            text = place.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        for line in text.split("\n"):
            try:
                decision = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _makes_sense(decision):
                yield decision


def last_answers(
    decisions: Sequence[Mapping[str, Any]], session: str | None = None
) -> list[list[Mapping[str, Any]]]:
    """Return the answers to failures of one session, oldest first: each a beginning and what came of it.

    Without ``session`` it is the one that was last answered.
    """
    if session is None:
        session = next((d["session"] for d in reversed(decisions) if d.get("decision") in BEGINNINGS), None)
    answers: list[list[Mapping[str, Any]]] = []
    before: list[Mapping[str, Any]] = []
    for decision in decisions:
        if decision["session"] != session:
            continue
        if decision.get("decision") in BEGINNINGS:
            answers.append([decision, *before])
            before = []
        elif decision.get("decision") == NOT_INLINE:
            before.append(decision)
        elif answers:
            answers[-1].append(decision)
    return answers


def _older(file: Path) -> Path:
    return file.with_name(f"{file.name}.1")


def _line(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said).encode("ascii") + b"\n"


def _shorter(said: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a decision as it is and then with less and less of it."""
    yield said
    if why := said.get("why"):
        many = {"model": f"{len(why['passed_over'])} candidates", "reason": "too many to keep", "until": None}
        yield {**said, "why": {**why, "passed_over": [many]}}
    yield {
        "at": said["at"],
        "session": said["session"][:100],
        "decision": said["decision"][:100],
        "reason": "",
    }


def _plain(record: Record, now: float) -> dict[str, Any]:
    said = {
        "at": now,
        "session": record.session_id,
        "decision": record.decision,
        "reason": record.reason,
    }
    return {**said, "why": _plain_why(record.why)} if record.why else said


def _plain_why(why: Why) -> dict[str, Any]:
    failure = why.failure
    return {
        "turn": why.turn,
        "sign": why.sign,
        "failed": str(why.failed),
        "kind": failure.kind,
        "scope": why.closes,
        "http_status": failure.http_status,
        "retry_after_s": failure.retry_after_s,
        "rule": failure.evidence,
        "taken": str(why.taken) if why.taken else None,
        "passed_over": [
            {"model": str(each.model), "reason": each.reason, "until": each.until} for each in why.passed_over
        ],
    }


def _makes_sense(decision: object) -> bool:
    """Tell whether something is what `_plain` makes."""
    match decision:
        case {"at": at, "session": str(), "decision": str(), "reason": str(), **more}:
            return _is_time(at) and ("why" not in more or _why_makes_sense(more["why"]))
    return False


def _why_makes_sense(why: object) -> bool:
    match why:
        case {
            "turn": str(),
            "sign": str(),
            "failed": str(),
            "kind": str(),
            "scope": str() | None,
            "http_status": int() | None,
            "retry_after_s": int() | float() | None,
            "rule": str(),
            "taken": str() | None,
            "passed_over": list(passed_over),
        }:
            return all(map(_passed_over_makes_sense, passed_over))
    return False


def _passed_over_makes_sense(passed: object) -> bool:
    match passed:
        case {"model": str(), "reason": str(), "until": until}:
            return until is None or _is_time(until)
    return False


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < LATEST_S
