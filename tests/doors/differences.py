"""What a door cannot do: all that may differ from the plugin inside ``opencode serve``.

docs/how-to.md has the same table for users, under "What differs between OpenCode, attach and serve".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tests.doors.observation import Observation
from tests.doors.sequences import Behaviour, Prompt, Step, Stop
from tests.loopback.opencode_home import ref

Adjust: TypeAlias = Callable[[Step, Observation], Observation]

REASONS: Final[dict[Behaviour, str]] = {
    "limited": "rate limited",
    "rested": "rate limited",
    "rejected": "refused the key (401)",
    "overloaded": "overloaded",
    "empty": "answered nothing",
    "cut": "unreachable",
}
RESTING: Final = frozenset[Behaviour]({"limited", "rested", "overloaded", "cut"})
"""Failures that time heals, so that the end of the rest is said."""

_RETRIED: Final = re.compile(r"(rate limited|overloaded) \((?:429|503)\)")
_RECOVERED: Final = "info: Model recovered: "
_REDIRECTED: Final = " meanwhile."
_EXHAUSTED: Final = "error: All fallbacks exhausted: "


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is otherwise at a door, and why it cannot be the same.

    ``expect`` makes of a step, and of what was observed inside, what is to be observed at this door;
    ``blur`` leaves out of an observation what inside cannot be known.
    """

    door: str
    what: str
    why: str
    expect: Adjust = lambda _step, inside: inside
    blur: Callable[[Observation], Observation] = lambda observed: observed


def _without_status(observed: Observation) -> Observation:
    return replace(observed, words=tuple(_RETRIED.sub(r"\1", words) for words in observed.words))


def _without_recovery(_: Step, inside: Observation) -> Observation:
    return replace(inside, words=tuple(each for each in inside.words if not each.startswith(_RECOVERED)))


def _not_redirected(step: Step, inside: Observation) -> Observation:
    """Expect that the model a prompt names is asked first, fails once more, and is left for the others."""
    if not isinstance(step, Prompt | Stop) or step.model in inside.asked:
        return inside
    world: dict[str, Behaviour] = {model: behaviour for model, behaviour in step.world.items()}
    failed, behaviour, first = step.model, world[step.model], inside.asked[0]
    left = f"{ref(failed)}: {REASONS[behaviour]}"
    rests = ", rests until CLOCK" if behaviour in RESTING else ""
    switched = [f"success: Model fallback: Now on {ref(model)}. {left}{rests}." for model in inside.asked]
    speaks = [world[model] in {"answers", "hangs", "cut"} for model in inside.asked]
    words = [f"warning: Model fallback: {left}. Trying {ref(first)} …"]
    if speaks[0]:
        words.append(switched[0])
    for said in inside.words:
        if said.startswith("success: "):
            words.append(next(each for each in switched if said.partition(". ")[0] in each))
        elif not said.endswith(_REDIRECTED):
            words.append(said)
    return replace(inside, asked=(failed, *inside.asked), words=tuple(words))


def _rows_in_any_order(observed: Observation) -> Observation:
    """Leave out of the reasons of all models their order, and whether a failure was before."""
    return replace(
        observed,
        words=tuple(
            _EXHAUSTED + " ".join(sorted(set(re.findall(r"of-\w+", words))))
            if words.startswith(_EXHAUSTED)
            else words
            for words in observed.words
        ),
    )


BY_DESIGN: Final[tuple[Difference, ...]] = (
    Difference(
        door="agent",
        what="names the HTTP status also of a rate limit or an overload",
        why="OpenCode asks again by itself after those, and shows the provider's words without the status",
        blur=_without_status,
    ),
    Difference(
        door="attach",
        what="asks a closed model that a prompt names before it goes on to the next",
        why="OpenCode asks only plugins inside which model a prompt is to run on",
        expect=_not_redirected,
    ),
    Difference(
        door="attach",
        what="does not say that the first model is in use again",
        why="it is the question of the model that shows it",
        expect=_without_recovery,
    ),
)


def differences(door: str, step: Step, inside: Observation, observed: Observation) -> list[str]:
    """Return a line for each field in which a door differs from inside, but for what is by design."""
    for each in BY_DESIGN:
        if each.door == door:
            inside, observed = each.blur(each.expect(step, inside)), each.blur(observed)
    return observed.difference(inside)
