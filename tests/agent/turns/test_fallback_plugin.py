"""The fallback plugin on our own turns: it follows what is written, and answers failures in the same run."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from fallback_plugin.events import (
    MessagePartDelta,
    MessagePartUpdated,
    MessageRemoved,
    MessageUpdated,
    SessionError,
    SessionIdle,
    SessionStatus,
)
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.health import MemoryHealth
from fallback_plugin.health.closure import Closure
from fallback_plugin.hookspecs import ModelAttempt, NextModel, PromptRequest
from fallback_plugin.host_client import HostKind, Receipt, SessionInfo
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.model_catalog import ModelCatalog
from fallback_plugin.wire.toast import Toast
from tests.agent.turns.stage import FIRST, SECOND, Hooks, Stage, stage
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, cut, hang_before_headers, status, stream, tool_call

pytestmark = pytest.mark.anyio


@dataclass
class Host:
    """What the plugin may ask of our host: nothing but toasts, models and giving up."""

    tasks: TaskGroup
    on: Stage | None = None
    kind: HostKind = "agent"
    directory: str = "/project"
    toasts: list[Toast] = field(default_factory=list)
    on_toast: Callable[[], None] = lambda: None

    async def models(self) -> ModelCatalog:
        assert self.on is not None
        return self.on.providers.catalog

    async def session(self, session_id: str) -> SessionInfo:
        return SessionInfo(id=session_id)

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:  # noqa: ARG002 -- the protocol's
        self.toasts.append(toast)
        self.on_toast()

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:
        assert self.on is not None
        self.on.giving_up.give_up(session_id, agent, flowing=flowing)

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:  # noqa: ARG002 -- the protocol's
        raise AssertionError(f"{session_id} was aborted")

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        self.tasks.start_soon(function, *args)  # type: ignore[arg-type]  # coroutines all the same


class PluginHooks(Hooks):
    """Hands a turn's questions, and everything that is written, to the plugin."""

    def __init__(self, plugin: FallbackPlugin, host: Host) -> None:
        super().__init__()
        self.plugin = plugin
        self.host: Any = host

    async def chat_message(self, request: PromptRequest) -> ModelRef | None:
        return self.plugin.chat_message(request, self.host)

    async def model_attempt_failed(self, attempt: ModelAttempt) -> NextModel | None:
        await super().model_attempt_failed(attempt)
        return self.plugin.model_attempt_failed(attempt, self.host)

    def tell(self, kind: str, session_id: str, **properties: Any) -> None:
        event = read_event({"type": kind, "properties": {"sessionID": session_id, **properties}})
        match event:
            case MessageUpdated():
                self.plugin.message_updated(event, self.host)
            case MessagePartUpdated():
                self.plugin.message_part_updated(event, self.host)
            case MessagePartDelta():
                self.plugin.message_activity(event, self.host)
            case SessionStatus():
                self.plugin.session_status(event, self.host)
            case SessionError():
                self.plugin.session_error(event, self.host)
            case SessionIdle():
                self.plugin.session_idle(event, self.host)
            case MessageRemoved():
                pass  # the plugin does not listen

    def written(self, call: str, about: Any, session_id: str) -> None:
        match call:
            case "put_message":
                self.tell("message.updated", session_id, info=about)
            case "put_part" | "put_part soon":
                self.tell("message.part.updated", session_id, part=about)
            case "append":
                part_id, text = about
                (part,) = (
                    part
                    for each in self.host.on.store.messages[session_id]
                    for part in each["parts"]
                    if part["id"] == part_id
                )
                delta = {"partID": part_id, "messageID": part["messageID"], "field": "text", "delta": text}
                self.tell("message.part.delta", session_id, **delta)
            case "remove_message":
                self.tell("message.removed", session_id, messageID=about)


class Told(list[tuple[str, Any]]):
    """The store's log, read by the plugin as it is written."""

    def __init__(self, hooks: PluginHooks, session_id: str) -> None:
        super().__init__()
        self._hooks = hooks
        self._session_id = session_id

    def append(self, entry: tuple[str, Any]) -> None:
        super().append(entry)
        self._hooks.written(*entry, self._session_id)


@asynccontextmanager
async def staged(
    provider: ScriptedProvider,
    folder: Path,
    closures: Mapping[ModelRef, Closure] | None = None,
    **fallback: Any,
) -> AsyncIterator[tuple[Stage, PluginHooks, Host]]:
    async with anyio.create_task_group() as tasks:
        host = Host(tasks)
        plugin = FallbackPlugin(health=MemoryHealth())
        chain = ["scripted/second", "scripted/third"]
        values = {"fallback_models": chain, **fallback}
        plugin.settings_changed(Settings.model_validate({"fallback": values}), host)  # type: ignore[arg-type]  # as below
        hooks = PluginHooks(plugin, host)
        models = [ModelRef.parse(model) for model in values["fallback_models"]]
        async with stage(provider, folder, hooks=hooks, closures=closures, chain=models) as on:
            host.on = on
            plugin.host_started(host)  # type: ignore[arg-type]  # it calls no more than this host has
            on.store.log = Told(hooks, on.session)
            yield on, hooks, host
        plugin.host_stopping()
        tasks.cancel_scope.cancel()


async def turn(on: Stage, hooks: PluginHooks, text: str = "hello") -> str:
    """Run a turn as the dispatcher does, with its events; return the outcome."""
    run = on.store.activate(await on.runner.prepare(on.store.accept(on.session, text, FIRST)))
    user = next(each for each in on.store.messages[on.session] if each["info"]["id"] == run.message_id)
    hooks.tell("message.updated", on.session, info=user["info"])
    hooks.tell("session.status", on.session, status={"type": "busy"})
    await on.runner.run(run, on._steered)
    end = on.store.ends[run.id]
    if end.error is not None:
        hooks.tell("session.error", on.session, error=end.error)
    hooks.tell("session.status", on.session, status={"type": "idle"})
    hooks.tell("session.idle", on.session)
    return end.outcome


async def test_the_chain_is_walked_in_one_run(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", status(429))
    provider.script("second", cut("half"))
    provider.script("third", stream("Third."))
    async with staged(provider, tmp_path) as (on, hooks, host):
        assert await turn(on, hooks) == "completed"

        assert on.store.text(on.session) == "Third."
        assert [str(failure.model) for failure in hooks.failures] == ["scripted/first", "scripted/second"]
        await anyio.wait_all_tasks_blocked()
        assert {toast.title for toast in host.toasts} >= {"Model fallback"}


async def test_a_closed_model_gets_no_request_in_the_next_turn(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", status(429))
    provider.script("second", stream("One."), stream("Two."))
    async with staged(provider, tmp_path) as (on, hooks, _):
        await turn(on, hooks)
        await turn(on, hooks)

        assert on.store.text(on.session) == "One.Two."
    assert len(provider.requests("first")) == 1


async def test_a_failure_after_tools_is_taken_over(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", tool_call("bash", {"command": "echo ran >> log"}), status(503))
    provider.script("second", tool_call("bash", {"command": "echo more >> log"}), status(503))
    provider.script("third", stream("Done."))
    async with staged(provider, tmp_path) as (on, hooks, _):
        assert await turn(on, hooks) == "completed"

        assert on.store.text(on.session) == "Done."
    assert (tmp_path / "log").read_text() == "ran\nmore\n"


async def test_when_no_model_is_left_the_turn_fails_once(provider: ScriptedProvider, tmp_path: Path) -> None:
    for model in ("first", "second", "third"):
        provider.script(model, status(401))
    async with staged(provider, tmp_path, max_attempts=10) as (on, hooks, _):
        assert await turn(on, hooks) == "failed"

        assert len(on.store.answers(on.session)) == 1


async def test_P10_a_turn_that_no_model_answers_holds_every_reason(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", status(429, "Slow down."))
    provider.script("second", status(503))
    provider.script("third", status(401, "No such key: ***"))
    async with staged(provider, tmp_path) as (on, hooks, _):
        assert await turn(on, hooks) == "failed"

        (answer,) = on.store.answers(on.session)
        error = answer["info"]["error"]
    assert (error["name"], error["data"]["statusCode"]) == ("APIError", 401)
    title, *lines = error["data"]["message"].splitlines()
    assert title == "No model could answer."
    assert [line.partition(". ")[0] for line in lines] == [
        "scripted/first: rate limited (429)",
        "scripted/second: overloaded (503)",
        "scripted/third: refused the key (401)",
    ]
    assert lines[0].endswith("Slow down.")


def reasons(on: Stage) -> list[str]:
    """Return what the error of the session's last answer says of each model, without a provider's words."""
    title, *lines = on.store.answers(on.session)[-1]["info"]["error"]["data"]["message"].splitlines()
    assert title == "No model could answer."
    return [line.partition(". ")[0].partition(" until ")[0] for line in lines]


async def test_a_model_that_was_refused_before_a_tool_step_is_among_the_reasons(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", status(404))
    provider.script("second", tool_call("bash", {"command": "true"}), status(503))
    provider.script("third", status(401))
    async with staged(provider, tmp_path) as (on, hooks, _):
        assert await turn(on, hooks) == "failed"

        assert reasons(on) == [
            "scripted/first: unknown to its provider (404)",
            "scripted/second: overloaded (503)",
            "scripted/third: refused the key (401)",
        ]


async def test_a_model_whose_empty_answer_closes_nothing_is_among_the_reasons(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", status(503))
    provider.script("second", stream())
    provider.script("third", tool_call("bash", {"command": "true"}), status(500))
    async with staged(provider, tmp_path) as (on, hooks, _):
        assert await turn(on, hooks) == "failed"

        assert [line.partition(":")[0] for line in reasons(on)] == [
            "scripted/first",
            "scripted/second",
            "scripted/third",
        ]


async def test_a_model_that_failed_in_two_steps_is_named_once_with_its_last_reason(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", status(503), tool_call("bash", {"command": "true"}), status(401))
    provider.script("second", status(402))
    hooks = Hooks()
    hooks.answers = [FIRST, SECOND]
    async with stage(provider, tmp_path, hooks=hooks, chain=[SECOND]) as on:
        await on.run()

        assert reasons(on) == [
            "scripted/first: refused the key (401)",
            "scripted/second: needs payment (402)",
        ]


async def test_a_primary_that_was_closed_before_the_turn_is_among_the_reasons(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    closed: dict[ModelRef, Closure] = {}
    provider.script("first", status(503))
    provider.script("second", stream("One."), status(503))
    provider.script("third", status(401))
    async with staged(provider, tmp_path, closures=closed) as (on, hooks, _):
        assert await turn(on, hooks) == "completed"
        closed[FIRST] = Closure(until=1_800_000_000.0, reason="overload", failures=1, closed_at=0.0)
        assert await turn(on, hooks) == "failed"

        assert reasons(on) == [
            "scripted/second: overloaded (503)",
            "scripted/third: refused the key (401)",
            "scripted/first: not asked, overloaded and closed",
        ]


async def test_P5_the_answer_of_a_closed_model_opens_it(provider: ScriptedProvider, tmp_path: Path) -> None:
    for model in ("first", "second", "third"):
        provider.script(model, status(429), stream("Back."))
    async with staged(provider, tmp_path) as (on, hooks, _):
        assert await turn(on, hooks) == "failed"
        assert await turn(on, hooks) == "completed"

        hooks.plugin.chat_message(PromptRequest(session_id="ses_other"), hooks.host)  # looks at health
        closed = [key.name for key, _ in hooks.plugin.engine.health.view.entries()]
        assert closed == ["second", "third"]


async def test_a_silent_model_is_left_by_the_plugins_own_timer(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", hang_before_headers())
    provider.script("second", stream("Second."))
    async with staged(provider, tmp_path, first_token_timeout=0.2) as (on, hooks, _):
        with anyio.fail_after(5):
            assert await turn(on, hooks) == "completed"

        assert on.store.text(on.session) == "Second."


@pytest.mark.parametrize("chain", [[], ["scripted/first"]], ids=["no chain", "nobody else"])
async def test_P12_the_only_model_is_waited_for(
    provider: ScriptedProvider, tmp_path: Path, chain: list[str]
) -> None:
    gate = Gate()
    provider.script("first", stream(gate, "At last."))
    async with staged(provider, tmp_path, first_token_timeout=0.1, fallback_models=chain) as (
        on,
        hooks,
        host,
    ):
        host.on_toast = gate.open
        with anyio.fail_after(5):
            assert await turn(on, hooks) == "completed"

        assert on.store.text(on.session) == "At last."
        assert [toast.title for toast in host.toasts] == ["Slow model"]


async def test_P12_the_last_model_is_waited_for(provider: ScriptedProvider, tmp_path: Path) -> None:
    gate = Gate()
    provider.script("first", status(429))
    provider.script("second", hang_before_headers())
    provider.script("third", stream(gate, "At last."))
    async with staged(provider, tmp_path, first_token_timeout=0.1) as (on, hooks, host):
        host.on_toast = lambda: gate.open() if host.toasts[-1].title == "Slow model" else None
        with anyio.fail_after(5):
            assert await turn(on, hooks) == "completed"

        assert on.store.text(on.session) == "At last."
        assert [str(failure.model) for failure in hooks.failures] == ["scripted/first", "scripted/second"]
