"""The agent host: its rooms, put together and kept running."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Final

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from fallback_plugin.agent.bus import Bus
from fallback_plugin.agent.dispatch import Cancelled, CancelMode, Dispatcher
from fallback_plugin.agent.health_reader import HealthReader
from fallback_plugin.agent.host_calls import AgentCalls
from fallback_plugin.agent.housekeeping import keep_house
from fallback_plugin.agent.identifiers import NewId, new_id
from fallback_plugin.agent.journal import Defaults, StoredRuns, StoredSessions, StoredTurn
from fallback_plugin.agent.moved_project import follow_project
from fallback_plugin.agent.naming import name_session
from fallback_plugin.agent.plugin_events import PluginEvents
from fallback_plugin.agent.plugin_hooks import PluginHooks
from fallback_plugin.agent.prompt_defaults import DEFAULT_AGENT
from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.records import Json, PassingEvent, Run, Session, UserPrompt
from fallback_plugin.agent.recovery import recover
from fallback_plugin.agent.remembering import Remembering
from fallback_plugin.agent.secrets import secret_variables
from fallback_plugin.agent.store import Rows, Store, messages, runs, sessions
from fallback_plugin.agent.turns import compaction
from fallback_plugin.agent.turns.giving_up import GivingUp
from fallback_plugin.agent.turns.hooks import CompletedTurn
from fallback_plugin.agent.turns.permissions import Permissions
from fallback_plugin.agent.turns.runner import TurnRunner
from fallback_plugin.agent.turns.tools import BashTool, EditTool, ReadTool, WriteTool
from fallback_plugin.agent.turns.tools.leftover_commands import end_leftovers, host_name
from fallback_plugin.errors import AgentError, StoreError
from fallback_plugin.fallback.attempt_failure import attempt_failure
from fallback_plugin.fallback.chain import chain_for
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.health.closure import Closure
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.plugins import PluginHost
from fallback_plugin.settings import Settings

logger = logging.getLogger(__name__)

SENT_WITHIN_S: Final = 1.0
"""How long the answer of a call waits for clients that do not read their event stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a host works: its data, the project, and the environment that holds the providers' keys."""

    data: Path
    directory: Path
    environ: Mapping[str, str]


class AgentHost:
    """Sessions, their runs, and everything that happens to them. Made by `open_host`.

    Attributes:
        bus: who listens to what happens.
        dispatcher: accepts prompts, and runs and cancels them.
        memory: who is told of completed turns.
        health: which models are left alone, and the switches there were.
        models: the models that may be asked.
        permissions: the questions that wait for a person.
        plugins: the plugin host; load plugins before `run`.
        sessions: changes to sessions outside their runs.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        place: Place,
        *,
        last_sequence: int,
        resumed: Sequence[Run] = (),
        clock: Callable[[], float] = time,
        new_id: NewId = new_id,
    ) -> None:
        self.directory: Final = place.directory
        self._beside: TaskGroup | None = None
        self._resumed = resumed
        self._clock = clock
        self.settings = settings
        self.store: Final = store
        self.bus: Final = Bus(store)
        self.plugins: Final = PluginHost(AgentCalls(self))
        self.models: Final = Providers(settings.providers, place.environ, default=settings.serve.model)
        self.memory: Final = Remembering(store, self.plugins, is_live=self._is_live, clock=clock)
        self.giving_up: Final = GivingUp()
        self.health: Final = HealthReader(place.environ)
        self._environ: Final = place.environ
        self._events: Final = PluginEvents(self.plugins)
        hooks = PluginHooks(self.plugins, self._events, self._turn_completed)
        self.permissions: Final = Permissions(settings.permissions, hooks, self._publish)
        defaults = Defaults(
            model=lambda: self.models.default,
            own_model=self.own_model,
            knows=self.models.knows,
            new_id=new_id,
        )
        self.runs: Final = StoredRuns(store, defaults, before_moving=self._before_moving)
        self.sessions: Final = StoredSessions(store, defaults)
        turns = TurnRunner(
            sessions=self,
            open_journal=self._open_journal,
            models=self.models,
            tools=(ReadTool(), WriteTool(), EditTool(), BashTool(self._secrets, host=host_name(place.data))),
            permissions=self.permissions,
            hooks=hooks,
            giving_up=self.giving_up,
            read_failure=self._read_failure,
            resting=self._resting,
            chain=self._chain,
            on_gone=self._tell_gone,
            own_model=self.own_model,
            clock=clock,
            new_id=new_id,
        )
        self.dispatcher: Final = Dispatcher(
            self.runs, turns, last_sequence=last_sequence, on_stalled=self._tell_stalled
        )
        store.listen(self._events.take)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Run plugins and prompts, until `stop` or cancellation."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.plugins.run)
            await self.plugins.settings_changed(self.settings)
            self._beside = tasks
            tasks.start_soon(self._events.run)
            tasks.start_soon(keep_house, self.store)
            await tasks.start(self.memory.run)
            if self.models.default is not None:
                tasks.start_soon(self.models.get_ready, self.models.default)
            await tasks.start(self.dispatcher.run)
            for run in self._resumed:
                await self.dispatcher.resume(run)
            task_status.started()

    async def apply(self, settings: Settings) -> None:
        """Take settings that changed, for what begins from now on; which plugins there are stays."""
        if settings.plugins != self.settings.plugins:
            logger.warning("[plugins] changed: start the host anew to use that")
        self.settings = settings
        self.permissions.settings = settings.permissions
        await self.models.apply(settings.providers, default=settings.serve.model)
        await self.plugins.settings_changed(settings)
        self.memory.settings_changed()

    async def stop(self) -> None:
        """End in good order: nothing more is accepted, what is active unwinds, who listens is let go."""
        await self.dispatcher.stop()
        await self.memory.drain()
        await self.plugins.stop()
        self.bus.close()
        await self.models.aclose()
        self.health.shut()

    @property
    def agents(self) -> Sequence[str]:
        """The names of the agents that a prompt can go to, the default one first."""
        return [DEFAULT_AGENT, *sorted(self.settings.agents.keys() - {DEFAULT_AGENT})]

    def own_model(self, agent: str) -> ModelRef | None:
        """Return the model that the settings give an agent, None if they give it none."""
        table = self.settings.agents.get(agent)
        return table.model if table else None

    async def session(self, session_id: str) -> Session:
        """Look a session up. Raises `AgentError` 404."""
        return await self.store.read(lambda rows: sessions.get(rows, session_id))

    async def history(self, session_id: str) -> Sequence[Json]:
        """Return a session's messages as ``{info, parts}``, oldest first; without what a revert hides."""

        def read(rows: Rows) -> Sequence[Json]:
            session = sessions.get(rows, session_id)
            items = messages.page(rows, session_id).items
            hidden = session.reverted_to
            at = next((n for n, item in enumerate(items) if item["info"]["id"] == hidden), len(items))
            return items[:at]

        return await self.store.read(read)

    async def answer(self, session_id: str, prompt: UserPrompt) -> Json:
        """Run a prompt and return the last message of its answer, failed or not."""
        accepted = await self.dispatcher.accept(session_id, prompt)
        await self.dispatcher.wait(accepted.run.id)
        return await self.store.read(lambda rows: _last_message(rows, accepted.run.id))

    async def until_sent(self) -> None:
        """Wait until every client that listens has been sent what has happened up to now.

        One that does not read holds this up for `SENT_WITHIN_S`, and not again before it has caught up.
        """
        # A run's end is followed by its session's idle, whose write may be under way still.
        with suppress(StoreError):
            await self.store.settle()
        await self.bus.until_taken(within_s=SENT_WITHIN_S)

    async def summarize(self, session_id: str, model: ModelRef | None) -> Run:
        """Shorten a session's history in its turn; it goes on under another id. Return the run that did."""
        if not await self.history(session_id):
            raise AgentError(f"{session_id}: there is nothing to summarise yet")
        asked = UserPrompt(parts=(compaction.request(),), model=model)
        accepted = await self.dispatcher.accept(session_id, asked)
        await self.dispatcher.wait(accepted.run.id)
        return await self.run_of(accepted.run.id)

    async def stop_session(self, session_id: str, mode: CancelMode = "all") -> Cancelled:
        """Stop what runs in a session, wait until it has ended, and say what was hit."""
        hit = await self.dispatcher.cancel(session_id, mode)
        if hit.active is not None:
            await self.dispatcher.wait(hit.active.id)
        return hit

    async def delete_session(self, session_id: str) -> None:
        """Delete a session, also a busy one: what runs in it ends first.

        Under the old id of a compacted session only the history before the compaction is deleted: clients
        list it beside the session that goes on, and to delete one of the two must not end the other.
        """
        if (await self.session(session_id)).continued_by is not None:
            await self.sessions.delete_earlier(session_id)
            return
        async with self.dispatcher.isolation.emptied(session_id):
            gone = await self.sessions.delete(session_id)
        for each in gone:
            self.permissions.forget(each)
            self.memory.forget(each)

    async def revert(self, session_id: str, message_id: str | None) -> Session:
        """Hide a message and all after it until the next prompt deletes them; None shows them again."""
        async with self.dispatcher.isolation.exclusive(session_id, "an undo"):
            if message_id is None:
                return await self.sessions.unrevert(session_id)
            return await self.sessions.revert(session_id, message_id)

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Delete one message; one that is not there counts as deleted."""
        async with self.dispatcher.isolation.exclusive(session_id, "a deletion"):
            if await self.store.read(lambda rows: _holds(rows, session_id, message_id)):
                await self.sessions.delete_message(session_id, message_id)

    async def waiting_runs(self, session_id: str | None = None) -> Sequence[Run]:
        """Return the runs that wait: queued, or held since the last start."""
        return await self.store.read(
            lambda rows: runs.in_states(rows, ("accepted", "queued", "held"), session_id=session_id)
        )

    async def run_of(self, run_id: str) -> Run:
        """Look a run up. Raises `AgentError` 404."""
        return await self.store.read(lambda rows: runs.get(rows, run_id))

    def toast(self, properties: Json) -> None:
        """Show a note to everybody who looks."""
        self.bus.publish(PassingEvent(session_id=None, type="tui.toast.show", properties=properties))

    async def _open_journal(self, run: Run) -> StoredTurn:
        if run.prompt.no_reply or compaction.is_request(run.prompt.parts):
            return self.runs.turn(run)  # no model answers: this is no turn for a memory to count
        return self.runs.turn(run, memory_owner=await self.memory.open(run.session_id))

    def _tell_stalled(self, session_id: str, error: StoreError) -> None:
        """Tell those who look that a session waits for its disk: nothing can be stored, this neither."""
        shown = {"name": "UnknownError", "data": {"message": str(error)}}
        properties = {"sessionID": session_id, "error": shown}
        self.bus.publish(PassingEvent(session_id=session_id, type="session.error", properties=properties))

    def _tell_gone(self, gone: ModelRef, following: ModelRef) -> None:
        """Tell those who look that a session's model is gone, and which one takes its place."""
        message = f"{gone} is not in [providers] any more. The session goes on with {following}."
        logger.warning("%s", message)
        self.toast({"title": "Model gone", "message": message, "variant": "warning", "duration": 8000})

    def _is_live(self, session_id: str) -> bool:
        return self.dispatcher.status(session_id).is_busy

    def _secrets(self) -> frozenset[str]:
        """Return the environment variables that no command of a model may see."""
        return secret_variables(self.settings, self._environ)

    def _read_failure(self, model: ModelRef, failure: ModelFailedError) -> Failure:
        rules = self.settings.fallback.rules
        return attempt_failure(model, failure.error, failure.ending, self._clock(), rules=rules)

    def _resting(self, model: ModelRef) -> Closure | None:
        return self.health.closure(self.settings, model, self._clock())

    def _chain(self, agent: str) -> Sequence[ModelRef]:
        return chain_for(self.settings, agent)

    async def _publish(self, kind: str, properties: Json) -> None:
        session_id = str(properties["sessionID"])
        await self.store.write(lambda tx: tx.emit(kind, properties, session_id=session_id), durable=False)

    def _turn_completed(self, turn: CompletedTurn) -> None:
        if self._beside is not None:
            self._beside.start_soon(name_session, turn, self, self.sessions, self.models)

    async def _before_moving(self, old_id: str, new_id: str) -> None:
        await self.dispatcher.rotate(old_id, new_id)


def _holds(rows: Rows, session_id: str, message_id: str) -> bool:
    session = sessions.get(rows, session_id)
    return messages.find(rows, session.id, message_id) is not None


def _last_message(rows: Rows, run_id: str) -> Json:
    run = _answering(rows, runs.get(rows, run_id))
    written = messages.of_run(rows, run.id, run.session_id)
    if not written:
        raise AgentError(f"run {run_id} has left no message", status=404)
    return messages.one(rows, run.session_id, written[-1].id)


def _answering(rows: Rows, run: Run) -> Run:
    """Return the run that answers a run's prompt: itself, or the one it was folded into."""
    if run.outcome != "folded":
        return run
    message = messages.find(rows, run.session_id, run.message_id)
    into = runs.find(rows, message.run_id) if message is not None and message.run_id else None
    return into or run


@asynccontextmanager
async def open_host(
    settings: Settings,
    place: Place,
    *,
    clock: Callable[[], float] = time,
    new_id: NewId = new_id,
) -> AsyncIterator[AgentHost]:
    """Open the data folder, end what an earlier start left unfinished, and make the host.

    Raises:
        StoreError: if the folder cannot be used.
    """
    store = Store.open(place.data, clock=clock)
    try:
        for notice in store.notices:
            logger.warning("%s", notice)
        if store.was_cut_off and (ended := await end_leftovers(host_name(place.data))):
            logger.warning("%d processes of commands that the last start has left behind were ended", ended)
        await follow_project(store, place.directory)
        defaults = Defaults(new_id=new_id)
        recovered = await recover(store, defaults, on_restart=settings.serve.on_restart)
        yield AgentHost(
            store,
            settings,
            place,
            last_sequence=await store.read(runs.last_sequence),
            resumed=recovered.resumed,
            clock=clock,
            new_id=new_id,
        )
    finally:
        store.close()
