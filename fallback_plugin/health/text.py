"""How keys and records are written down: as text that every store takes, whatever a model is called."""

import json
from typing import Any, Final, get_args

from fallback_plugin.health.closure import Closure, Probe
from fallback_plugin.health.scope import Key, Scope

_SCOPES: Final = frozenset(get_args(Scope))
_KEY_PARTS: Final = 4


def key_text(key: Key) -> str:
    """Write a key as a JSON list; JSON escapes what UTF-8 cannot hold."""
    return _compact(list(key))


def read_key(text: str) -> Key | None:
    """Read what `key_text` wrote, None for anything else."""
    match _loaded(text):
        case [str(scope), str(), str(), str()] as parts if scope in _SCOPES and len(parts) == _KEY_PARTS:
            return Key(*parts)
    return None


def entry_text(key: Key, record: Closure | None) -> str:
    """Write a key and its record as one JSON list: the same ones always give the same text."""
    return _compact([list(key), _plain(record) if record else None])


def read_entry(text: str) -> tuple[Key, Closure | None] | None:
    """Read what `entry_text` wrote, None for anything else."""
    match _loaded(text):
        case [key, record] if (read := read_key(_compact(key))) is not None:
            return read, _record(record)
    return None


def lease_text(holder: str, until: float) -> str:
    """Write a lease as a JSON list."""
    return _compact([holder, until])


def read_lease(text: str) -> tuple[str, float] | None:
    """Read what `lease_text` wrote, None for anything else."""
    match _loaded(text):
        case [str(holder), int() | float() as until]:
            return holder, float(until)
    return None


def _plain(record: Closure) -> dict[str, object]:
    return {
        "until": record.until,
        "reason": record.reason,
        "failures": record.failures,
        "closed_at": record.closed_at,
        "probe": [record.probe.holder, record.probe.until] if record.probe else None,
    }


def _record(value: object) -> Closure | None:
    match value:
        case {
            "until": int() | float() as until,
            "reason": str(reason),
            "failures": int(failures),
            "closed_at": int() | float() as closed_at,
            **more,
        }:
            return Closure(float(until), reason, failures, float(closed_at), _probe(more.get("probe")))
    return None


def _probe(value: object) -> Probe | None:
    match value:
        case [str(holder), int() | float() as until]:
            return Probe(holder, float(until))
    return None


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _loaded(text: str) -> Any:  # noqa: ANN401 -- any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
