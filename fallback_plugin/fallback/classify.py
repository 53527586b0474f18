"""Why a model failed, read from whatever the host shows of it.

Structured evidence goes first: the host's error name, the provider's code, the status. A phrase may make a
status more exact (a 429 that is about money, a 400 that is an overflow), never a bare number in prose.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fallback_plugin.events import HostError
from fallback_plugin.fallback.reset_time import capped, retry_after_s
from fallback_plugin.fallback.rules.codes import CODE_KINDS
from fallback_plugin.fallback.rules.phrases import PHRASES, STATED_STATUS
from fallback_plugin.fallback.rules.statuses import status_kind
from fallback_plugin.health.scope import Scope
from fallback_plugin.settings import FailureKind, Rule

MAX_TEXT: Final = 4096
"""Characters of an error text that are read; what decides stands at its beginning."""

NAME_KINDS: Final[Mapping[str, FailureKind]] = {
    "ContextOverflowError": "overflow",
    "ContentFilterError": "content_policy",
    "ProviderAuthError": "auth",
    "LoadAPIKeyError": "auth",
    "AI_LoadAPIKeyError": "auth",
    "ProviderModelNotFoundError": "model_not_found",
    "StructuredOutputError": "bad_request",
}
"""Error names of OpenCode 1.18.33 and the AI SDK that say it all."""

_REFINES: Final[Mapping[FailureKind, frozenset[FailureKind]]] = {
    "rate_limit": frozenset({"quota", "billing", "concurrency"}),
    "bad_request": frozenset({"overflow", "model_not_found", "auth", "quota", "billing", "rate_limit"}),
    "auth": frozenset({"quota", "billing", "model_not_found"}),
    "server": frozenset({"overload", "model_not_found", "rate_limit", "quota", "billing", "timeout"}),
    "model_not_found": frozenset({"auth", "billing"}),
}
"""Which kinds a phrase may turn a status' kind into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A classified failure.

    ``retry_after_s`` is how long the provider wants to be left alone, None if it does not say. ``evidence``
    names what decided: ``name:…``, ``code:…``, ``status:…``, ``phrase:…`` or ``rule:…``.
    """

    kind: FailureKind
    scope: Scope = "model"
    retry_after_s: float | None = None
    http_status: int | None = None
    provider_code: str | None = None
    evidence: str = ""

    def waiting(self, wait_s: float) -> "Failure":
        """Return the failure with a wait that was learnt elsewhere."""
        return replace(self, retry_after_s=capped(wait_s))


def classify(error: HostError, now: float, *, rules: Iterable[Rule] = ()) -> Failure:
    """Classify an error object, or a retry status given as a `HostError` with nothing but its message.

    ``rules`` are the user's own; they speak where the error's name and code do not. Never raises.
    """
    text = f"{error.message}\n{error.response_body or ''}"[:MAX_TEXT].lower()
    code = _provider_code(error)
    status = error.status_code or _stated_status(text)
    kind, evidence = _kind(error.name, code, status, text, rules)
    return Failure(
        kind=kind,
        retry_after_s=retry_after_s(error.response_headers, now),
        http_status=status,
        provider_code=code,
        evidence=evidence,
    )


def _kind(
    name: str, code: str | None, status: int | None, text: str, rules: Iterable[Rule]
) -> tuple[FailureKind, str]:
    if found := NAME_KINDS.get(name):
        return found, f"name:{name}"
    if code and (found := CODE_KINDS.get(code)):
        return found, f"code:{code}"
    for rule in rules:
        if rule.regex.search(text):
            return rule.kind, f"rule:{rule.pattern}"
    by_status = status_kind(status) if status else None
    allowed = _REFINES.get(by_status, frozenset()) if by_status else None
    for phrase in PHRASES:
        if (allowed is None or phrase.kind in allowed) and phrase.pattern.search(text):
            return phrase.kind, f"phrase:{phrase.pattern.pattern}"
    if by_status:
        return by_status, f"status:{status}"
    return "unknown", ""


def _stated_status(text: str) -> int | None:
    found = STATED_STATUS.search(text)
    return int(found[1]) if found else None


def _provider_code(error: HostError) -> str | None:
    """Return the first known code of the error object in the body, or in a message that is JSON."""
    candidates = []
    for text in (error.response_body, error.message):
        candidates += _codes(_json_object(text))
    return next((code for code in candidates if code in CODE_KINDS), candidates[0] if candidates else None)


def _json_object(text: str | None) -> Mapping[str, Any]:
    if not text or "{" not in text:
        return {}
    try:
        value = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _codes(body: Mapping[str, Any]) -> list[str]:
    nested = body.get("error")
    error = nested if isinstance(nested, Mapping) else body
    values = (error.get(key) for key in ("code", "type", "status"))
    return [value.lower() for value in values if isinstance(value, str) and value]
