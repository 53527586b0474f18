"""What a tool is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fallback_plugin.agent.records import Json


class ToolRefusedError(Exception):
    """A tool cannot do what the model asked; the message is for the model, and says what to do instead."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool did: a line for a person, the text for the model, and what a page may show."""

    title: str
    output: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Permit:
    """What a call needs a permission for: ``pattern`` is a path in the project, or a command."""

    pattern: str
    title: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Tool(Protocol):
    """A tool. Arguments have been checked against ``parameters``; both methods raise `ToolRefusedError`."""

    @property
    def name(self) -> str:
        """How the model calls it, and the key of its permission."""
        ...

    @property
    def description(self) -> str:
        """What the model is told of it."""
        ...

    @property
    def parameters(self) -> Json:
        """The JSON schema of its arguments."""
        ...

    def permit(self, arguments: Json, project: Path) -> Permit:
        """Return what to ask a permission for; refuse what no permission can allow."""
        ...

    async def run(self, arguments: Json, project: Path) -> ToolOutput:
        """Do it. Cancelling it ends whatever it has started."""
        ...
