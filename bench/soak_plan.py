"""The turns of a soak, drawn from a seed, and what the provider may have been asked after each.

A turn gives each model of the chain a behaviour. From them follows which models are asked, in which order and
how often, and so any request that was not allowed stands out. Pure: no clock, no host.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

from tests.loopback.provider import Request
from tests.loopback.reply import (
    Close,
    Data,
    Gate,
    Head,
    Reply,
    cut,
    error_object,
    hang,
    hang_before_headers,
    reset,
    status,
    stream,
    tool_call,
)

ROLES: Final = ("primary", "fallback-a", "fallback-b")
"""The models of a player's chain, each named after its player as well."""

FAILING: Final = (0.75, 0.5, 0.35)
"""How often each of them fails."""

BAD_REQUESTS, ABORTS, PLAIN_ANSWERS, LONG_WATCHES = 0.03, 0.4, 0.8, 0.25
"""How often the request is one no model takes, a person stops the turn, an answer needs no tool, and the
provider is watched for long after a stop."""

TURNS_A_SESSION: Final = 8
LOOPS: Final = 12
"""The host asks a model again at once, for ever, whose stream has no end: so often before it is stopped."""

Moment: TypeAlias = Literal["any time", "at the first sign", "while streaming", "when settled"]

RACY: Final[tuple[Moment, ...]] = ("any time", "at the first sign")
"""Moments at which a stop may cross a switch; they are drawn twice as often."""


@dataclass(frozen=True)
class Behaviour:
    """What a model does in one turn: its replies, of which the last repeats, and the requests that makes.

    A reply that is None asks for a command that leaves a mark. ``answers`` and ``stops`` tell what becomes of
    the turn: it is done, or it fails and no other model may be asked. ``tools`` counts the completed tool
    steps.
    """

    replies: tuple[Reply | None, ...]
    fewest: int = 1
    most: int = 1
    tools: int = 0
    shows_a_sign: bool = True
    answers: bool = False
    stops: bool = False


_TOOL: Final = None
_DONE_ONLY: Final[Reply] = (Head(), Data("[DONE]"), Close())

FAILURES: Final[Mapping[str, Behaviour]] = {
    "429": Behaviour((status(429),)),
    "401": Behaviour((status(401),)),
    "402": Behaviour((status(402),)),
    "404": Behaviour((status(404),)),
    "503": Behaviour((status(503),)),
    "reset": Behaviour((reset(),)),
    "error in the stream": Behaviour((error_object(),)),
    "error after a word": Behaviour((error_object("Half "),)),
    "tool, then 429": Behaviour((_TOOL, status(429)), fewest=2, most=2, tools=1),
    "tool, then 401": Behaviour((_TOOL, status(401)), fewest=2, most=2, tools=1),
    "empty": Behaviour((stream(),), shows_a_sign=False),
    "tool, then 503": Behaviour((_TOOL, status(503)), fewest=2, most=2, tools=1),
    "tool, tool, then 429": Behaviour((_TOOL, _TOOL, status(429)), fewest=3, most=3, tools=2),
    "tool, then empty": Behaviour((_TOOL, stream()), fewest=2, most=2, tools=1, shows_a_sign=False),
    "cut": Behaviour((cut("Half "),), most=LOOPS, shows_a_sign=False),
    "only [DONE]": Behaviour((_DONE_ONLY,), most=LOOPS, shows_a_sign=False),
    "silent": Behaviour((hang_before_headers(),), shows_a_sign=False),
    "stalled": Behaviour((hang("Half "),), shows_a_sign=False),
}
SHOWN: Final = tuple(name for name, behaviour in FAILURES.items() if behaviour.shows_a_sign)
"""Those the host reports by itself."""
AFTER_TOOLS: Final = tuple(name for name, behaviour in FAILURES.items() if behaviour.tools)
"""Those that come in the midst of a turn, when a command has left its mark."""
BAD_REQUEST: Final = Behaviour((status(400),), stops=True)


@dataclass(frozen=True)
class Abort:
    """The person's stop: the moment, a delay after it, and how long the provider is watched then."""

    moment: Moment
    after_s: float
    watch_s: float


@dataclass(frozen=True)
class Turn:
    """One turn of a player: how each model of the chain behaves, and when the user stops it, if they do."""

    number: int
    player: int
    behaviours: tuple[str, ...]
    abort: Abort | None
    pause_s: float

    @property
    def chain(self) -> tuple[str, ...]:
        """The names of the models."""
        return chain_of(self.player)

    @property
    def question(self) -> str:
        """The user's words."""
        return f"Turn {self.number}?"

    @property
    def answer(self) -> str:
        """The text of whoever answers."""
        return f"Answer {self.number}."

    @property
    def ends_at(self) -> int | None:
        """The place of the model with which the turn ends, None if all of them fail."""
        ends = (place for place, it in enumerate(self._all()) if it.answers or it.stops)
        return next(ends, None)

    @property
    def is_answered(self) -> bool:
        """Whether some model answers."""
        return self.ends_at is not None and self._all()[self.ends_at].answers

    @property
    def held(self) -> bool:
        """Whether answers wait for ever after their first words, so that the stop comes before their end."""
        return self.abort is not None and self.abort.moment != "when settled"

    def script(self, marks: Path) -> Iterator[tuple[str, tuple[Reply, ...]]]:
        """Return the replies of each model; a command leaves a line with the model's name in ``marks``."""
        for model, behaviour in zip(self.chain, self._all(), strict=True):
            command = {"command": f"echo {model} >> '{marks}'", "description": "Leaves a mark"}
            yield (
                model,
                tuple(
                    tool_call("bash", command, call_id=f"call_{model}_{self.number}_{step}")
                    if reply is None
                    else reply
                    for step, reply in enumerate(behaviour.replies)
                ),
            )

    def complaints(
        self, requests: Sequence[Request], marks: Sequence[str], *, stopped: bool
    ) -> Iterator[str]:
        """Say which of a turn's requests should not be there, and which are missing unless it was stopped.

        ``marks`` are the models whose command was run, once for each time.
        """
        yield from self._mark_complaints(requests, marks, stopped=stopped)
        for request in requests:
            if not any(self.question in _words(message) for message in request.body.get("messages", ())):
                yield f"{request.model} was asked without the user's words: {request.roles}"
        last = len(self.chain) - 1 if self.ends_at is None else self.ends_at
        asked = [(model, len(list(same))) for model, same in groupby(requests, lambda it: it.model)]
        allowed = self.chain[: last + 1]
        order = tuple(model for model, _ in asked)
        if order != (allowed[: len(order)] if stopped else allowed):
            yield f"asked were {order}, allowed are {allowed}"
            return
        for (model, count), behaviour in zip(asked, self._all(), strict=False):
            # A stop may come before the last step of the last model that was asked.
            fewest = 1 if stopped and model == order[-1] else behaviour.fewest
            if not fewest <= count <= behaviour.most:
                yield f"{model} was asked {count} times, allowed are {fewest} to {behaviour.most}"
        yield from self._tool_complaints(requests)

    def _mark_complaints(
        self, requests: Sequence[Request], marks: Sequence[str], *, stopped: bool
    ) -> Iterator[str]:
        asked = {request.model for request in requests}
        for model, behaviour in zip(self.chain, self._all(), strict=True):
            most = behaviour.tools if model in asked else 0
            # A stop may come before the command has begun.
            if not (0 if stopped else most) <= marks.count(model) <= most:
                yield f"the command of {model} ran {marks.count(model)} times, not {most}"

    def _tool_complaints(self, requests: Sequence[Request]) -> Iterator[str]:
        done = 0
        for model, behaviour in zip(self.chain, self._all(), strict=True):
            first = next((request for request in requests if request.model == model), None)
            if first is not None and (sent := first.roles[_last_user(first.roles) :].count("tool")) != done:
                yield f"{model} got {sent} tool results of this turn, done were {done}"
            done += behaviour.tools

    def _all(self) -> tuple[Behaviour, ...]:
        return tuple(self._behaviour(name) for name in self.behaviours)

    def _behaviour(self, name: str) -> Behaviour:
        if name in FAILURES:
            return FAILURES[name]
        if name == "400":
            return BAD_REQUEST
        text = stream("First ", Gate(), "words.") if self.held else stream(self.answer)
        with_tool = name != "answer"
        steps = (_TOOL, text) if with_tool else (text,)
        return Behaviour(steps, len(steps), len(steps), tools=int(with_tool), answers=True)


def chain_of(player: int) -> tuple[str, ...]:
    """Name the models of a player's chain."""
    return tuple(f"{role}-of-{player}" for role in ROLES)


def draw(seed: int, turns: int, players: int, *, after_tools: bool = False) -> Iterator[Turn]:
    """Return the turns of a seed, player by player. The first are the same however many there are.

    With ``after_tools`` the first model of every turn fails after a command, and so does every other failing.
    """
    random = Random(seed)  # noqa: S311 -- the same turns every time are the point
    failures = AFTER_TOOLS if after_tools else tuple(FAILURES)
    for number in range(turns):
        behaviours = tuple(
            random.choice(failures) if random.random() < often else _success(random)
            for often in ((1.0, *FAILING[1:]) if after_tools else FAILING)
        )
        if random.random() < BAD_REQUESTS and not after_tools:
            behaviours = ("400", *behaviours[1:])
        player = number % players
        turn = Turn(number, player, behaviours, None, random.uniform(0.0, 0.2))
        abort = _abort(random, turn) if random.random() < ABORTS else None
        yield Turn(number, player, behaviours, abort, turn.pause_s)


def _success(random: Random) -> str:
    return "answer" if random.random() < PLAIN_ANSWERS else "tool, then answer"


def _abort(random: Random, turn: Turn) -> Abort:
    moments: dict[Moment, Callable[[], float]] = {"any time": lambda: random.uniform(0.0, 0.6)}
    if turn.behaviours[0] in SHOWN:
        moments["at the first sign"] = lambda: random.uniform(0.0, 0.15)
    if turn.is_answered:
        moments["while streaming"] = lambda: random.uniform(0.0, 0.1)
        moments["when settled"] = lambda: random.uniform(0.0, 0.1)
    moment = random.choice([*moments, *(name for name in moments if name in RACY)])
    # The host's own next try comes two seconds after the first, a clock of ours may run out after three.
    watch_s = 4.5 if random.random() < LONG_WATCHES else 1.0
    return Abort(moment, moments[moment](), watch_s)


def _words(message: Mapping[str, Any]) -> str:
    return json.dumps(message.get("content")) if message.get("role") == "user" else ""


def _last_user(roles: Sequence[str]) -> int:
    return len(roles) - 1 - list(reversed(roles)).index("user")
