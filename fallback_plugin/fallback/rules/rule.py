"""The shape of a built-in rule: one row of a table."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from fallback_plugin.health.scope import Scope
from fallback_plugin.settings import FailureKind

NAME_LENGTH: Final = 72

ZAI: Final = ("zai", "z-ai", "zhipu", "bigmodel", "glm")
"""How the ids of z.ai's providers begin; its codes are bare numbers, which others use as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """A failure is of ``kind`` if everything holds that the row names.

    Attributes:
        kind: what the failure is.
        source: who says so.
        codes: the provider's code, type or error name is one of these, in lower case.
        phrase: a regular expression that is found in the lower-case text.
        statuses: the HTTP status is one of these; one that is not known passes.
        only_statuses: as ``statuses``, and the status has to be known.
        providers: the provider's id begins with one of these; one that is not known passes.
        scope: what is closed; None leaves that to the kind.
        lasting: a short wait cannot help, though it does for most failures of the kind.
        local: this process sends no request, for want of a setting of its own; elsewhere the model may work.
    """

    kind: FailureKind
    source: str
    codes: frozenset[str] = frozenset()
    phrase: str = ""
    statuses: frozenset[int] = frozenset()
    only_statuses: frozenset[int] = frozenset()
    providers: tuple[str, ...] = ()
    scope: Scope | None = None
    lasting: bool = False
    local: bool = False

    def matches(self, codes: frozenset[str], text: str, status: int | None, provider: str) -> bool:
        """Tell whether a failure is as the row says. What is cheap to see goes first."""
        if self.codes and self.codes.isdisjoint(codes):
            return False
        if self.phrase and _pattern(self.phrase).search(text) is None:
            return False
        if self.statuses and status is not None and status not in self.statuses:
            return False
        if self.only_statuses and status not in self.only_statuses:
            return False
        return not (self.providers and provider and not provider.startswith(self.providers))

    def compile(self) -> None:
        """Compile the phrase ahead of the first failure, which would wait for it."""
        if self.phrase:
            _pattern(self.phrase)

    @property
    def name(self) -> str:
        """What the row is called in evidence."""
        return _name(self.phrase, self.codes)


@cache
def _name(phrase: str, names: frozenset[str]) -> str:
    """Return a row's name: one string for all failures, since each session keeps those of its turn."""
    name = f"phrase:{phrase}" if phrase else f"code:{'|'.join(sorted(names))}"
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    """Return a phrase's pattern; compiled when first needed, since a start should not pay for it."""
    return re.compile(phrase)


def codes(
    kind: FailureKind,
    names: str,
    source: str,
    *,
    providers: tuple[str, ...] = (),
    statuses: frozenset[int] = frozenset(),
    only_statuses: frozenset[int] = frozenset(),
    scope: Scope | None = None,
    lasting: bool = False,
    local: bool = False,
) -> BuiltIn:
    """Return the row for some codes, given with spaces between."""
    return BuiltIn(
        kind=kind,
        source=source,
        codes=frozenset(names.lower().split()),
        providers=providers,
        statuses=statuses,
        only_statuses=only_statuses,
        scope=scope,
        lasting=lasting,
        local=local,
    )


def phrase(
    kind: FailureKind,
    pattern: str,
    source: str,
    *,
    statuses: frozenset[int] = frozenset(),
    only_statuses: frozenset[int] = frozenset(),
    providers: tuple[str, ...] = (),
    scope: Scope | None = None,
    lasting: bool = False,
) -> BuiltIn:
    """Return the row for a phrase."""
    return BuiltIn(
        kind=kind,
        source=source,
        phrase=pattern,
        statuses=statuses,
        only_statuses=only_statuses,
        providers=providers,
        scope=scope,
        lasting=lasting,
    )
