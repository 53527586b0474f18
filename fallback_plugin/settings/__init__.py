"""Settings: TOML files, the host's config, the environment and the command line, merged key by key.

Names are imported from their modules when first used: pydantic costs more than a bridge's whole handshake.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fallback_plugin.settings.chain_entry import ChainEntry
    from fallback_plugin.settings.discovery import candidate_files
    from fallback_plugin.settings.failure_kind import FAILURE_KINDS, FailureKind
    from fallback_plugin.settings.host_config import read_host_config
    from fallback_plugin.settings.host_tables import PermissionSettings, ProviderSettings, ServedModel
    from fallback_plugin.settings.last_good import (
        LastGoodFiles,
        knows_all,
        load_and_keep,
        load_last_good,
        load_or_last_good,
    )
    from fallback_plugin.settings.layer import Origin
    from fallback_plugin.settings.load import LoadedSettings, load_settings
    from fallback_plugin.settings.policy import PolicyAction, RetryThen
    from fallback_plugin.settings.tables import (
        AgentSettings,
        FallbackSettings,
        HealthSettings,
        LogSettings,
        ModelSettings,
        PluginSettings,
        Rule,
        Settings,
    )
    from fallback_plugin.settings.watch import SettingsWatcher

__all__ = [
    "FAILURE_KINDS",
    "AgentSettings",
    "ChainEntry",
    "FailureKind",
    "FallbackSettings",
    "HealthSettings",
    "LastGoodFiles",
    "LoadedSettings",
    "LogSettings",
    "ModelSettings",
    "Origin",
    "PermissionSettings",
    "PluginSettings",
    "PolicyAction",
    "ProviderSettings",
    "RetryThen",
    "Rule",
    "ServedModel",
    "Settings",
    "SettingsWatcher",
    "candidate_files",
    "knows_all",
    "load_and_keep",
    "load_last_good",
    "load_or_last_good",
    "load_settings",
    "read_host_config",
]

_HOMES: Final = {
    "FAILURE_KINDS": "failure_kind",
    "AgentSettings": "tables",
    "ChainEntry": "chain_entry",
    "FailureKind": "failure_kind",
    "FallbackSettings": "tables",
    "HealthSettings": "tables",
    "LastGoodFiles": "last_good",
    "LoadedSettings": "load",
    "LogSettings": "tables",
    "ModelSettings": "tables",
    "Origin": "layer",
    "PermissionSettings": "host_tables",
    "PluginSettings": "tables",
    "PolicyAction": "policy",
    "ProviderSettings": "host_tables",
    "RetryThen": "policy",
    "Rule": "tables",
    "ServedModel": "host_tables",
    "Settings": "tables",
    "SettingsWatcher": "watch",
    "candidate_files": "discovery",
    "knows_all": "last_good",
    "load_and_keep": "last_good",
    "load_last_good": "last_good",
    "load_or_last_good": "last_good",
    "load_settings": "load",
    "read_host_config": "host_config",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- the protocol of a module's __getattr__
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
