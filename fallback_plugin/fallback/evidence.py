"""What an error shows, collected from wherever a provider or a gateway has put it.

An error object, its body, JSON text inside a message, an error wrapped in an error, a list of details: all
are walked, within bounds, for codes, texts and reset times.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from fallback_plugin.events import HostError

MAX_TEXT: Final = 4096
"""Characters of an error's texts that are read; what decides stands at their beginning."""

MAX_BODY: Final = 65_536
MAX_DEPTH: Final = 8
MAX_FIELDS: Final = 500

CODE_KEYS: Final = frozenset(
    {"code", "type", "status", "__type", "reason", "error_code", "errorcode", "status_code", "name"}
)
STATUS_KEYS: Final = frozenset({"code", "status", "status_code", "statuscode"})
ERROR_STATUSES: Final = range(400, 600)
TEXT_KEYS: Final = frozenset(
    {
        "message",
        "msg",
        "error",
        "detail",
        "details",
        "raw",
        "error_description",
        "error_message",
        "error_msg",
        "err_msg",
        "errmsg",
        "status_msg",
        "title",
    }
    | {"quotaid", "quotametric", "description", "summary", "cause", "errors"}
)


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a body, under its key in lower case."""

    key: str
    value: str | float


@dataclass(frozen=True, slots=True)
class Evidence:
    """``codes`` and ``text`` are in lower case; ``fields`` are all plain values of the bodies.

    ``retried`` says that the host's own retries are spent; ``relayed``: an aggregator repeats its
    upstream's error.
    """

    name: str
    codes: frozenset[str]
    provider_code: str | None
    text: str
    status: int | None
    fields: tuple[Field, ...]
    headers: Mapping[str, str]
    retried: bool = False
    relayed: bool = False


def gather(error: HostError) -> Evidence:
    """Collect what an error shows. Never raises."""
    fields: list[Field] = []
    texts: list[str] = []
    for text in (error.message, error.response_body or ""):
        found = list(_fields(_json_in(text), 0)) if text else []
        fields += found
        # A message that is JSON is read by its parts, so that keys and brackets cannot look like prose.
        texts += [str(each.value) for each in found if each.key in TEXT_KEYS] if found else [text[:MAX_TEXT]]
        if found and not text.lstrip().startswith(("{", "[")):
            texts.insert(0, text.partition("{")[0][:MAX_TEXT])
    joined = "\n".join(texts)[:MAX_TEXT]
    codes = [_code(each.value) for each in fields[:MAX_FIELDS] if each.key in CODE_KEYS]
    return Evidence(
        name=error.name.lower(),
        codes=frozenset([*codes, *(word.lower() for word in _code_words().findall(joined))]),
        provider_code=next((code for code in codes if code not in _NO_CODES), None),
        text=plain(joined),
        status=error.status_code or next(filter(None, map(_status, fields)), None),
        fields=tuple(fields),
        headers=error.response_headers,
        retried=error.is_retryable is True,
        relayed=any(each.key == "raw" for each in fields),
    )


def _status(field: Field) -> int | None:
    """Return the HTTP status a body repeats as its code."""
    number = field.value if isinstance(field.value, float) and field.key in STATUS_KEYS else 0.0
    return int(number) if number in ERROR_STATUSES else None


_NO_CODES: Final = frozenset({"", "error", "200", "0"})


@cache
def _code_words() -> re.Pattern[str]:
    """Words of a text that only a program writes: ``rate_limit_exceeded``, ``ThrottlingException``."""
    return re.compile(
        r"\b(?:[A-Za-z]{2,30}(?:_[A-Za-z]{1,30}){1,6}|[A-Z][a-z]{1,30}(?:[A-Z][a-z]{1,30}){1,6})\b"
    )


def plain(text: str) -> str:
    """Return a text in lower case, with plain quotation marks."""
    return text.lower().replace("\u2019", "'")


def _code(value: str | float) -> str:
    """Return a code as it is compared: in lower case, without a namespace, a number without its fraction."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip().lower().rpartition("#")[2]


def _json_in(text: str) -> object:
    """Return the JSON value that a text is or ends with, None if there is none."""
    start = min((at for at in (text.find("{"), text.find("[{")) if at >= 0), default=-1)
    if start < 0 or len(text) > MAX_BODY:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None


def _fields(value: object, depth: int, key: str = "") -> Iterator[Field]:
    if depth > MAX_DEPTH:
        return
    match value:
        case Mapping():
            for name, inner in list(value.items())[:MAX_FIELDS]:
                yield from _fields(inner, depth + 1, str(name).lower())
        case list():
            for inner in value[:MAX_FIELDS]:
                yield from _fields(inner, depth + 1, key)
        case bool() | None:
            return
        case int() | float():
            yield Field(key, _as_float(value))
        case str():
            yield Field(key, value)
            if "{" in value:
                yield from _fields(_json_in(value), depth + 1, key)


def _as_float(value: Any) -> float:  # noqa: ANN401 -- an int of any size
    try:
        return float(value)
    except OverflowError:
        return float("inf")
