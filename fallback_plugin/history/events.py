"""What an event of the host changes in a window. An event that says nothing new changes nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from fallback_plugin.history.page import Json, Message
from fallback_plugin.history.window import Messages, Window, without_oldest


def session_of(event: Json) -> str | None:
    """Return the session an event is about."""
    match event.get("properties"):
        case {"sessionID": str(found)}:
            return found
        case {"info": {"sessionID": str(found)}} | {"part": {"sessionID": str(found)}}:
            return found
        case {"info": {"id": str(found)}}:
            return found
    return None


def message_of(event: Json) -> str | None:
    """Return the message an event is about."""
    match event.get("properties"):
        case {"messageID": str(found)} | {"part": {"messageID": str(found)}}:
            return found
        case {"info": {"id": str(found)}}:
            return found
    return None


def applied(window: Window, event: Json, bound: int) -> Window:
    """Return a window after an event of its session; the same one if it changes nothing.

    The old end is given up where the window gets longer than ``bound``.
    """
    change = _CHANGES.get(event.get("type", ""))
    changed = window if change is None else change(window, event["properties"])
    return changed if changed is window else without_oldest(changed, bound, 1)


def _message_updated(window: Window, properties: Json) -> Window:
    match properties:
        case {"info": {"id": str(message_id)} as info}:
            pass
        case _:
            return window
    if _find(window.messages, message_id) is not None:
        return _with_message(window, message_id, lambda message: replace(message, info=info))
    position = properties.get("position")
    if not window.covers(position):
        return window
    message = Message(message_id, info, (), position, properties.get("cursor"))
    index = _place(window.messages, position)
    return replace(window, messages=(*window.messages[:index], message, *window.messages[index:]))


def _place(messages: Messages, position: int | None) -> int:
    """Return where a message stands: nearly always at the end, but one may be taken away and put again."""
    index = len(messages)
    while position is not None and index and (messages[index - 1].position or 0) > position:
        index -= 1
    return index


def _message_removed(window: Window, properties: Json) -> Window:
    told = replace(window, is_loss_told=True)
    index = _find(window.messages, properties.get("messageID"))
    if index is None:
        return told
    left, gone, right = window.messages[:index], window.messages[index], window.messages[index + 1 :]
    if right and right[0].cursor is None:
        right = (replace(right[0], cursor=gone.cursor), *right[1:])
    return replace(told, messages=left + right)


def _part_updated(window: Window, properties: Json) -> Window:
    match properties:
        case {"part": {"id": str(part_id), "messageID": str(message_id)} as part}:
            return _with_message(window, message_id, lambda message: _with_part(message, part_id, part))
    return window


def _part_delta(window: Window, properties: Json) -> Window:
    match properties:
        case {"messageID": str(message_id), "partID": str(part_id), "field": str(name), "delta": str(more)}:
            end = properties.get("end")
        case _:
            return window

    def grown(message: Message) -> Message:
        for part in message.parts:
            if part["id"] == part_id:
                text = part.get(name) or ""
                new = more if end is None else _missing(len(text), more, end)
                return _with_part(message, part_id, {**part, name: text + new}) if new else message
        return message

    return _with_message(window, message_id, grown)


def _missing(length: int, more: str, end: int) -> str:
    """Return what a text of ``length`` characters lacks of more, with which it has ``end``.

    Nothing, if something before it is missing: the whole text comes when the part is complete.
    """
    known = length - (end - len(more))
    return more[known:] if known >= 0 else ""


def _part_removed(window: Window, properties: Json) -> Window:
    part_id = properties.get("partID")

    def without(message: Message) -> Message:
        parts = tuple(part for part in message.parts if part["id"] != part_id)
        return message if len(parts) == len(message.parts) else replace(message, parts=parts)

    return _with_message(window, properties.get("messageID"), without)


def _session_updated(window: Window, properties: Json) -> Window:
    match properties:
        case {"info": {"revert": {"messageID": str(found)}}}:
            reverted_to: str | None = found
        case _:
            reverted_to = None
    if reverted_to == window.reverted_to:
        return window
    return replace(window, reverted_to=reverted_to, is_loss_told=True)


def _with_message(window: Window, message_id: object, change: Callable[[Message], Message]) -> Window:
    index = _find(window.messages, message_id)
    if index is None:
        return window
    before = window.messages[index]
    after = change(before)
    if after is before:
        return window
    return replace(window, messages=(*window.messages[:index], after, *window.messages[index + 1 :]))


def _find(messages: Messages, message_id: object) -> int | None:
    # What changes is nearly always near the new end.
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].id == message_id:
            return index
    return None


def _with_part(message: Message, part_id: str, part: Json) -> Message:
    for index, known in enumerate(message.parts):
        if known["id"] == part_id:
            return replace(message, parts=(*message.parts[:index], part, *message.parts[index + 1 :]))
    return replace(message, parts=(*message.parts, part))


_Change: TypeAlias = Callable[[Window, Json], Window]
_CHANGES: Final[dict[str, _Change]] = {
    "message.updated": _message_updated,
    "message.removed": _message_removed,
    "message.part.updated": _part_updated,
    "message.part.delta": _part_delta,
    "message.part.removed": _part_removed,
    "session.updated": _session_updated,
}
