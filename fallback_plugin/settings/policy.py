"""What follows a kind of failure: a word, or some more tries and then a word."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, Discriminator, Field, StrictInt, Tag

from fallback_plugin.settings.failure_kind import FailureKind, PolicyWord
from fallback_plugin.settings.values import ReadOnly, Table

POLICY_WORD: Final = "<word>"
POLICY_TABLE: Final = "<table>"
"""What pydantic puts behind a policy's kind, to say which of the two forms it took it for."""


def _policy_form(value: object) -> str:
    return POLICY_TABLE if isinstance(value, Mapping | BaseModel) else POLICY_WORD


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
