"""One endpoint, asked with the official client. Imported when a model is first asked: the client is heavy."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import anyio
import httpx
import openai
from openai import AsyncOpenAI, AsyncStream

from fallback_plugin.agent.providers.answer import AnswerReader
from fallback_plugin.agent.providers.bounds import OversizedAnswerError, bound_response
from fallback_plugin.agent.providers.error_body import (
    error_in,
    error_message,
    error_under_success,
    is_retryable,
)
from fallback_plugin.agent.providers.exchange import ModelEvent
from fallback_plugin.agent.providers.failure import (
    ModelFailedError,
    ended_badly,
    transport_error,
    without_secret,
)
from fallback_plugin.agent.providers.sse import EventStreamDecoder, ServerSentEvent
from fallback_plugin.agent.providers.timeouts import Timeouts
from fallback_plugin.agent.records import Json
from fallback_plugin.events import HostError
from fallback_plugin.network import is_this_machine, trusted_certificates

_SENT: Final = frozenset(
    {"accept", "connection", "content-length", "content-type", "host", "user-agent", "x-session-id"}
)
"""The client's headers that are sent on."""

_DONE: Final = "[DONE]"

# The first words are those that failures of connections are known by.
_WEB_PAGE: Final = (
    "Connection error: a web page came in place of an answer; "
    "is the base_url right, and does a proxy or a login page stand in between?"
)


class OpenAIClient:
    """Streams chat completions from one endpoint: one request a call, none tried again."""

    def __init__(self, base_url: str, api_key: str | None, timeouts: Timeouts) -> None:
        self._api_key = api_key
        self._timeouts = timeouts
        self._http = httpx.AsyncClient(
            verify=trusted_certificates(),
            trust_env=not is_this_machine(httpx.URL(base_url).host),
            timeout=httpx.Timeout(timeouts.silence_s, connect=timeouts.connect_s, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,
            event_hooks={"request": [self._send_only_ours], "response": [bound_response]},
        )
        self._client = AsyncOpenAI(
            base_url=base_url, api_key=api_key or "none", max_retries=0, http_client=self._http
        )

    @asynccontextmanager
    async def stream(
        self, body: Json, headers: dict[str, str], new_call_id: Callable[[], str]
    ) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """Ask, and offer the answer's events; leaving the context closes the connection.

        Raises:
            ModelFailedError: whatever goes wrong, here or while the events are read.
        """
        try:
            stream = await self._client.post(
                "/chat/completions",
                cast_to=object,
                body=dict(body),
                options={"headers": headers},
                stream=True,
                stream_cls=AsyncStream[Any],
            )
        except Exception as error:
            raise self._failure(error, begun=False) from error
        # The client's own decoder gives up at events without data, at a byte order mark, and at a whole body.
        answer = self._events(stream.response, AnswerReader(new_call_id))
        async with stream, aclosing(answer) as events:
            yield events

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _send_only_ours(self, request: httpx.Request) -> None:
        """Drop the headers that the client takes from the environment: they are for OpenAI alone."""
        for name in set(request.headers) - _SENT:
            del request.headers[name]
        request.headers["accept-encoding"] = "identity"
        if self._api_key:
            request.headers["authorization"] = f"Bearer {self._api_key}"

    async def _events(self, response: httpx.Response, reader: AnswerReader) -> AsyncGenerator[ModelEvent]:
        sent = _sent_events(response)
        is_page = response.headers.get("content-type", "").startswith("text/html")
        async with aclosing(sent):
            while not reader.is_complete:
                try:
                    # A server may forget to close after the end, or break where nothing is missing any more.
                    with anyio.move_on_after(
                        self._timeouts.after_end_s if reader.finish else None
                    ) as patience:
                        event = await anext(sent)
                    if patience.cancelled_caught:
                        break
                    chunks = list(_chunks(event, response))
                except StopAsyncIteration:
                    break
                except Exception as error:
                    if reader.finish:
                        break
                    raise self._failure(error, begun=reader.begun) from error
                for chunk in chunks:
                    for each in reader.read(chunk):
                        yield each
                reader.is_complete = event.is_whole or _is_done(event)
                is_page = False  # some gateways call a proper stream one
        if is_page:
            raise ModelFailedError(transport_error(_WEB_PAGE), "refused")
        for each in reader.end():
            yield each

    def _failure(self, error: Exception, *, begun: bool) -> ModelFailedError:
        failure = _failure(error, begun=begun)
        return ModelFailedError(without_secret(failure.error, self._api_key), failure.ending)


async def _sent_events(response: httpx.Response) -> AsyncGenerator[ServerSentEvent]:
    decoder = EventStreamDecoder()
    async for piece in response.aiter_bytes():
        for event in decoder.feed(piece):
            yield event
    for event in decoder.end():
        yield event


def _chunks(event: ServerSentEvent, response: httpx.Response) -> Iterator[object]:
    """Yield the chunks of an answer that an event holds.

    Raises:
        ModelFailedError: if it holds an error instead.
        ValueError: if it holds no JSON.
    """
    if _is_done(event):
        return
    for value in _values(event.data):
        found = error_in(value, event=event.name, is_whole=event.is_whole)
        if found is not None:
            raise ModelFailedError(error_under_success(found, response.headers), "refused")
        yield value


def _values(data: str) -> list[object]:
    """Return the JSON values of an event: one, or one a line from servers that leave out the empty lines."""
    try:
        return [json.loads(data)]
    except RecursionError:
        raise ValueError("lists or objects are nested too deep") from None
    except ValueError:
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) == 1:
            raise
        return [json.loads(line) for line in lines if not line.startswith(_DONE)]


def _is_done(event: ServerSentEvent) -> bool:
    return event.data.lstrip().startswith(_DONE)


def _failure(error: Exception, *, begun: bool) -> ModelFailedError:
    match error:
        case ModelFailedError():
            return error
        case openai.APIStatusError():
            return ModelFailedError(_refusal(error), "refused")
        case openai.APIConnectionError():
            return _unanswered(error.__cause__ or error)
        case httpx.TimeoutException():
            return ModelFailedError(transport_error("the provider fell silent"), "silent")
        case httpx.TransportError() | OversizedAnswerError():
            return ended_badly(f"the answer broke off: {error}", begun=begun)
        case ValueError():
            return ended_badly("the answer is no stream of JSON events", begun=begun)
    name = type(error).__name__
    return ModelFailedError(HostError(name="UnknownError", message=f"{name}: {error}"), "refused")


def _unanswered(cause: BaseException) -> ModelFailedError:
    """Return the failure of a request that got no answer at all."""
    if isinstance(cause, OversizedAnswerError):
        return ended_badly(str(cause), begun=False)
    if isinstance(cause, httpx.ReadTimeout):
        return ModelFailedError(transport_error("the provider did not answer in time"), "silent")
    # The words are those that failures of connections are known by.
    said = str(cause) or type(cause).__name__
    return ModelFailedError(transport_error(f"Connection error: {said}"), "refused")


def _refusal(error: openai.APIStatusError) -> HostError:
    status = error.status_code
    body = error.response.text
    return HostError(
        name="APIError",
        message=error_message(error.body) or error.response.reason_phrase or f"status {status}",
        status_code=status,
        is_retryable=is_retryable(status),
        response_body=body,
        response_headers={name.lower(): value for name, value in error.response.headers.items()},
    )
