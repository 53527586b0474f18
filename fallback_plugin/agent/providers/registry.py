"""The models that may be asked, and the way to each."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from fallback_plugin.agent.identifiers import NewId, new_id
from fallback_plugin.agent.providers.exchange import ModelEvent, ModelRequest
from fallback_plugin.agent.providers.failure import (
    KEY_MISSING,
    MODEL_NOT_FOUND,
    ModelFailedError,
    transport_error,
)
from fallback_plugin.agent.providers.timeouts import Timeouts
from fallback_plugin.events import HostError
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.network import is_this_machine, proxy_problem
from fallback_plugin.settings import ProviderSettings
from fallback_plugin.wire.model_catalog import ModelCatalog, ModelFacts

if TYPE_CHECKING:
    from fallback_plugin.agent.providers.openai_client import OpenAIClient

DEFAULT_TIMEOUTS: Final = Timeouts()


@dataclass(slots=True, eq=False)
class _Way:
    """The way to an endpoint, and how many requests are on it."""

    client: "OpenAIClient"
    requests: int = 0


class Providers:
    """Asks the models of ``[providers]``; a key is read from ``environ`` when it is needed.

    ``catalog`` holds what is known of the models. A provider whose key is missing counts as not connected.
    """

    catalog: ModelCatalog

    def __init__(
        self,
        settings: Mapping[str, ProviderSettings],
        environ: Mapping[str, str],
        *,
        default: ModelRef | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        new_id: NewId = new_id,
    ) -> None:
        self._environ = environ
        self._timeouts = timeouts
        self._new_id = new_id
        self._ways: dict[tuple[str, str | None], _Way] = {}
        self._take(settings, default)

    @property
    def models(self) -> tuple[ModelRef, ...]:
        """All models that may be asked, in the order in which they are written."""
        return tuple(
            ModelRef(provider, model)
            for provider, models in self.catalog.providers.items()
            for model in models
        )

    @property
    def default(self) -> ModelRef | None:
        """The model of a session's first prompt, if that names none."""
        named = (ModelRef(name, model) for name, each in self._settings.items() for model in each.models)
        return self._default or next(iter(self.models), None) or next(named, None)

    def knows(self, model: ModelRef) -> bool:
        """Tell whether a model is one of those that may be asked."""
        provider = self._settings.get(model.provider)
        return provider is not None and model.model in provider.models and provider.base_url is not None

    def problem(self, model: ModelRef) -> str | None:
        """Say why a model cannot be asked, None if it can."""
        provider = self._settings.get(model.provider)
        if provider is None:
            return f"[providers.{model.provider}] is not set, or has no base_url"
        if model.model not in provider.models:
            return f"it is not in [providers.{model.provider}] models"
        return self._key_problem(provider)

    def facts(self, model: ModelRef) -> ModelFacts:
        """Return what is known of a model."""
        return self.catalog.facts(model)

    async def apply(
        self, settings: Mapping[str, ProviderSettings], *, default: ModelRef | None = None
    ) -> None:
        """Take other settings, from the next request on; one that is under way goes on to its end."""
        self._take(settings, default)
        await self._close_unused()

    @asynccontextmanager
    async def stream(
        self, model: ModelRef, request: ModelRequest
    ) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """Ask a model, once, and offer its answer's events; leaving the context closes the connection.

        Raises:
            ModelFailedError: whatever goes wrong, here or while the events are read.
        """
        way = await self._way(model)
        headers = {"x-session-id": request.session_id}
        new_call_id = partial(self._new_id, "call")
        way.requests += 1
        try:
            async with way.client.stream(self._body(model, request), headers, new_call_id) as events:
                yield events
        finally:
            way.requests -= 1
            await self._close_unused()

    async def get_ready(self, model: ModelRef) -> None:
        """Make the way to a model; the first one takes most of a second, which is not the model's."""
        with suppress(ModelFailedError):
            await self._way(model)

    async def aclose(self) -> None:
        """Close every connection."""
        ways, self._ways = list(self._ways.values()), {}
        for way in ways:
            await way.client.aclose()

    def _take(self, settings: Mapping[str, ProviderSettings], default: ModelRef | None) -> None:
        self._default = default
        self._settings = {name: each for name, each in settings.items() if each.base_url}
        problems = {
            name: problem for name, each in self._settings.items() if (problem := self._key_problem(each))
        }
        self.catalog = ModelCatalog(
            {name: _served(each) for name, each in self._settings.items() if name not in problems}, problems
        )

    async def _close_unused(self) -> None:
        """Close the ways that the settings do not name any more and no request is on."""
        named = {(each.base_url, self._key(each)) for each in self._settings.values()}
        for place in [place for place, way in self._ways.items() if place not in named and not way.requests]:
            with anyio.CancelScope(shield=True):
                await self._ways.pop(place).client.aclose()

    def _key(self, provider: ProviderSettings) -> str | None:
        return self._environ.get(provider.api_key_env) if provider.api_key_env else None

    def _key_problem(self, provider: ProviderSettings) -> str | None:
        return key_problem(provider, self._environ)

    async def _way(self, model: ModelRef) -> _Way:
        provider = self._settings.get(model.provider)
        if provider is None or provider.base_url is None or not self.knows(model):
            message = f"Model not found: {model}. Name it in [providers.{model.provider}] models"
            raise ModelFailedError(HostError(name=MODEL_NOT_FOUND, message=message), "refused")
        if problem := self._key_problem(provider):
            message = f"{model.provider}: {problem}"
            raise ModelFailedError(HostError(name=KEY_MISSING, message=message), "refused")
        key = self._key(provider)
        place = (provider.base_url, key)
        if place not in self._ways:
            client = await anyio.to_thread.run_sync(_new_client, provider.base_url, key, self._timeouts)
            self._ways.setdefault(place, _Way(client))
        return self._ways[place]

    def _body(self, model: ModelRef, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": model.model,
            "messages": list(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body |= {"tools": list(request.tools), "tool_choice": "auto"}
        if (output := self.facts(model).output_tokens) is not None:
            body["max_tokens"] = output
        if model.variant is not None:
            body["reasoning_effort"] = model.variant
        return body


def _served(provider: ProviderSettings) -> dict[str, ModelFacts]:
    return {
        name: ModelFacts(
            context_tokens=served.context, output_tokens=served.output, images=served.images, tools=True
        )
        for name, served in provider.models.items()
    }


def _new_client(base_url: str, key: str | None, timeouts: Timeouts) -> "OpenAIClient":
    """Import and make a client: most of a second, so not on the event loop.

    Raises:
        ModelFailedError: if the proxies or certificates that the environment names cannot be used.
    """
    from fallback_plugin.agent.providers.openai_client import OpenAIClient  # noqa: PLC0415 -- heavy

    if problem := way_problem(base_url):
        raise ModelFailedError(transport_error(f"Connection error: {problem}"), "refused")
    try:
        return OpenAIClient(base_url, key, timeouts)
    except Exception as error:
        raise ModelFailedError(transport_error(f"Connection error: {error}"), "refused") from error


def key_problem(provider: ProviderSettings, environ: Mapping[str, str]) -> str | None:
    """Say which variable a provider's key is missing in, None if it is there or none is needed."""
    name = provider.api_key_env
    return f"the environment variable {name} holds no key" if name and not environ.get(name) else None


def way_problem(base_url: str) -> str | None:
    """Say why an endpoint cannot be reached in this environment, None if nothing speaks against it."""
    return None if is_this_machine(urlsplit(base_url).hostname or "") else proxy_problem()
