"""The settings themselves: one frozen model per TOML table, with every default and every limit."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings.failure_kind import FailureKind
from fallback_plugin.settings.host_tables import (
    MemorySettings,
    PermissionSettings,
    ProviderSettings,
    ServeSettings,
)
from fallback_plugin.settings.pattern import checked_pattern
from fallback_plugin.settings.policy import Policy
from fallback_plugin.settings.values import (
    Chain,
    FilePath,
    Model,
    ModelKey,
    ReadOnly,
    Seconds,
    ServerUrl,
    Table,
    VariableName,
    empty,
)


def agent_key(name: object) -> object:
    """Return the name under which an agent's settings are kept: trimmed, lower case."""
    return name.strip().lower() if isinstance(name, str) else name


def _agents_by_key(value: object) -> object:
    return {agent_key(name): agent for name, agent in value.items()} if isinstance(value, Mapping) else value


class Rule(Table):
    """A provider's own wording, and what it means."""

    pattern: Annotated[StrictStr, Field(min_length=1, max_length=1000), AfterValidator(checked_pattern)] = (
        Field(description="A regular expression, searched in the error's text without regard to case.")
    )
    kind: FailureKind = Field(description="The kind of failure such a text stands for.")
    scope: Literal["model", "provider", "account", "upstream"] | None = Field(
        default=None, description="What such a failure closes; by default what its kind does."
    )

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Return the compiled pattern; it ignores case."""
        return re.compile(self.pattern, re.IGNORECASE)


class ChainTable(Table):
    """A table that holds a chain."""

    fallback_models: Chain = ()

    @cached_property
    def candidates(self) -> tuple[ModelRef, ...]:
        """Return the models of the chain, without what else an entry says."""
        return tuple(entry.model for entry in self.fallback_models)


class FallbackSettings(ChainTable):
    """``[fallback]``: the chain for every agent without its own, and how to walk it."""

    enabled: StrictBool = Field(default=True, description="Whether failures are handled at all.")
    fallback_models: Chain = Field(
        default=(),
        description="Models to try in this order when the first one fails. "
        'An entry is "provider/model", "provider/model:variant" or '
        '{ model = "…", variant = "…", paid = true }.',
    )
    allow_paid: StrictBool = Field(
        default=False, description="Whether entries marked with paid = true may be taken."
    )
    sticky: StrictBool = Field(
        default=False,
        description="Whether a session stays on its fallback when the first model is usable again.",
    )
    switching: Literal["auto", "replay", "inline"] = Field(
        default="auto",
        description='How a turn goes on: "replay" stops it and sends it again, "inline" answers the failed '
        'request itself where the next model speaks the same protocol, "auto" is inline in "opencode run" '
        'and "opencode acp", for subagents and titles, and replay elsewhere.',
    )
    max_attempts: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=10, description="At most this many switches in one turn."
    )
    cooldown: Seconds = Field(
        default=60.0,
        description="How long a failed model is left alone when the provider does not say. 0: not at all.",
    )
    first_token_timeout: Seconds = Field(
        default=90.0, description="How long a model may take to its first sign of life. 0: for ever."
    )
    stall_timeout: Seconds = Field(
        default=120.0, description="How long an answer may stop growing. 0: for ever."
    )
    run_deadline: Seconds = Field(
        default=600.0,
        description='How long "opencode run" may go on past its own end to have a failed turn answered. '
        "0: an hour.",
    )
    notify: StrictBool = Field(default=True, description="Whether to show toasts.")
    on_foreign_abort: Literal["stop", "advance"] = Field(
        default="stop",
        description='When someone else aborts a turn: "stop" sends nothing, "advance" takes the next model.',
    )
    policy: Policy = Field(
        default_factory=empty,
        description="What follows a kind of failure: "
        '"fallback", "stop", "ignore" or { retry = 1, then = "…" }.',
    )
    rules: tuple[Rule, ...] = Field(
        default=(),
        description="Texts of your providers that the built-in rules do not know; first match wins.",
    )


class AgentSettings(ChainTable):
    """``[agents.<name>]``: an agent's own model and chain."""

    model: Model | None = Field(default=None, description="The agent's own model; by default the host's.")
    fallback_models: Chain = Field(
        default=(), description="The agent's chain; when empty, that of [fallback] applies."
    )
    policy: Policy = Field(default_factory=empty, description="As in [fallback], for this agent.")


class ModelSettings(Table):
    """``[models."<provider/model>"]``: what differs for one model."""

    first_token_timeout: Seconds | None = Field(
        default=None, description="As in [fallback], for this model only."
    )
    stall_timeout: Seconds | None = Field(default=None, description="As in [fallback], for this model only.")
    cooldown: Seconds | None = Field(default=None, description="As in [fallback], for this model only.")


class PluginSettings(Table):
    """``[plugins]``: which plugins are loaded."""

    dirs: tuple[FilePath, ...] = Field(
        default=(),
        description="Folders whose Python files are loaded as plugins. Not read from a project's file.",
    )
    block: tuple[StrictStr, ...] = Field(default=(), description="Names of plugins that are not loaded.")


class LogSettings(Table):
    """``[log]``: what is written down, and where."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important message that is kept."
    )
    file: FilePath | None = Field(
        default=None,
        description="The log file of the plugin inside OpenCode; by default in the user's state folder. "
        "Not read from a project's file.",
    )


class HealthSettings(Table):
    """``[health]``: where it is written down which models are left alone, and who acts on a failure."""

    file: FilePath | None = Field(
        default=None,
        description="The file that all processes share; by default in the user's state folder. "
        "Not read from a project's file.",
    )
    url: ServerUrl | None = Field(
        default=None,
        description="The Redis or Valkey server that several machines share. Not read from a project's file.",
    )
    url_env: VariableName | None = Field(
        default=None,
        description="The environment variable that holds the server's address, so that a password stands in "
        "no file; goes before url. Not read from a project's file.",
    )


class Settings(Table):
    """Everything that can be set."""

    fallback: FallbackSettings = Field(default_factory=FallbackSettings)
    agents: Annotated[Mapping[str, AgentSettings], BeforeValidator(_agents_by_key), *ReadOnly] = Field(
        default_factory=empty, description="Per agent, by name in any case."
    )
    providers: Annotated[Mapping[StrictStr, ProviderSettings], *ReadOnly] = Field(
        default_factory=empty, description="Per provider, by its id."
    )
    models: Annotated[Mapping[ModelKey, ModelSettings], *ReadOnly] = Field(
        default_factory=empty, description="Per model, by provider/model."
    )
    permissions: PermissionSettings = Field(default_factory=PermissionSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    plugins: PluginSettings = Field(default_factory=PluginSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    health: HealthSettings = Field(default_factory=HealthSettings)
