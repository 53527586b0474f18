"""What in the settings keeps models from being asked: said at the start of the host and at every change."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from fallback_plugin.agent.providers.registry import key_problem

if TYPE_CHECKING:
    from fallback_plugin.settings import Settings

HOW_TO_NAME_ONE: Final = "set base_url and models in [providers.<id>], and [serve] model for the first choice"
"""What gives a host without models one, in ``fallback.toml``."""


def model_problems(settings: "Settings", environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each thing that keeps models from being asked."""
    served = {name: each for name, each in settings.providers.items() if each.base_url}
    for name, each in served.items():
        if problem := key_problem(each, environ):
            yield f"[providers.{name}]: {problem}; its models are passed over"
    if not any(each.models for each in served.values()):
        yield f"no model can be asked: {HOW_TO_NAME_ONE}"
        return
    first = settings.serve.model
    if first is not None and (
        first.provider not in served or first.model not in served[first.provider].models
    ):
        yield f"[serve] model: {first} is not in [providers.{first.provider}] models"
