"""What a door cannot do: all that may differ from the plugin inside ``opencode serve``.

docs/how-to.md has the same table for users, under "What differs between OpenCode, attach and serve".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

from tests.doors.observation import Observation
from tests.doors.sequences import Behaviour, Prompt, Step, Stop
from tests.loopback.opencode_home import ref

Pair: TypeAlias = tuple[Observation, Observation]
Level: TypeAlias = Callable[[Step, Observation, Observation], Pair]

REASONS: Final[dict[Behaviour, str]] = {
    "limited": "rate limited",
    "rested": "rate limited",
    "rejected": "refused the key (401)",
    "overloaded": "overloaded",
    "empty": "answered nothing",
    "cut": "answer was cut off",
}
RESTING: Final = frozenset[Behaviour]({"limited", "rested", "overloaded", "cut"})
"""Failures that time heals, so that the end of the rest is said."""

_RETRIED: Final = re.compile(r"(rate limited|overloaded) \((?:429|503)\)")
_RECOVERED: Final = "info: Model recovered: "
_REDIRECTED: Final = " meanwhile."
_EXHAUSTED: Final = "error: All fallbacks exhausted: "
_FIRST_BACK: Final = re.compile(r"\nFirst back: .*")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is otherwise at a door, and why it cannot be the same.

    ``level`` takes a step, what was observed inside and what was observed at the door, and returns both as
    they are to be compared: what is expected instead, or without what only one of them can show.
    """

    door: str
    what: str
    why: str
    level: Level


def _without_status(_: Step, inside: Observation, observed: Observation) -> Pair:
    words = tuple(_RETRIED.sub(r"\1", each) for each in observed.words)
    return inside, replace(observed, words=words)


def _cut_once(step: Step, inside: Observation, observed: Observation) -> Pair:
    """Count requests in a row to a model whose stream is cut as one; its half answer may go unseen."""
    return _once_where_cut(step, inside), _once_where_cut(step, observed)


def _once_where_cut(step: Step, observed: Observation) -> Observation:
    if not isinstance(step, Prompt | Stop):
        return observed
    cut = {model for model, behaviour in step.world.items() if behaviour == "cut"}
    pairs = zip(("", *observed.asked), observed.asked, strict=False)
    asked = tuple(model for before, model in pairs if model != before or model not in cut)
    brief = tuple(f"success: Model fallback: Now on {ref(model)}." for model in cut)
    words = tuple(said for said in observed.words if not said.startswith(brief))
    return replace(observed, asked=asked, words=words)


def _without_recovery(_: Step, inside: Observation, observed: Observation) -> Pair:
    words = tuple(each for each in inside.words if not each.startswith(_RECOVERED))
    return replace(inside, words=words), observed


def _not_redirected(step: Step, inside: Observation, observed: Observation) -> Pair:
    """Expect that the model a prompt names is asked first, fails once more, and is left for the others.

    Which model is back first is left out: the closure of the one that failed once more is renewed.
    """
    if not isinstance(step, Prompt | Stop) or step.model in inside.asked:
        return inside, observed
    world = cast("Mapping[str, Behaviour]", step.world)
    failed, behaviour, first = step.model, world[step.model], inside.asked[0]
    left = f"{ref(failed)}: {REASONS[behaviour]}"
    rests = ", rests until CLOCK" if behaviour in RESTING else ""
    switched = {
        model: f"success: Model fallback: Now on {ref(model)}. {left}{rests}." for model in inside.asked
    }
    words = [f"warning: Model fallback: {left}. Trying {ref(first)} …"]
    if world[first] in {"answers", "hangs", "cut"}:
        words.append(switched[first])
    for said in inside.words:
        if said.startswith("success: "):
            words.append(next(each for each in switched.values() if each.startswith(said.partition(". ")[0])))
        elif said.startswith(_EXHAUSTED):
            rows = _FIRST_BACK.sub("", said.removeprefix(_EXHAUSTED)).split("\n")
            others = [row for row in rows if not row.startswith(ref(failed))]
            words.append(_EXHAUSTED + "\n".join([left + rests, *others]))
        elif not said.endswith(_REDIRECTED):
            words.append(said)
    shown = tuple(_FIRST_BACK.sub("", each) for each in observed.words)
    return (
        replace(inside, asked=(failed, *inside.asked), words=tuple(words)),
        replace(observed, words=shown),
    )


BY_DESIGN: Final[tuple[Difference, ...]] = (
    Difference(
        door="agent",
        what="names the HTTP status also of a rate limit or an overload",
        why="OpenCode asks again by itself after those, and shows the provider's words without the status",
        level=_without_status,
    ),
    Difference(
        door="agent",
        what="asks a model whose stream is cut once, and always says that it was on it",
        why="OpenCode asks it again at once, until a plugin that has heard of it stops that",
        level=_cut_once,
    ),
    Difference(
        door="attach",
        what="asks a closed model that a prompt names before it goes on to the next",
        why="OpenCode asks only plugins inside which model a prompt is to run on",
        level=_not_redirected,
    ),
    Difference(
        door="attach",
        what="does not say that the first model is in use again",
        why="it is the question of the model that shows it",
        level=_without_recovery,
    ),
    Difference(
        door="attach",
        what="may ask a model whose stream is cut more often than inside, and not say that it was on it",
        why="OpenCode asks it again at once, and a plugin outside hears of it later",
        level=_cut_once,
    ),
)


def differences(door: str, step: Step, inside: Observation, observed: Observation) -> list[str]:
    """Return a line for each field in which a door differs from inside, but for what is by design."""
    for each in BY_DESIGN:
        if each.door == door:
            inside, observed = each.level(step, inside, observed)
    return observed.difference(inside)
