"""The scripted provider misbehaves exactly as told, and tells what it saw."""

import json
import socket
import struct
from collections.abc import Iterator

import httpx2
import pytest

from tests.loopback.provider import Request, ScriptedProvider
from tests.loopback.reply import (
    Gate,
    Pause,
    Reply,
    closed_early,
    cut,
    done_only,
    error_object,
    hang,
    hang_before_headers,
    reset,
    status,
    stream,
    thinking,
    tool_call,
)


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


def ask(provider: ScriptedProvider, model: str = "m") -> httpx2.Response:
    return httpx2.post(
        f"{provider.url}/chat/completions", json=body(model), headers={"x-session-id": "ses_1"}
    )


def body(model: str) -> dict[str, object]:
    return {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}


def data_lines(response: httpx2.Response) -> list[str]:
    return [line.removeprefix("data: ") for line in response.text.splitlines() if line]


def text_of(response: httpx2.Response) -> str:
    chunks = [json.loads(line) for line in data_lines(response) if line != "[DONE]"]
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c.get("choices"))


def test_replies_are_used_up_in_order_and_the_last_one_repeats(provider: ScriptedProvider) -> None:
    provider.script("m", status(429, headers={"retry-after": "7"}), stream("a", "b"))

    refused, first, second = ask(provider), ask(provider), ask(provider)

    assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
    assert [text_of(first), text_of(second)] == ["ab", "ab"]


def test_a_request_is_recorded_with_its_session_roles_and_last_byte(provider: ScriptedProvider) -> None:
    provider.script("m", stream("a"))

    ask(provider)

    (request,) = provider.requests("m", session="ses_1")
    provider.wait_for(lambda: request.last_byte_at is not None)
    assert request.roles == ("user",)
    assert request.disconnected_at is None
    assert provider.requests("other") == []


def test_a_model_without_a_script_is_unknown(provider: ScriptedProvider) -> None:
    assert ask(provider, "nobody").status_code == 404


def test_a_cut_stream_has_no_finish_reason_and_a_whole_one_has(provider: ScriptedProvider) -> None:
    provider.script("m", cut("a"), stream("a"))

    broken, whole = ask(provider), ask(provider)

    assert '"finish_reason": "stop"' not in broken.text
    assert '"finish_reason": "stop"' in whole.text


def test_a_stream_may_say_nothing_but_its_end(provider: ScriptedProvider) -> None:
    provider.script("m", done_only())

    assert data_lines(ask(provider)) == ["[DONE]"]


def test_reasoning_is_no_answer(provider: ScriptedProvider) -> None:
    provider.script("m", thinking("Let me ", "think."))

    answer = ask(provider)

    assert text_of(answer) == ""
    assert '"reasoning_content": "think."' in answer.text
    assert '"finish_reason": "stop"' in answer.text


def test_a_pause_ends_when_the_client_goes_away(provider: ScriptedProvider) -> None:
    provider.script("m", stream(Pause(60.0), "a"))

    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{provider.url}/chat/completions", json=body("m"), timeout=0.1)

    (request,) = provider.requests("m")
    provider.wait_for(lambda: request.disconnected_at is not None)


def test_an_error_object_follows_the_text(provider: ScriptedProvider) -> None:
    provider.script("m", error_object("a", message="Overloaded"))

    first, last = data_lines(ask(provider))

    assert json.loads(first)["choices"][0]["delta"]["content"] == "a"
    assert json.loads(last)["error"]["message"] == "Overloaded"


def test_a_tool_call_ends_its_step(provider: ScriptedProvider) -> None:
    provider.script("m", tool_call("bash", {"command": "true"}))

    answer = ask(provider).text

    assert '"name": "bash"' in answer
    assert '"finish_reason": "tool_calls"' in answer


def test_a_stream_in_chunks_that_ends_properly_is_read_whole(provider: ScriptedProvider) -> None:
    provider.script("m", cut("a", "b", chunked=True))

    assert text_of(ask(provider)) == "ab"


@pytest.mark.parametrize(
    "reply",
    [reset(), reset("a"), reset("a", chunked=True), closed_early("a")],
    ids=["before the headers", "in the stream", "between chunks", "before the last chunk"],
)
def test_a_reset_breaks_the_connection(provider: ScriptedProvider, reply: Reply) -> None:
    provider.script("m", reply)

    with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
        ask(provider)


@pytest.mark.parametrize("reply", [hang_before_headers(), hang(), hang("a")])
def test_a_hang_lasts_until_the_client_goes_away(provider: ScriptedProvider, reply: Reply) -> None:
    provider.script("m", reply)

    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{provider.url}/chat/completions", json=body("m"), timeout=0.1)

    (request,) = provider.requests("m")
    provider.wait_for(lambda: request.disconnected_at is not None)
    assert request.last_byte_at is None


def test_a_gate_holds_a_stream_until_it_is_opened(provider: ScriptedProvider) -> None:
    gate = Gate()
    provider.script("m", stream("a", gate, "b"))
    with httpx2.stream("POST", f"{provider.url}/chat/completions", json=body("m")) as response:
        lines = response.iter_lines()
        assert '"content": "a"' in next(lines)
        request: Request = provider.requests("m")[0]
        assert request.last_byte_at is None

        gate.open()

        assert '"content": "b"' in "".join(lines)


def test_a_client_that_resets_while_it_is_answered_is_seen_to_leave(provider: ScriptedProvider) -> None:
    provider.script("m", hang("half"))
    place = httpx2.URL(provider.url)
    content = json.dumps(body("m")).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(content)}\r\n\r\n".encode()

    with socket.create_connection((place.host, place.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(head + content)

    provider.wait_for(lambda: [r.disconnected_at is not None for r in provider.requests("m")] == [True])
