"""How a turn is sent again to another model.

In place is best: the host runs the stored message again, with its files and finished tool steps. Where that
cannot be, the parts are sent anew, in tiers: all of them, then text and images, then text alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fallback_plugin.events import AssistantMessage, Part, StoredMessage, UserMessage
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.prompt import Prompt

TOOL_AT_WORK: Final = frozenset({"pending", "running"})
"""States of a tool that has done nothing yet, or not all."""

_STORED_ONLY: Final = ("id", "messageID", "sessionID")


@dataclass(frozen=True, slots=True)
class Tier:
    """Parts to send, and the kinds of parts that had to be left out: types, or media types of files."""

    parts: tuple[Mapping[str, Any], ...]
    dropped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A user message as the history holds it."""

    user: UserMessage
    parts: tuple[Part, ...]
    tools_done: bool = False


def turn_to_replay(history: Sequence[StoredMessage], message_id: str | None = None) -> StoredTurn | None:
    """Return the user message ``message_id``, or the last one that says something.

    A message without parts, or with nothing but the host's own compaction mark, says nothing.
    """
    worked = {
        message.info.parent_id
        for message in history
        if isinstance(message.info, AssistantMessage)
        and any(part.type == "tool" and part.tool_status not in TOOL_AT_WORK for part in message.parts)
    }
    turns = [
        StoredTurn(message.info, message.parts, message.info.id in worked)
        for message in history
        if isinstance(message.info, UserMessage)
        and (message.info.id == message_id or any(part.type != "compaction" for part in message.parts))
    ]
    named = (turn for turn in turns if turn.user.id == message_id)
    return next(named, turns[-1] if turns else None)


def in_place(user: UserMessage, model: ModelRef) -> Prompt:
    """Return the prompt that runs a stored turn again on another model (OpenCode 1.18.33, measured)."""
    return _prompt(user, model, message_id=user.id, parts=())


def sent_anew(user: UserMessage, model: ModelRef, tier: Tier) -> Prompt:
    """Return the prompt that sends a turn's parts as a new message."""
    return _prompt(user, model, message_id=None, parts=tier.parts)


def _prompt(
    user: UserMessage, model: ModelRef, *, message_id: str | None, parts: tuple[Mapping[str, Any], ...]
) -> Prompt:
    return Prompt(
        model=model,
        message_id=message_id,
        parts=parts,
        agent=user.agent,
        system=user.system,
        tools=user.tools,
        format=user.format,
    )


def tiers(parts: Sequence[Part]) -> tuple[Tier, ...]:
    """Return what to try in turn; a tier that is empty or no smaller than the one before is left out.

    Synthetic parts are the host's own expansion of files and compaction parts its own bookkeeping: it makes
    both again where they are needed.
    """
    whole = [part for part in parts if not part.synthetic and part.type != "compaction"]
    found: list[Tier] = []
    for kept in (
        whole,
        [part for part in whole if part.type == "text" or _is_image(part)],
        [part for part in whole if part.type == "text"],
    ):
        if kept and (not found or len(kept) < len(found[-1].parts)):
            dropped = frozenset(_kind(part) for part in whole if part not in kept)
            found.append(Tier(tuple(map(_to_send, kept)), dropped))
    return tuple(found)


def _kind(part: Part) -> str:
    """Return a part's type, or a file's own media type."""
    mime = part.raw.get("mime")
    return mime if part.type == "file" and isinstance(mime, str) and mime else part.type


def _is_image(part: Part) -> bool:
    return part.type == "image" or _kind(part).startswith("image/")


def _to_send(part: Part) -> Mapping[str, Any]:
    return {key: value for key, value in part.raw.items() if key not in _STORED_ONLY}


@dataclass(slots=True)
class Replay:
    """The ways to send one turn to one model that have not been tried yet."""

    user: UserMessage
    model: ModelRef
    tiers: Iterator[Tier] | None = None
    dropped: frozenset[str] = frozenset()

    def first(self) -> Prompt:
        """Return the prompt to begin with."""
        return in_place(self.user, self.model)

    @property
    def needs_parts(self) -> bool:
        """Whether the parts have to be read before `next` can say anything."""
        return self.tiers is None

    def offer(self, parts: Sequence[Part]) -> None:
        """Hand in the parts of the stored turn."""
        self.tiers = iter(tiers(parts))

    def next(self) -> Prompt | None:
        """Return the next prompt after one was refused, None when all ways have been tried."""
        tier = next(self.tiers or iter(()), None)
        if tier is None:
            return None
        self.dropped = tier.dropped
        return sent_anew(self.user, self.model, tier)
