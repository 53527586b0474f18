"""Whole answers in the streams of other SDKs than the OpenAI-compatible one."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.loopback.reply import Close, Data, Head, Reply


def anthropic(text: str, *, thought: str = "") -> Reply:
    """Answer as ``/v1/messages`` does; with ``thought`` after a signed block of thinking."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    usage = {"input_tokens": 10, "output_tokens": 5}
    blocks: list[dict[str, Any]] = []
    if thought:
        blocks += _block(
            len(blocks),
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": thought},
            {"type": "signature_delta", "signature": "signed-by-the-first-model"},
        )
    index = 1 if thought else 0
    blocks += _block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})
    return _stream(
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        *blocks,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


def google(text: str) -> Reply:
    """Answer as ``:streamGenerateContent`` does."""
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return _stream({"candidates": [candidate], "usageMetadata": usage})


def openai_responses(text: str) -> Reply:
    """Answer as ``/v1/responses`` does."""
    response = {"id": "resp_1", "object": "response", "created_at": 0, "model": "scripted", "output": []}
    item = {"id": "item_1", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "text": text, "annotations": []}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    delta = {"item_id": "item_1", "output_index": 0, "content_index": 0, "delta": text}
    return _stream(
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", **delta},
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "content": [part]}},
        {"type": "response.completed", "response": {**response, "status": "completed", "usage": usage}},
    )


ANSWERS: Final[Mapping[str, Callable[[str], Reply]]] = {
    "@ai-sdk/anthropic": anthropic,
    "@ai-sdk/google": google,
    "@ai-sdk/openai": openai_responses,
}
"""By the SDK that reads them."""


def _block(index: int, block: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _stream(*events: Mapping[str, Any]) -> Reply:
    return (Head(), *(Data(json.dumps(event)) for event in events), Close())
