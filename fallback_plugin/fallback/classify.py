"""Why a model failed, read from whatever the host shows of it.

Structured evidence goes first: the host's error name, the provider's code, the status. A phrase may make a
status more exact (a 429 that is about money, a 400 that is an overflow), never a bare number in prose.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fallback_plugin.events import HostError
from fallback_plugin.fallback.evidence import MAX_TEXT, Evidence, gather
from fallback_plugin.fallback.reset_time import sensible, told_wait_s
from fallback_plugin.fallback.rules.host import NAMES
from fallback_plugin.fallback.rules.order import RULES
from fallback_plugin.fallback.rules.rule import BuiltIn
from fallback_plugin.fallback.rules.statuses import REFINES, stated_status, status_kind
from fallback_plugin.health.scope import Scope
from fallback_plugin.settings import FailureKind, Rule

PATIENCE_S: Final = 60.0
"""A wait that is longer is none for a person in front of a screen."""

HOST_BACKOFF_S: Final = 40.0
"""The longest wait of OpenCode's own making; a longer one comes from the provider."""

SCOPES: Final[Mapping[FailureKind, Scope]] = {"quota": "account", "billing": "account", "auth": "account"}
"""What a failure of a kind closes where its rule does not say: the model alone for all others."""

_FIRST_BACKOFF_S: Final = 2.5
"""The longest wait before OpenCode's first retry; each further one is twice as long."""

HOSTS_WAIT_COUNTS: Final = frozenset[FailureKind](
    {"rate_limit", "server", "overload", "transport", "concurrency", "unknown"}
)
"""Kinds for which the host's own short wait says something about the model."""

RELAYED: Final = frozenset[FailureKind]({"rate_limit", "overload", "server", "quota", "billing"})
"""Kinds that are the upstream's own trouble where an aggregator repeats its error."""

PLANS: Final = frozenset[FailureKind]({"quota", "billing"})


_SAMPLES: Final = (
    "Something odd_happened 2 hours and 5 minutes ago. The limit resets some day.",
    "The limit resets on 2026-01-02 at 03:04 (UTC+1).",
)
"""Sentences that everything is looked for in."""


_VARIABLE: Final = (
    r"environment variable ([A-Za-z_][A-Za-z0-9_]{0,99})\b|\b([A-Z][A-Z0-9_]{0,99}) environment variable"
)
"""How our own host and the AI SDK name the variable that holds no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A classified failure.

    Attributes:
        kind: why the model failed.
        scope: what is closed by it.
        retry_after_s: how long the provider wants to be left alone, None if it does not say. Not capped.
        http_status: the status, given or named in the text.
        provider_code: the provider's own code or type.
        evidence: what decided: ``name:…``, ``code:…``, ``status:…``, ``phrase:…`` or ``rule:…``.
        lasting: a short wait cannot help, though it does for most failures of the kind.
        cut_off: the answer had begun to come and ended without its proper end.
        local: no request was sent, for want of a setting of this process; nothing is closed for others.
        variable: the environment variable whose key is missing, where the host names it.
    """

    kind: FailureKind
    scope: Scope = "model"
    retry_after_s: float | None = None
    http_status: int | None = None
    provider_code: str | None = None
    evidence: str = ""
    lasting: bool = False
    cut_off: bool = False
    local: bool = False
    variable: str | None = None

    def with_host_wait(self, wait_s: float) -> "Failure":
        """Return the failure with the host's own wait for its next attempt, where that says something."""
        long = wait_s > HOST_BACKOFF_S
        counts = self.kind in HOSTS_WAIT_COUNTS or (self.kind in PLANS and long)
        wait = sensible(wait_s)
        if self.retry_after_s is not None or wait is None or not counts:
            return self
        return replace(self, retry_after_s=wait, lasting=self.lasting or wait > PATIENCE_S)


def host_backoff_s(retry: int) -> float:
    """Return how long OpenCode waits by itself before its retry of that number, at most.

    It waits 2, 4, 8, 16 and 32 s and up to a quarter more (1.18.33, measured); longer is the provider's word.
    """
    doublings = min(max(retry - 1, 0), 8)
    return float(min(_FIRST_BACKOFF_S * 2**doublings, HOST_BACKOFF_S))


def classify(
    error: HostError,
    now: float,
    *,
    rules: Iterable[Rule] = (),
    provider: str | None = None,
    compacting: bool = False,
) -> Failure:
    """Classify an error object, or a retry status given as a `HostError` with nothing but its message.

    ``rules`` are the user's own; they speak where the host's name for the error does not. ``provider`` is the
    id of the provider whose model failed. ``compacting`` says that the host was shortening its history, so
    that an overflow is its last word. Never raises.
    """
    shown = gather(error)
    status = shown.status or stated_status(shown.text)
    status = status if status and status_kind(status) else None
    retry_after_s = told_wait_s(shown, now)
    row = _row(shown, status, rules, (provider or "").lower())
    lasting = (row.lasting and retry_after_s is None) or (compacting and row.kind == "overflow")
    return Failure(
        kind=row.kind,
        scope="upstream"
        if shown.relayed and row.kind in RELAYED
        else row.scope or SCOPES.get(row.kind, "model"),
        retry_after_s=retry_after_s,
        http_status=status,
        provider_code=shown.provider_code,
        evidence=row.evidence,
        lasting=lasting or (retry_after_s or 0) > PATIENCE_S,
        local=row.local,
        variable=_variable(error.message) if row.local and row.kind == "auth" else None,
    )


def _variable(text: str) -> str | None:
    found = re.search(_VARIABLE, text[:MAX_TEXT])
    return found[1] or found[2] if found else None


def warm_up() -> Iterator[None]:
    """Compile, a piece at a time, what the first failure would otherwise wait for: 20 ms and more."""
    for built_in in RULES:
        built_in.compile()
        yield
    for sample in _SAMPLES:
        classify(HostError(name="", message=sample), now=0.0)
        yield


@dataclass(frozen=True, slots=True)
class _Row:
    """What decided."""

    kind: FailureKind
    evidence: str
    scope: Scope | None = None
    lasting: bool = False
    local: bool = False


def _row(shown: Evidence, status: int | None, rules: Iterable[Rule], provider: str) -> _Row:
    own_name = frozenset({shown.name})
    for built_in in NAMES:
        if built_in.matches(own_name, shown.text, None, provider):
            return _of(built_in, f"name:{shown.name}")
    for rule in rules:
        if rule.regex.search(shown.text):
            return _Row(rule.kind, f"rule:{rule.pattern}", rule.scope)
    by_status = status_kind(status) if status else None
    # A server's trouble that nothing explains, and that the host's own retries did not outlast.
    spent = shown.retried and shown.status is not None
    allowed = REFINES.get(by_status) if by_status else None
    for built_in in RULES:
        if allowed is not None and built_in.kind not in allowed:
            continue
        if built_in.matches(shown.codes | own_name, shown.text, status, provider):
            row = _of(built_in, built_in.name)
            return replace(
                row, lasting=row.lasting or (spent and row.kind == "server" and not built_in.codes)
            )
    if by_status:
        return _Row(by_status, f"status:{status}", lasting=spent and by_status == "server")
    return _Row("unknown", "")


def _of(built_in: BuiltIn, evidence: str) -> _Row:
    return _Row(built_in.kind, evidence, built_in.scope, built_in.lasting, built_in.local)
