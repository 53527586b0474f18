"""Shortening a history that nearly fills a model's context: when, with which words, and what is left."""

from collections.abc import Sequence
from typing import Any, Final

from fallback_plugin.agent.identifiers import NewId
from fallback_plugin.agent.records import Json
from fallback_plugin.wire.fields import optional_object, text

AGENT: Final = "compaction"
"""The agent under whose name the summary is asked for, as in OpenCode."""

LARGE_WINDOW: Final = 200_000
ROOM_IN_LARGE: Final = 20_000
ROOM_IN_SMALL: Final = 0.2
MAX_TOOL_OUTPUT: Final = 2_000
"""Characters of a tool's output that the request for a summary holds."""

SYSTEM: Final = "You summarise the work of a coding agent, so that another one can go on with it."
INSTRUCTION: Final = (
    "The conversation has grown too long to go on. Write a summary from which another agent can go on "
    "without having seen it: what the person wants, in their own words where they matter; what was done, "
    "with the names of files and commands; what was found out; what is still to do, and the next step. "
    "Answer with the summary alone."
)


def request(*, auto: bool = False) -> dict[str, Any]:
    """Return the part that asks for a summary, as OpenCode's prompts and messages have it."""
    return {"type": "compaction", "auto": auto}


def is_request(parts: Sequence[Json]) -> bool:
    """Tell whether a message asks for nothing but a summary."""
    return bool(parts) and all(part.get("type") == "compaction" for part in parts)


def nearly_full(used: int, window: int | None) -> bool:
    """Tell whether a context is to be shortened before the next request; never if its size is not known."""
    if not window:
        return False
    room = window - used
    return room <= (ROOM_IN_LARGE if window > LARGE_WINDOW else window * ROOM_IN_SMALL)


def last_context(history: Sequence[Json]) -> int:
    """Return how many tokens the context held after the last answer that says so, 0 if none does."""
    for stored in reversed(history):
        info = optional_object(stored, "info") or {}
        if info.get("summary") is True:
            return 0
        total = (optional_object(info, "tokens") or {}).get("total")
        if isinstance(total, int) and total > 0:
            return total
    return 0


def with_short_outputs(history: Sequence[Json]) -> list[Json]:
    """Return a history whose tools said less: a summary needs no whole files."""
    return [{**stored, "parts": [_short(part) for part in stored.get("parts", ())]} for stored in history]


def _short(part: Json) -> Json:
    state = optional_object(part, "state") or {}
    output = text(state, "output")
    if part.get("type") != "tool" or output is None or len(output) <= MAX_TOOL_OUTPUT:
        return part
    return {**part, "state": {**state, "output": f"{output[:MAX_TOOL_OUTPUT]}\n… the rest was left out …"}}


def opening(
    session_id: str, *, summary: str, answer: Json, asked: Json, now_ms: int, new_id: NewId
) -> list[dict[str, Any]]:
    """Return the first messages of the session that goes on: the summary, and the person's message anew.

    A message that asked for nothing but the summary is answered by it. ``answer`` is the ``info`` of the
    answer under way, whose agent and model the summary is given; ``asked`` the person's message, ``{info,
    parts}``.
    """
    begun, summed_up, again = (new_id("msg") for _ in range(3))
    person = asked["info"]
    said = {"type": "text", "text": summary, "time": {"start": now_ms, "end": now_ms}}
    is_answered = is_request(asked["parts"])
    shortened = [
        {
            "info": _placed({**person, "time": {"created": now_ms}}, begun, session_id),
            "parts": [_part(request(auto=not is_answered), begun, session_id, new_id)],
        },
        {
            "info": _placed(
                {
                    **answer,
                    "parentID": begun,
                    "mode": AGENT,
                    "agent": AGENT,
                    "summary": True,
                    "finish": "stop",
                    "time": {"created": now_ms, "completed": now_ms},
                },
                summed_up,
                session_id,
            ),
            "parts": [_part(said, summed_up, session_id, new_id)],
        },
    ]
    if not is_answered:
        info = _placed({**person, "time": {"created": now_ms}}, again, session_id)
        parts = [_part(part, again, session_id, new_id) for part in asked["parts"]]
        shortened.append({"info": info, "parts": parts})
    return shortened


def _placed(info: Json, message_id: str, session_id: str) -> dict[str, Any]:
    return {**info, "id": message_id, "sessionID": session_id}


def _part(part: Json, message_id: str, session_id: str, new_id: NewId) -> dict[str, Any]:
    return {**part, "id": new_id("prt"), "messageID": message_id, "sessionID": session_id}
