"""Sequences of what happens to a session, drawn from a seed. Pure: the same seed is the same sequence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

Model: TypeAlias = Literal["primary", "a", "b", "c"]
Behaviour: TypeAlias = Literal[
    "answers", "hangs", "limited", "rested", "rejected", "overloaded", "empty", "cut"
]
World: TypeAlias = Mapping[Model, Behaviour]

MODELS: Final[tuple[Model, ...]] = ("primary", "a", "b", "c")
CLOSING: Final[frozenset[Behaviour]] = frozenset({"limited", "rested", "rejected", "overloaded", "cut"})
"""Failures after which a model may be closed, so that doors can differ in whether they ask it."""

FAILURES: Final[tuple[Behaviour, ...]] = ("limited", "rested", "rejected", "overloaded", "empty", "cut")


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``fallback.toml`` says. Cooldowns outlast a sequence: no closure ends while a step is taken."""

    chain: tuple[Model, ...] = ("a", "b")
    cooldown_s: int = 300

    def toml(self) -> str:
        """Return the file's text."""
        chain = ", ".join(f'"of-{model}/{model}"' for model in self.chain)
        return f'[fallback]\nfallback_models = [{chain}]\ncooldown = "{self.cooldown_s}s"\n'


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt to ``model``; ``world`` is what each model's provider does with a request."""

    model: Model
    world: World


@dataclass(frozen=True, slots=True)
class Stop:
    """A prompt whose answer the user stops in mid-stream; ``world`` holds one model that hangs."""

    model: Model
    world: World


@dataclass(frozen=True, slots=True)
class Clear:
    """``fallback-plugin health clear MODEL``, or ``--all`` without a model."""

    model: Model | None


@dataclass(frozen=True, slots=True)
class Restart:
    """The process that holds the plugin is killed and started again."""


@dataclass(frozen=True, slots=True)
class Change:
    """Other settings are written; with ``mistake_first`` after a text that cannot be read."""

    settings: Settings
    mistake_first: bool


@dataclass(frozen=True, slots=True)
class Expire:
    """Time passes until the closures whose providers asked for four seconds are half-open."""


Step: TypeAlias = Prompt | Stop | Clear | Restart | Change | Expire


def draw(seed: int, length: int) -> tuple[Step, ...]:
    """Draw a sequence of at least ``length`` steps."""
    drawing = _Drawing(Random(seed))  # noqa: S311 -- no secret is drawn
    while len(drawing.steps) < length:
        drawing.step()
    return tuple(drawing.steps)


@dataclass(slots=True)
class _Drawing:
    """Draws step by step. What is closed keeps failing as it did: outages last, whoever asks meanwhile."""

    random: Random
    steps: list[Step] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    world: dict[Model, Behaviour] = field(default_factory=dict)
    closed: set[Model] = field(default_factory=set)
    in_use: Model = "primary"

    def step(self) -> None:
        kinds = {self.prompt: 8, self.stop: 3, self.clear: 4, self.restart: 3, self.change: 3}
        seen = bool(self.steps) and isinstance(self.steps[-1], Prompt | Stop | Expire)
        if not seen and self.random.random() < 0.8:
            self.prompt()  # what the other steps led to shows in the next prompt
        else:
            (draw,) = self.random.choices(list(kinds), list(kinds.values()))
            draw()

    def prompt(self) -> None:
        model = self._asked_for()
        self._draw_world()
        self._ask(model)
        self.steps.append(Prompt(model, dict(self.world)))
        if "rested" in (self.world[each] for each in self.closed):
            self.steps.append(Expire())
            self._open(*(each for each in self.closed if self.world[each] == "rested"))

    def stop(self) -> None:
        model = self._asked_for()
        self._draw_world()
        able = [each for each in self._order(model) if each not in self.closed]
        if not able:
            return
        hanging = self.random.choice(able)
        for before in able[: able.index(hanging)]:
            self.world[before] = "limited"
        self.world[hanging] = "hangs"
        self._ask(model)
        self.steps.append(Stop(model, dict(self.world)))

    def clear(self) -> None:
        if not self.closed:
            return
        model = self.random.choice((*sorted(self.closed), None))
        self._open(*([model] if model else MODELS))
        self.steps.append(Clear(model))

    def restart(self) -> None:
        if self.steps and not isinstance(self.steps[-1], Restart):
            self.steps.append(Restart())

    def change(self) -> None:
        if not self.steps or isinstance(self.steps[-1], Restart):
            return  # a process that has just begun may read the new file first, and has no change to announce
        chains: Sequence[tuple[Model, ...]] = (("a", "b"), ("b", "a"), ("b",), ("a",))
        # What asks a closed model renews its closure, with the cooldown there is then.
        cooldowns = (self.settings.cooldown_s,) if self.closed else (300, 900)
        every = [Settings(chain, cooldown_s) for chain in chains for cooldown_s in cooldowns]
        self.settings = self.random.choice([each for each in every if each != self.settings])
        self.steps.append(Change(self.settings, mistake_first=self.random.random() < 0.3))

    def _asked_for(self) -> Model:
        """Return the primary, or another model that the user picks: one that never stands in for another."""
        model: Model = "c" if self.random.random() < 0.12 else "primary"
        usable = [each for each in self._order(model) if each not in self.closed]
        if model in self.closed and self.in_use in usable[1:] + list({*MODELS} - {*self._order(model)}):
            # It would go on where it is at some doors, and begin with the first of the chain at others.
            self.steps.append(Clear(None))
            self._open(*MODELS)
        return model

    def _draw_world(self) -> None:
        fails = {"primary": 0.75, "a": 0.45, "b": 0.35, "c": 0.3}
        for model in MODELS:
            if model not in self.closed:
                failing = self.random.random() < fails[model]
                self.world[model] = self.random.choice(FAILURES) if failing else "answers"

    def _order(self, model: Model) -> list[Model]:
        return [model, *(each for each in self.settings.chain if each != model)]

    def _ask(self, model: Model) -> None:
        """Close what fails until one answers or hangs."""
        for each in self._order(model):
            if each in self.closed and each != model:
                continue
            self.in_use = each
            if self.world[each] in {"answers", "hangs"}:
                return
            if self.world[each] in CLOSING:
                self.closed.add(each)

    def _open(self, *models: Model) -> None:
        self.closed -= set(models)
