"""Requests to a scripted provider over HTTP: what is sent, what comes back, and every way it goes wrong."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest

from fallback_plugin.agent.providers.bounds import MAX_EVENT, MAX_REFUSAL
from fallback_plugin.agent.providers.exchange import (
    Finished,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCallBegun,
    ToolCallEnded,
    Usage,
)
from fallback_plugin.agent.providers.failure import ModelFailedError, without_secret
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.providers.timeouts import Timeouts
from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import classify
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import ProviderSettings
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import (
    Answer,
    Close,
    Data,
    Gate,
    Head,
    Reply,
    cut,
    done_only,
    error_object,
    hang,
    hang_before_headers,
    reset,
    status,
    stream,
    tool_call,
)

pytestmark = pytest.mark.anyio

MODEL = ModelRef("scripted", "m")
REQUEST = ModelRequest(session_id="ses_1", messages=[{"role": "user", "content": "hi"}])
KEY = "s3cret-key"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


def settings(url: str, **more: object) -> dict[str, ProviderSettings]:
    values = {"base_url": url, "api_key_env": "THE_KEY", "models": {"m": {}}, **more}
    return {"scripted": ProviderSettings.model_validate(values)}


@asynccontextmanager
async def asking(
    url: str, *, silence_s: float = 5.0, after_end_s: float = 5.0, **more: object
) -> AsyncIterator[Providers]:
    timeouts = Timeouts(connect_s=5.0, silence_s=silence_s, after_end_s=after_end_s)
    providers = Providers(settings(url, **more), {"THE_KEY": KEY}, timeouts=timeouts)
    try:
        yield providers
    finally:
        await providers.aclose()


async def events_of(providers: Providers, model: ModelRef = MODEL) -> list[ModelEvent]:
    async with providers.stream(model, REQUEST) as events:
        return [event async for event in events]


async def answered(provider: ScriptedProvider, reply: Reply) -> list[ModelEvent]:
    provider.script("m", reply)
    async with asking(provider.url) as providers:
        return await events_of(providers)


async def failure_of(provider: ScriptedProvider, reply: Reply, silence_s: float = 5.0) -> ModelFailedError:
    provider.script("m", reply)
    async with asking(provider.url, silence_s=silence_s) as providers:
        with pytest.raises(ModelFailedError) as failure:
            await events_of(providers)
    assert len(provider.requests("m")) == 1
    return failure.value


async def test_an_answer_comes_piece_by_piece(provider: ScriptedProvider) -> None:
    events = await answered(provider, stream("Hel", "lo"))

    usage = Usage(input_tokens=10, output_tokens=5)
    assert events == [TextDelta("Hel"), TextDelta("lo"), Finished("stop", usage)]


async def test_a_piece_is_told_before_the_next_one_is_there(provider: ScriptedProvider) -> None:
    gate = Gate()
    provider.script("m", stream("Hel", gate, "lo"))
    async with asking(provider.url) as providers, providers.stream(MODEL, REQUEST) as events:
        assert await anext(events) == TextDelta("Hel")
        gate.open()
        assert await anext(events) == TextDelta("lo")


async def test_a_tool_is_asked_for(provider: ScriptedProvider) -> None:
    events = await answered(provider, tool_call("read", {"path": "a"}))

    assert events[:2] == [
        ToolCallBegun("call_1", "read"),
        ToolCallEnded("call_1", "read", '{"path": "a"}'),
    ]


async def test_the_request_holds_what_was_set(provider: ScriptedProvider) -> None:
    provider.script("m", stream("x"))
    tools = [{"type": "function", "function": {"name": "read", "parameters": {}}}]
    request = ModelRequest(session_id="ses_1", messages=REQUEST.messages, tools=tools)
    async with (
        asking(provider.url, models={"m": {"output": 100}}) as providers,
        providers.stream(ModelRef("scripted", "m", "high"), request) as events,
    ):
        assert [event async for event in events]

    (asked,) = provider.requests("m")
    assert asked.session == "ses_1"
    assert dict(asked.body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": tools,
        "tool_choice": "auto",
        "max_tokens": 100,
        "reasoning_effort": "high",
    }


async def test_the_key_is_sent_and_nothing_of_the_environments_account(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-mine")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-mine: 1\nauthorization: Bearer of-mine")

    await answered(provider, stream("x"))

    (asked,) = provider.requests("m")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert "mine" not in json.dumps(dict(asked.headers))


async def test_without_a_variable_no_key_is_sent(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-mine")
    provider.script("m", stream("x"))
    async with asking(provider.url, api_key_env=None) as providers:
        await events_of(providers)

    assert "authorization" not in provider.requests("m")[0].headers


async def test_a_variable_without_a_key_is_said_and_nothing_is_sent(provider: ScriptedProvider) -> None:
    async with asking(provider.url, api_key_env="ANOTHER") as providers:
        with pytest.raises(ModelFailedError, match="ANOTHER holds no key") as failure:
            await events_of(providers)

    assert failure.value.error.name == "ProviderAuthError"
    assert provider.requests() == []


@pytest.mark.parametrize("environ", [{}, {"THE_KEY": ""}])
def test_a_provider_whose_key_is_missing_counts_as_not_connected(environ: dict[str, str]) -> None:
    providers = Providers(settings("http://x/v1"), environ)

    assert providers.models == ()
    assert not providers.catalog.connected("scripted")
    assert providers.catalog.unconnected == {"scripted": "the environment variable THE_KEY holds no key"}
    assert providers.problem(MODEL) == "the environment variable THE_KEY holds no key"
    assert providers.default == MODEL, "whoever names no model hears which key is missing"


def test_why_a_model_cannot_be_asked_is_said() -> None:
    providers = Providers(settings("http://x/v1"), {"THE_KEY": KEY})

    assert providers.problem(MODEL) is None
    assert providers.problem(ModelRef("scripted", "other")) == "it is not in [providers.scripted] models"
    assert providers.problem(ModelRef("q", "m")) == "[providers.q] is not set, or has no base_url"


async def test_a_model_that_is_not_set_is_not_asked(provider: ScriptedProvider) -> None:
    async with asking(provider.url) as providers:
        with pytest.raises(ModelFailedError, match="Model not found: scripted/other"):
            await events_of(providers, ModelRef("scripted", "other"))

    assert provider.requests() == []


async def test_a_refusal_is_told_as_the_host_tells_it(provider: ScriptedProvider) -> None:
    failure = await failure_of(provider, status(429, "Slow down.", {"Retry-After": "7"}))

    error = failure.error
    assert (failure.ending, error.name, error.message) == ("refused", "APIError", "Slow down.")
    assert (error.status_code, error.is_retryable) == (429, True)
    assert error.response_headers["retry-after"] == "7"
    assert json.loads(error.response_body or "")["error"]["message"] == "Slow down."
    assert classify(error, 0.0).kind == "rate_limit"


async def test_a_key_that_is_repeated_is_hidden(provider: ScriptedProvider) -> None:
    failure = await failure_of(provider, status(401, f"Incorrect API key provided: {KEY}.", {"x-key": KEY}))

    assert KEY not in repr(failure.error)
    assert failure.error.message == "Incorrect API key provided: ***."
    assert failure.error.is_retryable is False


@pytest.mark.parametrize(("secret", "hidden"), [("k", False), ("local", False), ("abcdef", True)])
def test_a_key_that_may_stand_in_any_word_is_not_looked_for(secret: str, *, hidden: bool) -> None:
    said = HostError(name="APIError", message=f"Incorrect API key provided: {secret}.", response_body="a key")

    told = without_secret(said, secret)

    assert told.message == f"Incorrect API key provided: {'***' if hidden else secret}."
    assert told.response_body == "a key"


WEB_PAGE = {"content-type": "text/html; charset=utf-8"}


@pytest.mark.parametrize(
    ("reply", "ending", "kind"),
    [
        (status(503), "refused", "overload"),
        (status(302, headers={"location": "http://127.0.0.1:9/"}), "refused", None),
        (error_object(message="Overloaded"), "refused", "overload"),
        (error_object("some text", message="Overloaded"), "refused", "overload"),
        (reset(), "refused", "transport"),
        (cut(), "cut", None),
        (cut("half"), "broken", None),
        (reset("half"), "broken", None),
        (done_only(), "cut", None),
        (stream(), "empty", None),
        ((Head(), Data("{no json"), Close()), "cut", None),
        ((Head(), Data('"a string"'), Data("[1, 2]"), Data('{"choices": 7}'), Close()), "cut", None),
        ((Answer(200, "<html>hello</html>"),), "cut", None),
        ((Answer(200, "\n<!DOCTYPE html>\n\nid: 1\n", WEB_PAGE), Close()), "refused", "transport"),
    ],
)
async def test_every_failure_is_told(
    provider: ScriptedProvider, reply: Reply, ending: str, kind: str | None
) -> None:
    failure = await failure_of(provider, reply)

    assert failure.ending == ending
    if kind:
        assert classify(failure.error, 0.0).kind == kind


async def test_an_endpoint_that_is_not_there_is_a_failure_of_the_way() -> None:
    async with asking("http://127.0.0.1:9/v1") as providers:
        with pytest.raises(ModelFailedError) as failure:
            await events_of(providers)

    assert failure.value.ending == "refused"
    assert classify(failure.value.error, 0.0).kind == "transport"


@pytest.mark.parametrize("reply", [hang_before_headers(), hang(), hang("half")])
async def test_a_provider_that_says_nothing_is_left_by_itself(
    provider: ScriptedProvider, reply: Reply
) -> None:
    failure = await failure_of(provider, reply, silence_s=0.2)

    assert failure.ending == "silent"


async def test_a_complete_answer_is_not_waited_on(provider: ScriptedProvider) -> None:
    end = Data(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    provider.script("m", (*hang("all of it")[:-2], end, Gate(), Close()))
    async with asking(provider.url, after_end_s=0.05) as providers:
        assert await events_of(providers) == [TextDelta("all of it"), Finished("stop")]


SAID = 'data: {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": null}]}\n\n'
ENDED = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
STREAMED = {"content-type": "text/event-stream"}


async def test_a_stream_that_is_called_a_web_page_is_an_answer(provider: ScriptedProvider) -> None:
    assert await answered(provider, (Answer(200, SAID + ENDED, WEB_PAGE), Close())) == [
        TextDelta("yes"),
        Finished("stop"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "retry: 3000\n\n" + SAID + ENDED,
        "id: 7\n\n" + SAID + "event: x\n\ndata:\n\n: comment\n\n" + ENDED,
        "\ufeff" + SAID + ENDED,
        (SAID + ENDED).replace("\n", "\r\n"),
        (SAID + ENDED).replace("\n\n", "\n"),
        (SAID + ENDED).rstrip(),
        SAID + "data: [DONE]\n\n",
        '{"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}',
    ],
    ids=["retry", "no data", "mark", "CRLF", "no empty lines", "no last end", "no finish", "whole"],
)
async def test_H10_a_complete_answer_is_an_answer(provider: ScriptedProvider, body: str) -> None:
    events = await answered(provider, (Answer(200, body, STREAMED), Close()))

    assert events == [TextDelta("yes"), Finished("stop")]


async def test_H10_nothing_is_waited_for_after_the_word_done(provider: ScriptedProvider) -> None:
    provider.script("m", (*hang("all of it")[:-2], Data("[DONE]"), Gate(), Close()))
    async with asking(provider.url) as providers:
        assert await events_of(providers) == [TextDelta("all of it"), Finished("stop")]


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}',
        '{"base_resp": {"status_code": 1004, "status_msg": "login fail"}, "choices": null}',
        '{"detail": "Invalid API key"}',
        'event:error\ndata:{"code": "InvalidApiKey", "message": "Invalid API-key provided."}\n\n',
        SAID + 'data: {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}\n\n',
    ],
)
async def test_P14_an_error_under_status_200_keeps_its_kind(provider: ScriptedProvider, body: str) -> None:
    failure = await failure_of(provider, (Answer(200, body, STREAMED), Close()))

    assert failure.ending == "refused"
    assert classify(failure.error, 0.0).kind == "auth"


async def test_P14_a_limit_under_status_200_says_how_long(provider: ScriptedProvider) -> None:
    body = '{"error": {"message": "Rate limit reached", "code": 429}}'
    failure = await failure_of(provider, (Answer(200, body, {"retry-after": "7"}), Close()))

    seen = classify(failure.error, 0.0)
    assert (seen.kind, seen.retry_after_s) == ("rate_limit", 7)


async def test_an_event_without_an_end_is_broken_off(provider: ScriptedProvider) -> None:
    """Ten megabytes in one line: read up to the limit, and the connection closed."""
    failure = await failure_of(provider, (Head(), Data("x" * 10_000_000), Gate(), Close()))

    assert failure.ending == "cut"
    assert f"longer than {MAX_EVENT} bytes" in failure.error.message
    provider.wait_for(lambda: provider.requests("m")[0].disconnected_at is not None)


async def test_ten_megabytes_in_pieces_are_broken_off(provider: ScriptedProvider) -> None:
    failure = await failure_of(provider, stream(*(["x" * 100_000] * 100)))

    assert failure.ending == "broken"
    assert "longer than" in failure.error.message


async def test_no_more_of_a_refusal_is_read_than_is_needed(provider: ScriptedProvider) -> None:
    failure = await failure_of(provider, (Answer(500, "x" * 10_000_000),))

    assert len(failure.error.response_body or "") == MAX_REFUSAL


@pytest.mark.parametrize("reply", [hang_before_headers(), hang("half")])
async def test_report_S18_leaving_closes_the_providers_stream(
    provider: ScriptedProvider, reply: Reply
) -> None:
    provider.script("m", reply)
    async with asking(provider.url) as providers:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events_of, providers)
            await anyio.to_thread.run_sync(provider.wait_for, lambda: bool(provider.requests("m")))
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(
            provider.wait_for, lambda: provider.requests("m")[0].disconnected_at is not None
        )


async def test_other_settings_count_from_the_next_request_and_break_no_stream(
    provider: ScriptedProvider,
) -> None:
    gate = Gate()
    provider.script("m", stream("Hel", gate, "lo"))
    with ScriptedProvider({"m": [stream("new")]}) as other:
        async with asking(provider.url) as providers:
            async with providers.stream(MODEL, REQUEST) as events:
                assert await anext(events) == TextDelta("Hel")
                await providers.apply(settings(other.url))
                assert (await events_of(providers))[0] == TextDelta("new")
                gate.open()
                assert await anext(events) == TextDelta("lo")

            assert list(providers._ways) == [(other.url, KEY)], "nothing is left of the place before"


async def test_a_model_that_was_taken_away_is_not_asked(provider: ScriptedProvider) -> None:
    provider.script("m", stream("Yes."))
    async with asking(provider.url) as providers:
        await events_of(providers)
        await providers.apply({})

        assert providers.models == ()
        with pytest.raises(ModelFailedError, match="Model not found"):
            await events_of(providers)
        assert providers._ways == {}


def test_models_are_listed_with_what_is_known_of_them() -> None:
    models = {"m": {"context": 1000, "output": 100, "images": True}, "n": {}}
    providers = Providers(settings("http://x/v1", models=models), {"THE_KEY": KEY})

    assert providers.models == (MODEL, ModelRef("scripted", "n"))
    assert providers.facts(MODEL).context_tokens == 1000
    assert providers.facts(MODEL).images is True
    assert providers.facts(ModelRef("scripted", "n")).context_tokens is None


def test_the_client_is_not_imported_before_a_model_is_asked() -> None:
    program = "import sys, fallback_plugin.agent.providers.registry; print('openai' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
