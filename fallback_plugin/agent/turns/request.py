"""The request to a model, built from the stored history: a pure function that repairs and changes nothing.

Roles alternate strictly (a person's words or tools' results, then an answer), every tool call is answered
exactly once, and nothing is sent that was only for the eyes of a person: failed attempts, marks of a stop,
reasoning. Everything before the summary of a shortened history is left out.
"""

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from fallback_plugin.agent.records import Json
from fallback_plugin.wire.fields import optional_object, text

INTERRUPTED: Final = "The tool was interrupted before it gave a result; what it did until then is not known."
SUMMARY_HEAD: Final = "The conversation so far was shortened. This is its summary:"
GO_ON: Final = "Go on."

_ENDED: Final = frozenset({"completed", "error"})


def request_messages(history: Sequence[Json], *, system: str, images: bool) -> list[dict[str, Any]]:
    """Return the messages of a chat completions request.

    ``history`` holds OpenCode's ``{info, parts}``, oldest first; ``images``: the model takes them.
    """
    used_ids: set[str] = set()
    messages: list[dict[str, Any]] = []
    for stored in history[_beginning(history) :]:
        info, parts = _info(stored), _parts(stored)
        if info.get("summary") is True and info.get("role") == "assistant":
            _say(messages, [_text_item(f"{SUMMARY_HEAD}\n\n{_text_of(parts)}")])
        elif info.get("role") == "user":
            _say(messages, [item for part in parts for item in _user_items(part, images=images)])
        elif info.get("role") == "assistant":
            _answer(messages, _kept(info, parts), used_ids)
    if not messages or messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": GO_ON})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": GO_ON})
    return [{"role": "system", "content": system}, *(_plain(message) for message in messages)]


def _beginning(history: Sequence[Json]) -> int:
    """Return the place of the last summary that was finished; everything before it is in it."""
    for place in range(len(history) - 1, -1, -1):
        info = _info(history[place])
        if info.get("summary") is True and info.get("role") == "assistant" and info.get("error") is None:
            return place if _text_of(_parts(history[place])) else 0
    return 0


def _kept(info: Json, parts: list[Json]) -> list[Json]:
    """Return what counts of an answer: of a failed one, only the tools that have run."""
    error = optional_object(info, "error")
    if error is None or error.get("name") == "MessageAbortedError":
        return parts
    return [part for part in parts if part.get("type") == "tool" and _state(part).get("status") in _ENDED]


def _say(messages: list[dict[str, Any]], items: list[dict[str, Any]]) -> None:
    """Add a person's words; two messages in a row become one."""
    if not items:
        return
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"] += items
    else:
        messages.append({"role": "user", "content": items})


def _answer(messages: list[dict[str, Any]], parts: list[Json], used_ids: set[str]) -> None:
    """Add an answer, its tool calls, and their results; two answers in a row become one."""
    said = _text_of(parts)
    calls = _calls(parts, used_ids)
    if not said.strip() and not calls:
        return
    if messages and messages[-1]["role"] == "assistant":
        answer = messages[-1]
        answer["content"] = "\n\n".join(filter(None, (answer["content"], said)))
    else:
        answer = {"role": "assistant", "content": said or None}
        messages.append(answer)
    if calls:
        answer["tool_calls"] = [_call(call_id, part) for call_id, part in calls.items()]
        messages += [
            {"role": "tool", "tool_call_id": call_id, "content": _result(_state(part))}
            for call_id, part in calls.items()
        ]


def _calls(parts: list[Json], used_ids: set[str]) -> dict[str, Json]:
    """Return an answer's tool parts by an id that is unique in the request; a repeated call counts once."""
    by_call: dict[str, Json] = {}
    for part in parts:
        if part.get("type") == "tool" and text(part, "tool"):
            by_call.setdefault(text(part, "callID") or text(part, "id") or "call", part)
    unique = {}
    for call_id, part in by_call.items():
        name, number = call_id, 1
        while name in used_ids:
            number += 1
            name = f"{call_id}_{number}"
        used_ids.add(name)
        unique[name] = part
    return unique


def _call(call_id: str, part: Json) -> dict[str, Any]:
    arguments = json.dumps(optional_object(_state(part), "input") or {}, ensure_ascii=False, default=str)
    return {"id": call_id, "type": "function", "function": {"name": part["tool"], "arguments": arguments}}


def _result(state: Json) -> str:
    match state.get("status"):
        case "completed":
            return text(state, "output") or "(no output)"
        case "error":
            return text(state, "error") or INTERRUPTED
    return INTERRUPTED


def _user_items(part: Json, *, images: bool) -> Iterator[dict[str, Any]]:
    """Yield what a part of a person's message says to a model."""
    if part.get("ignored") is True:
        return
    if part.get("type") == "text" and (said := text(part, "text")):
        yield _text_item(said)
    elif part.get("type") == "file":
        yield _file_item(part, images=images)


def _file_item(part: Json, *, images: bool) -> dict[str, Any]:
    mime, url = text(part, "mime") or "", text(part, "url") or ""
    name = text(part, "filename") or "a file"
    if mime.startswith("image/") and images and url.startswith(("data:", "https://", "http://")):
        return {"type": "image_url", "image_url": {"url": url}}
    if mime.startswith("text/") and (content := _text_in(url)) is not None:
        return _text_item(f"{name}:\n{content}")
    if url.startswith("file://"):
        return _text_item(f"[{name} is at {unquote(urlsplit(url).path)}]")
    return _text_item(f"[{name} ({mime or 'unknown kind'}) is attached, but this model cannot see it]")


def _text_in(url: str) -> str | None:
    """Return the text of a ``data:`` address, None if there is none in it."""
    head, comma, data = url.partition(",")
    if not (head.startswith("data:") and comma):
        return None
    try:
        content = b64decode(data) if head.endswith(";base64") else unquote_to_bytes(data)
        return content.decode()
    except (Base64Error, ValueError):
        return None


def _text_item(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose words stand alone as plain text: every endpoint takes that."""
    content = message["content"]
    if isinstance(content, list) and all(item["type"] == "text" for item in content):
        return {**message, "content": "\n\n".join(item["text"] for item in content)}
    return message


def _text_of(parts: list[Json]) -> str:
    said = (text(part, "text") for part in parts if part.get("type") == "text" and not part.get("ignored"))
    return "\n\n".join(each for each in said if each)


def _info(stored: Json) -> Json:
    return optional_object(stored, "info") or {}


def _parts(stored: Json) -> list[Json]:
    parts = stored.get("parts")
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list | tuple) else []


def _state(part: Json) -> Json:
    return optional_object(part, "state") or {}
