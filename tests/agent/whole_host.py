"""The whole host in this process, with a scripted provider and a test's own plugins."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2

from fallback_plugin.agent.host import AgentHost, Place, open_host
from fallback_plugin.agent.http.app import application
from fallback_plugin.agent.http.guard import Rules
from fallback_plugin.agent.http.server import listening, serve, url_of
from fallback_plugin.agent.records import Run, UserPrompt
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from tests.loopback.provider import ScriptedProvider

MODEL: Final = ModelRef("fake", "first")


def settings_for(provider: ScriptedProvider, **tables: Any) -> Settings:
    """Return settings with the scripted provider's models, and other tables."""
    fake = {"base_url": provider.url, "models": ["first", "second"]}
    return Settings.model_validate({"serve": {"model": str(MODEL)}, "providers": {"fake": fake}, **tables})


@asynccontextmanager
async def running_host(
    folder: Path,
    settings: Settings,
    plugins: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[AgentHost]:
    """Start a host, and let it end in good order."""
    environ = {"XDG_STATE_HOME": str(folder / "state"), **(environ or {})}
    place = Place(data=folder / "data", directory=folder, environ=environ)
    async with open_host(settings, place) as host:
        host.plugins.load(explicit=plugins or {}, builtins=False, entry_points=False)
        async with anyio.create_task_group() as tasks:
            await tasks.start(host.run)
            try:
                yield host
            finally:
                with anyio.CancelScope(shield=True):
                    await host.stop()
                tasks.cancel_scope.cancel()


@asynccontextmanager
async def served(host: AgentHost, rules: Rules) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve a host at a port of this machine; yield a client."""
    stop, listener = anyio.Event(), listening("127.0.0.1", 0)
    async with anyio.create_task_group() as tasks:
        await tasks.start(serve, application(host, rules), listener, stop)
        async with httpx2.AsyncClient(base_url=url_of(listener)) as http:
            yield http
        stop.set()


async def new_session(host: AgentHost) -> str:
    """Begin a session and return its id."""
    return (await host.sessions.create(str(host.directory))).id


def prompt(text: str = "hello", model: ModelRef = MODEL) -> UserPrompt:
    return UserPrompt(parts=({"type": "text", "text": text},), model=model)


async def complete(host: AgentHost, session_id: str, text: str = "hello", model: ModelRef = MODEL) -> Run:
    """Hand a prompt in, wait for its end, and return its run."""
    accepted = await host.dispatcher.accept(session_id, prompt(text, model))
    await host.dispatcher.wait(accepted.run.id)
    return await host.run_of(accepted.run.id)
