"""The plugin host: finds plugins, and brings them a host's events and questions without letting them hurt it.

Names are imported when first used, so that the command line need not load an event loop to list commands.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fallback_plugin.plugins.commands import register_commands
    from fallback_plugin.plugins.host import PluginHost
    from fallback_plugin.plugins.limits import Limits
    from fallback_plugin.plugins.registry import LoadedPlugin
    from fallback_plugin.plugins.subscriptions import Subscriptions

__all__ = ["Limits", "LoadedPlugin", "PluginHost", "Subscriptions", "register_commands"]

_HOMES: Final = {
    "Limits": "limits",
    "LoadedPlugin": "registry",
    "PluginHost": "host",
    "Subscriptions": "subscriptions",
    "register_commands": "commands",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- the protocol of a module's __getattr__
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
