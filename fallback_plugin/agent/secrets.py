"""Which environment variables no command of a model gets to see."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fallback_plugin.settings.environment import PREFIX

if TYPE_CHECKING:
    from fallback_plugin.settings import Settings

SERVER_PASSWORD: Final = "OPENCODE_SERVER_PASSWORD"  # noqa: S105 -- a name
"""Holds the password of this host: whoever has it can answer the host's own permission questions."""

_SHORTEST_COPY: Final = 8
"""Characters of a value that is too long to stand in another variable by chance."""


def secret_variables(settings: "Settings", environ: Mapping[str, str]) -> frozenset[str]:
    """Return the variables that hold a secret of ours or one that the settings name, and copies of those."""
    named = {SERVER_PASSWORD, settings.health.url_env, f"{PREFIX}HEALTH__URL"}
    named |= {each.api_key_env for each in settings.providers.values()}
    values = {environ.get(name, "") for name in named if name}
    copies = {name for name, value in environ.items() if len(value) >= _SHORTEST_COPY and value in values}
    return frozenset(name for name in named | copies if name)
