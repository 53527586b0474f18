"""A Python plugin host for coding agents whose first plugin keeps a session working when its model fails.

The names below are the whole public surface for plugin authors; they are imported when first used, so that
starting a bridge costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, whose import costs as much as the rest of the bridge's handshake
if TYPE_CHECKING:
    from typing import Any, Final

    from fallback_plugin.errors import FallbackPluginError
    from fallback_plugin.hookspecs import hookimpl
    from fallback_plugin.host_client import HostClient
    from fallback_plugin.model_ref import ModelRef
    from fallback_plugin.wire.prompt import Prompt
    from fallback_plugin.wire.toast import Toast

__all__ = ["FallbackPluginError", "HostClient", "ModelRef", "Prompt", "Toast", "__version__", "hookimpl"]

__version__: Final = "0.1.0"

_HOMES: Final = {
    "FallbackPluginError": "errors",
    "HostClient": "host_client",
    "ModelRef": "model_ref",
    "Prompt": "wire.prompt",
    "Toast": "wire.toast",
    "hookimpl": "hookspecs",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- the protocol of a module's __getattr__
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 -- nor is this needed before a name is asked for

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
