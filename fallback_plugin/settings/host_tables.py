"""The tables of our own agent host: where its models are, what its tools may do, what it keeps."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    WithJsonSchema,
)

from fallback_plugin.settings.endpoint import endpoint_url, served_models
from fallback_plugin.settings.policy import Policy
from fallback_plugin.settings.values import FilePath, ModelKey, ReadOnly, Table, VariableName, empty

ONE_VERDICT: Final = "<verdict>"
BY_PATTERN: Final = "<by pattern>"
"""What pydantic puts behind a permission, to say which of the two forms it took it for."""


def _permission_form(value: object) -> str:
    return BY_PATTERN if isinstance(value, Mapping) else ONE_VERDICT


EndpointUrl = Annotated[
    str, PlainValidator(endpoint_url), WithJsonSchema({"type": "string", "pattern": "^https?://"})
]
Verdict: TypeAlias = Literal["allow", "ask", "deny"]
Permission = Annotated[
    Annotated[Verdict, Tag(ONE_VERDICT)]
    | Annotated[
        Annotated[Mapping[Annotated[StrictStr, Field(min_length=1)], Verdict], *ReadOnly], Tag(BY_PATTERN)
    ],
    Discriminator(_permission_form),
]


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
        default_factory=empty,
        description="The models to ask there: a list of names, or a table of names with their sizes. "
        "Not read from a project's file.",
    )
    policy: Policy = Field(
        default_factory=empty, description="As in [fallback], for this provider; an agent's goes before it."
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
