"""What a prompt may ask for that this host does not do: refused with words, at every door."""

from collections.abc import Collection
from typing import Final

from fallback_plugin.agent.records import Json

_LONGEST_SHOWN: Final = 60


def parts_problem(parts: Collection[Json]) -> str | None:
    """Say that a prompt's parts hold neither words nor a file; without any part it asks for a stored turn."""
    if not parts or any(map(_says_something, parts)):
        return None
    return "The prompt is empty: give it words or a file"


def agent_problem(name: str | None, known: Collection[str]) -> str | None:
    """Say that there is no such agent."""
    if name is None or name in known:
        return None
    return f'Agent not found: "{name[:_LONGEST_SHOWN]}". Available agents: {", ".join(known)}'


def format_problem(wanted: Json | None) -> str | None:
    """Say that an answer can be had as text only."""
    if wanted is None or wanted.get("type") == "text":
        return None
    kind = str(wanted.get("type"))[:_LONGEST_SHOWN]
    return f'The format "{kind}" is not supported, only text: describe the form in the prompt'


def _says_something(part: Json) -> bool:
    return part.get("type") == "file" or bool(
        part.get("type") == "text" and str(part.get("text", "")).strip()
    )
