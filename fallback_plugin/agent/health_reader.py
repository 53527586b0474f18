"""What the fallback plugin keeps of models, read as any of its users may: health and decisions."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from fallback_plugin.fallback.chain import chain_for
from fallback_plugin.fallback.decisions import BEGINNINGS, beside, read_decisions
from fallback_plugin.health import HealthStore, HealthView, default_file
from fallback_plugin.health.closure import Closure, remembered
from fallback_plugin.health.opening import open_health
from fallback_plugin.health.scope import Key, keys_of
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import HealthSettings, Settings

logger = logging.getLogger(__name__)

ModelState: TypeAlias = Literal["open", "closed", "probe", "unavailable"]
"""``probe``: its time is over, and the next request shows whether it works again. ``unavailable``: this host
cannot ask it, whatever its health."""

Problem: TypeAlias = Callable[[ModelRef], str | None]
"""Tells why this host cannot ask a model, None if it can."""


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """How a model stands.

    Attributes:
        key: what closes it, with ``record``; None if nothing does.
        record: why it is closed.
        problem: why this host cannot ask it, None if it can.
    """

    model: ModelRef
    state: ModelState
    key: Key | None = None
    record: Closure | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ChainHealth:
    """The models of a chain, in the order in which they are asked; None is every other agent."""

    agent: str | None
    models: tuple[ModelHealth, ...]


class HealthReader:
    """Reads where the settings say that health is kept. Belongs to the event loop."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ: Final = environ
        self._store: HealthStore | None = None
        self._settings: HealthSettings | None = None

    def chains(
        self, settings: Settings, first: ModelRef | None, now: float, problem: Problem = lambda _: None
    ) -> list[ChainHealth]:
        """Return every chain with the health of its models; ``first`` is the host's own."""
        view = self._opened(settings.health).view(now)
        own = sorted(name for name, table in settings.agents.items() if table.fallback_models)
        return [
            ChainHealth(agent, tuple(model_health(view, model, problem(model)) for model in models))
            for agent in (None, *own)
            if (models := _with_first(first, chain_for(settings, agent)))
        ]

    def closure(self, settings: Settings, model: ModelRef, now: float) -> Closure | None:
        """Return what closes a model now; of several for longest."""
        health = model_health(self._opened(settings.health).view(now), model)
        return health.record if health.state == "closed" else None

    def switches(self, settings: Settings, most: int) -> list[Mapping[str, Any]]:
        """Return the last answers to failures, newest first; this reads a file.

        Raises:
            OSError: if it cannot be read.
        """
        decisions = list(read_decisions(beside(self._file(settings.health))))
        return list(islice(_answers(reversed(decisions)), most))

    def shut(self) -> None:
        """Let go of what is open."""
        if self._store is not None:
            self._store.shut()
            self._store = None

    def _opened(self, settings: HealthSettings) -> HealthStore:
        if self._store is None or settings != self._settings:
            self.shut()
            self._store = open_health(settings, self._environ, on_trouble=logger.warning)
            self._settings = settings
        return self._store

    def _file(self, settings: HealthSettings) -> Path:
        return settings.file or default_file(self._environ)


def model_health(view: HealthView, model: ModelRef, problem: str | None = None) -> ModelHealth:
    """Return how a model stands; of several things that close it, what does so for longest.

    A ``problem``, which keeps this host from asking it at all, goes before them.
    """
    if problem is not None:
        return ModelHealth(model, "unavailable", problem=problem)
    known = [
        (key, record)
        for key in keys_of(model)
        if (record := remembered(view.closures.get(key), view.now)) is not None
    ]
    if not known:
        return ModelHealth(model, "open")
    key, record = max(known, key=lambda entry: entry[1].until)
    return ModelHealth(model, "closed" if record.until > view.now else "probe", key, record)


def _with_first(first: ModelRef | None, chain: Sequence[ModelRef]) -> tuple[ModelRef, ...]:
    return tuple(chain) if first is None or first in chain or not chain else (first, *chain)


def _answers(decisions: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (decision for decision in decisions if decision["decision"] in BEGINNINGS)
