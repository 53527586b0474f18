"""What a prompt gets that neither it nor its session names."""

from collections.abc import Callable
from dataclasses import dataclass

from fallback_plugin.agent.identifiers import NewId, new_id
from fallback_plugin.model_ref import ModelRef


def _no_model() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The model and the agent of a first prompt, and where new names come from.

    ``model`` is asked at each acceptance, so that changed settings count.
    """

    model: Callable[[], ModelRef | None] = _no_model
    agent: str = "build"
    new_id: NewId = new_id
