"""The settings themselves: one frozen model per TOML table, with every default and every limit."""

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    WithJsonSchema,
    WrapSerializer,
)

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings.chain_entry import ChainEntry, chain_entries, chain_entry, model_ref
from fallback_plugin.settings.duration import DURATION_PATTERN, MAX_DURATION_S, duration_s
from fallback_plugin.settings.endpoint import endpoint_url, served_models
from fallback_plugin.settings.failure_kind import FailureKind, PolicyWord
from fallback_plugin.settings.pattern import checked_pattern
from fallback_plugin.settings.store_url import StoreUrl, store_url, variable_name

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

POLICY_WORD: Final = "<word>"
POLICY_TABLE: Final = "<table>"
"""What pydantic puts behind a policy's kind, to say which of the two forms it took it for."""

ONE_VERDICT: Final = "<verdict>"
BY_PATTERN: Final = "<by pattern>"
"""The same for a permission."""

_MODEL_NAME_SCHEMA: Final[dict[str, Any]] = {"type": "string", "pattern": "^[^/]+/.+$"}
_CHAIN_ENTRY_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        _MODEL_NAME_SCHEMA,
        {
            "type": "object",
            "properties": {
                "model": _MODEL_NAME_SCHEMA,
                "variant": {"type": "string", "minLength": 1},
                "paid": {"type": "boolean"},
            },
            "required": ["model"],
            "additionalProperties": False,
        },
    ]
}


def agent_key(name: object) -> object:
    """Return the name under which an agent's settings are kept: trimmed, lower case."""
    return name.strip().lower() if isinstance(name, str) else name


def _agents_by_key(value: object) -> object:
    return {agent_key(name): agent for name, agent in value.items()} if isinstance(value, Mapping) else value


def _path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return Path(value)
    raise ValueError(f"{value!r} is not a path; write it as a string")


def _policy_form(value: object) -> str:
    return POLICY_TABLE if isinstance(value, Mapping | BaseModel) else POLICY_WORD


def _permission_form(value: object) -> str:
    return BY_PATTERN if isinstance(value, Mapping) else ONE_VERDICT


def _written(entry: ChainEntry) -> object:
    return {"model": str(entry.model), "paid": True} if entry.paid else str(entry.model)


def _without_repeats(chain: tuple[ChainEntry, ...]) -> tuple[ChainEntry, ...]:
    first: dict[ModelRef, ChainEntry] = {}
    for entry in chain:
        first.setdefault(entry.model, entry)
    return tuple(first.values())


def _read_only(value: Mapping[KeyT, ValueT]) -> Mapping[KeyT, ValueT]:
    return MappingProxyType(dict(value))


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


def _plain(value: Mapping[KeyT, ValueT], serialize: SerializerFunctionWrapHandler) -> object:
    return serialize(dict(value))


Seconds = Annotated[
    float,
    PlainValidator(duration_s),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": DURATION_PATTERN},
                {"type": "number", "minimum": 0, "maximum": MAX_DURATION_S},
            ]
        }
    ),
]
Model = Annotated[
    ModelRef, PlainValidator(model_ref), PlainSerializer(str), WithJsonSchema(_CHAIN_ENTRY_SCHEMA)
]
ModelKey = Annotated[
    ModelRef, PlainValidator(model_ref), PlainSerializer(str), WithJsonSchema(_MODEL_NAME_SCHEMA)
]
Entry = Annotated[
    ChainEntry, PlainValidator(chain_entry), PlainSerializer(_written), WithJsonSchema(_CHAIN_ENTRY_SCHEMA)
]
Chain = Annotated[
    tuple[Entry, ...],
    BeforeValidator(chain_entries),
    AfterValidator(_without_repeats),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _CHAIN_ENTRY_SCHEMA}, _CHAIN_ENTRY_SCHEMA]}),
]
FilePath = Annotated[
    Path, PlainValidator(_path), PlainSerializer(str), WithJsonSchema({"type": "string", "minLength": 1})
]
ServerUrl = Annotated[
    StoreUrl,
    PlainValidator(store_url),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": "^(rediss?|valkeys?|unix)://"}),
]
VariableName = Annotated[
    str,
    PlainValidator(variable_name),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}),
]
EndpointUrl = Annotated[
    str, PlainValidator(endpoint_url), WithJsonSchema({"type": "string", "pattern": "^https?://"})
]
ReadOnly = (AfterValidator(_read_only), WrapSerializer(_plain))


class Table(BaseModel):
    """What all tables share: values do not change and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())


Verdict: TypeAlias = Literal["allow", "ask", "deny"]
Permission = Annotated[
    Annotated[Verdict, Tag(ONE_VERDICT)]
    | Annotated[
        Annotated[Mapping[Annotated[StrictStr, Field(min_length=1)], Verdict], *ReadOnly], Tag(BY_PATTERN)
    ],
    Discriminator(_permission_form),
]


class RetryThen(Table):
    """Ask the failed model again, so many times, and then do something else."""

    retry: Annotated[StrictInt, Field(ge=0, le=10)] = Field(description="How often to ask it again.")
    then: Literal["fallback", "stop"] = Field(default="fallback", description="What follows the last retry.")


PolicyAction: TypeAlias = PolicyWord | RetryThen
Policy = Annotated[
    Mapping[
        FailureKind,
        Annotated[
            Annotated[PolicyWord, Tag(POLICY_WORD)] | Annotated[RetryThen, Tag(POLICY_TABLE)],
            Discriminator(_policy_form),
        ],
    ],
    *ReadOnly,
]


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
        'request itself where the next model speaks the same protocol, "auto" is inline in "opencode run", '
        "for subagents and titles, and replay elsewhere.",
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
        default_factory=_empty,
        description="What follows a kind of failure: "
        '"fallback", "stop", "ignore" or { retry = 1, then = "…" }.',
    )
    rules: tuple[Rule, ...] = Field(
        default=(),
        description="Texts of your providers that the built-in rules do not know; first match wins.",
    )


class AgentSettings(ChainTable):
    """``[agents.<name>]``: an agent's own model and chain."""

    model: Model | None = Field(default=None, description="The agent's first model; by default the host's.")
    fallback_models: Chain = Field(
        default=(), description="The agent's chain; when empty, that of [fallback] applies."
    )
    policy: Policy = Field(default_factory=_empty, description="As in [fallback], for this agent.")


class ServedModel(Table):
    """A model that our own agent host may ask at a provider. None: not known."""

    context: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None,
        description="How many tokens its context holds; without it a session is never shortened.",
    )
    output: Annotated[StrictInt, Field(ge=1)] | None = Field(
        default=None, description="How many tokens one answer may have; by default what the provider allows."
    )
    images: StrictBool = Field(default=False, description="Whether it takes images.")


ServedModels = Annotated[
    Mapping[Annotated[StrictStr, Field(min_length=1)], ServedModel],
    BeforeValidator(served_models, json_schema_input_type=tuple[str, ...] | Mapping[str, ServedModel]),
    *ReadOnly,
]


class ProviderSettings(Table):
    """``[providers."<id>"]``: one provider: what differs for its models, and where `serve` finds it."""

    base_url: EndpointUrl | None = Field(
        default=None,
        description="The address of an OpenAI-compatible endpoint, for our own agent host. "
        "Not read from a project's file.",
    )
    api_key_env: VariableName | None = Field(
        default=None,
        description="The environment variable that holds its key. Not read from a project's file.",
    )
    models: ServedModels = Field(
        default_factory=_empty,
        description="The models to ask there: a list of names, or a table of names with their sizes. "
        "Not read from a project's file.",
    )
    policy: Policy = Field(
        default_factory=_empty, description="As in [fallback], for this provider; an agent's goes before it."
    )


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
        description="The log file; by default in the user's state folder. Not read from a project's file.",
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


class MemorySettings(Table):
    """``[memory]``: what our own agent host keeps of sessions for later ones."""

    digests: FilePath | None = Field(
        default=None,
        description="A folder for Markdown files with what was said in each session; by default none are "
        "written. Not read from a project's file.",
    )


class PermissionSettings(Table):
    """``[permissions]``: what the tools of our own agent host may do; they never leave the project folder."""

    read: Permission = Field(default="allow", description="Reading a file or a folder, by its path.")
    write: Permission = Field(default="ask", description="Writing a whole file, by its path.")
    edit: Permission = Field(default="ask", description="Changing a file, by its path.")
    bash: Permission = Field(default="ask", description="Running a command, by its text.")


class ServeSettings(Table):
    """``[serve]``: our own agent host."""

    model: ModelKey | None = Field(
        default=None,
        description="The model of a session's first prompt, if that names none; "
        "by default the first one there is.",
    )
    on_restart: Literal["ask", "run", "cancel"] = Field(
        default="ask",
        description="What becomes of prompts that were accepted and not begun when the host stopped: "
        "hold them for a person's word, run them, or cancel them.",
    )


class Settings(Table):
    """Everything that can be set."""

    fallback: FallbackSettings = Field(default_factory=FallbackSettings)
    agents: Annotated[Mapping[str, AgentSettings], BeforeValidator(_agents_by_key), *ReadOnly] = Field(
        default_factory=_empty, description="Per agent, by name in any case."
    )
    providers: Annotated[Mapping[StrictStr, ProviderSettings], *ReadOnly] = Field(
        default_factory=_empty, description="Per provider, by its id."
    )
    models: Annotated[Mapping[ModelKey, ModelSettings], *ReadOnly] = Field(
        default_factory=_empty, description="Per model, by provider/model."
    )
    permissions: PermissionSettings = Field(default_factory=PermissionSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    plugins: PluginSettings = Field(default_factory=PluginSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    health: HealthSettings = Field(default_factory=HealthSettings)
