"""The layer of settings that stands in environment variables: ``FALLBACK_PLUGIN__SECTION__KEY=value``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import tomli

from fallback_plugin.settings.layer import Layer

if TYPE_CHECKING:
    from fallback_plugin.settings.toml_positions import KeyPath

PREFIX: Final = "FALLBACK_PLUGIN__"
BLOCK_VARIABLE: Final = "FALLBACK_PLUGIN_BLOCK"

_LISTS: Final = frozenset({"fallback_models", "dirs", "block"})


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Return the layer of all variables that begin with `PREFIX`; an empty one counts as unset.

    Keys are lower case. A value is read as TOML where it is TOML, as a plain string elsewhere; where a list
    of names belongs, commas separate them.
    """
    values: dict[str, Any] = {}
    variables: dict[KeyPath, str] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        text = environ[variable].strip()
        if not text:
            continue
        *sections, key = variable.removeprefix(PREFIX).lower().split("__")
        table = values
        for section in sections:
            nested = table.get(section)
            if not isinstance(nested, dict):
                nested = table[section] = {}
            table = nested
        table[key] = _value(key, text)
        variables[(*sections, key)] = variable
    return Layer(name="environment", values=values, variables=variables)


def blocked_names(environ: Mapping[str, str]) -> list[str]:
    """Return the plugin names in `BLOCK_VARIABLE`, a list separated by commas."""
    return _names(environ.get(BLOCK_VARIABLE, ""))


def _value(key: str, text: str) -> object:
    try:
        document = tomli.loads(f"value = {text}")
    except (ValueError, RecursionError):
        document = {}
    # A line end in the text could smuggle in a second key: then it is no single value.
    value = document["value"] if document.keys() == {"value"} else text
    return _names(value) if key in _LISTS and isinstance(value, str) else value


def _names(text: str) -> list[str]:
    return [name for piece in text.split(",") if (name := piece.strip())]
