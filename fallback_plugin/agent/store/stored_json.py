"""JSON in a column, and text that SQLite takes."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from fallback_plugin.agent.records import Json

_log = logging.getLogger(__name__)


def written(value: Json) -> str:
    """Return a value as compact JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if is_storable(text) else json.dumps(value, separators=(",", ":"))


def read(text: str | None, what: str) -> dict[str, Any] | None:
    """Return the object in a column; one that makes no sense is None, and named in the log."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, Mapping):
        return dict(value)
    _log.warning("%s: its row is no JSON object, and is shown without it", what)
    return None


def storable(text: str) -> str:
    """Return text that SQLite takes: halves of a character become one again, or a replacement mark."""
    if is_storable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_storable(text: str) -> bool:
    """Tell whether text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
