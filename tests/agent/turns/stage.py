"""A turn runner on a store in memory and a scripted provider over HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.providers.timeouts import Timeouts
from fallback_plugin.agent.records import Json, Run
from fallback_plugin.agent.turns.giving_up import GivingUp
from fallback_plugin.agent.turns.hooks import CompletedTurn, NoHooks
from fallback_plugin.agent.turns.permissions import Permissions
from fallback_plugin.agent.turns.runner import TurnRunner
from fallback_plugin.agent.turns.tools import BashTool, EditTool, ReadTool, WriteTool
from fallback_plugin.fallback.attempt_failure import attempt_failure
from fallback_plugin.health.closure import Closure
from fallback_plugin.hookspecs import ModelAttempt, NextModel, PromptRequest
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import PermissionSettings, ProviderSettings
from tests.agent.turns.memory_store import MemoryJournal, MemoryStore
from tests.loopback.provider import ScriptedProvider

ALL_ALLOWED = PermissionSettings(read="allow", write="allow", edit="allow", bash="allow")

FIRST = ModelRef("scripted", "first")
SECOND = ModelRef("scripted", "second")
THIRD = ModelRef("scripted", "third")


class Hooks(NoHooks):
    """Plugins of which a test says what they answer to failures; keeps what it was told."""

    def __init__(self, *answers: NextModel | None) -> None:
        self.answers = list(answers)
        self.failures: list[ModelAttempt] = []
        self.completed: list[CompletedTurn] = []
        self.chosen: dict[ModelRef | None, ModelRef] = {}

    async def chat_message(self, request: PromptRequest) -> ModelRef | None:
        return self.chosen.get(request.model)

    async def model_attempt_failed(self, attempt: ModelAttempt) -> NextModel | None:
        self.failures.append(attempt)
        return self.answers.pop(0) if self.answers else None

    async def turn_completed(self, turn: CompletedTurn) -> None:
        self.completed.append(turn)


class Stage:
    """Everything around a turn."""

    def __init__(
        self,
        provider: ScriptedProvider,
        directory: Path,
        *,
        hooks: NoHooks | None = None,
        permissions: PermissionSettings = ALL_ALLOWED,
        models: dict[str, dict[str, Any]] | None = None,
        closures: Mapping[ModelRef, Closure] | None = None,
        chain: Sequence[ModelRef] | None = None,
        **more: Any,
    ) -> None:
        self.provider = provider
        self.store = MemoryStore(str(directory))
        self.published: list[tuple[str, Json]] = []
        self.something_published = anyio.Event()
        self.giving_up = GivingUp()
        self.gone: list[tuple[ModelRef, ModelRef]] = []
        self.journal: MemoryJournal | None = None
        names = models if models is not None else {"first": {}, "second": {}, "third": {}}
        settings = ProviderSettings.model_validate({"base_url": provider.url, "models": names})
        self.providers = Providers(
            {"scripted": settings}, {}, timeouts=Timeouts(connect_s=5, silence_s=8, after_end_s=1)
        )
        hooks = hooks or NoHooks()
        self.permissions = Permissions(permissions, hooks, self._publish)
        self.runner = TurnRunner(
            sessions=self.store,
            open_journal=self._open_journal,
            models=self.providers,
            tools=[ReadTool(), WriteTool(), EditTool(), BashTool(term_grace_s=0.2)],
            permissions=self.permissions,
            hooks=hooks,
            giving_up=self.giving_up,
            read_failure=lambda model, failure: attempt_failure(model, failure.error, failure.ending, 0.0),
            resting=({} if closures is None else closures).get,
            on_gone=lambda gone, following: self.gone.append((gone, following)),
            chain=lambda _: tuple(closures or ()) if chain is None else chain,
            **more,
        )
        self.session = self.store.new_session()
        self._folds: list[Run] = []

    async def run(self, text: str = "hello", model: ModelRef = FIRST, **more: Any) -> Run:
        """Hand a prompt in and wait for its turn's end."""
        run = self.store.ask(self.session, text, model, **more)
        await self.runner.run(run, self._steered)
        return run

    def steer(self, text: str, model: ModelRef | None = None, **more: Any) -> None:
        """Let a prompt join the turn when it asks for one."""
        self._folds.append(self.store.ask(self.session, text, model, **more))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the provider has seen something."""
        await anyio.to_thread.run_sync(self.provider.wait_for, condition)

    def disconnected(self, model: str = "first") -> bool:
        """Tell whether we went away from the last request to a model."""
        return self.provider.requests(model)[-1].disconnected_at is not None

    async def _steered(self) -> Sequence[Run]:
        folds, self._folds = self._folds, []
        return folds

    async def _open_journal(self, run: Run) -> MemoryJournal:
        self.journal = MemoryJournal(self.store, run)
        return self.journal

    async def _publish(self, kind: str, properties: Json) -> None:
        self.published.append((kind, properties))
        self.something_published.set()
        self.something_published = anyio.Event()


@asynccontextmanager
async def stage(provider: ScriptedProvider, directory: Path, **more: Any) -> AsyncIterator[Stage]:
    """Set a stage, and close its connections at the end."""
    staged = Stage(provider, directory, **more)
    try:
        yield staged
    finally:
        await staged.providers.aclose()


async def stopped_when(run: Callable[[], Awaitable[object]], moment: Callable[[], Awaitable[object]]) -> None:
    """Run something, and stop it as a person does as soon as a moment has come."""
    async with anyio.create_task_group() as tasks:

        async def running() -> None:
            await run()

        tasks.start_soon(running)
        await moment()
        tasks.cancel_scope.cancel()
