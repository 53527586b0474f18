"""What a prompt gets that neither it nor its session names."""

from collections.abc import Callable
from dataclasses import dataclass

from fallback_plugin.agent.identifiers import NewId, new_id
from fallback_plugin.agent.prompt_defaults import no_own_model
from fallback_plugin.model_ref import ModelRef


def _no_model() -> None:
    return None


def _any_model(_: ModelRef) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The model and the agent of a first prompt, and where new names come from.

    ``model`` and ``own_model``, which is an agent's, are asked at each acceptance, so that changed settings
    count. ``knows`` tells which models there are; a prompt's becomes its session's only if it is one of them.
    """

    model: Callable[[], ModelRef | None] = _no_model
    own_model: Callable[[str], ModelRef | None] = no_own_model
    knows: Callable[[ModelRef], bool] = _any_model
    new_id: NewId = new_id
