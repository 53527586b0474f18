"""Every hook, called by a running host with the arguments its specification names."""

from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any

import anyio
import click
import pytest

from fallback_plugin import ModelRef, events, hookimpl, hookspecs
from fallback_plugin.events import AssistantMessage, Event, HostError, Part
from fallback_plugin.hookspecs import (
    LastWords,
    MemorySegment,
    ModelAttempt,
    PermissionRequest,
    PromptRequest,
    ToolCall,
    ToolResult,
)
from fallback_plugin.plugins import discovery, register_commands
from fallback_plugin.plugins.client import PluginClient
from fallback_plugin.settings import Settings
from tests.plugins.fake_calls import host_of, idle, publish, running

pytestmark = pytest.mark.anyio

MODEL = ModelRef("p", "m")
ATTEMPT = ModelAttempt(
    session_id="s",
    message_id="m",
    agent="build",
    host_model=MODEL,
    model=MODEL,
    tried=(MODEL,),
    error=HostError(name="", status_code=429),
)


class Spy:
    """A plugin with one hook that asks for every argument there is and keeps them."""

    def __init__(self, hook: str, answer: object = None) -> None:
        self.got: list[dict[str, Any]] = []
        specification = getattr(hookspecs, hook)

        @hookimpl
        @wraps(specification)
        async def implementation(*arguments: object) -> object:
            await anyio.lowlevel.checkpoint()
            self.got.append(dict(zip(signature(specification).parameters, arguments, strict=True)))
            return answer

        setattr(self, hook, implementation)

    @property
    def only(self) -> dict[str, Any]:
        (arguments,) = self.got
        host = arguments.pop("host")
        assert isinstance(host, PluginClient)
        return arguments


async def told(hook: str, *published: Event) -> dict[str, Any]:
    """Publish events and return what the hook was called with, once."""
    spy = Spy(hook)
    async with running(host_of(spy)) as host:
        publish(host, idle("unrelated") if hook != "session_idle" else Event(type="other"), *published)
    return spy.only


async def answered(hook: str, answer: object, **arguments: object) -> dict[str, Any]:
    """Ask a question, expect the answer back and return what the hook was called with."""
    spy = Spy(hook, answer)
    async with running(host_of(spy)) as host:
        assert await host.ask(hook, session_id="s", **arguments) == answer
    return spy.only


async def notified(hook: str, **arguments: object) -> dict[str, Any]:
    spy = Spy(hook)
    async with running(host_of(spy)) as host:
        assert await host.notify(hook, session_id="s", **arguments) == ()
    return spy.only


async def test_host_started_is_called_before_the_host_serves() -> None:
    spy = Spy("host_started")

    async with running(host_of(spy)):
        assert spy.only == {}


async def test_host_stopping_is_called_when_the_host_ends() -> None:
    spy = Spy("host_stopping")

    async with running(host_of(spy)):
        assert spy.got == []

    assert spy.only == {}


async def test_settings_changed_brings_the_settings() -> None:
    spy, settings = Spy("settings_changed"), Settings()

    async with running(host_of(spy)) as host:
        await host.settings_changed(settings)

    assert spy.only["settings"] is settings


def test_register_commands_brings_the_command_group(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plugin:
        @hookimpl
        def register_commands(self, commands: click.Group) -> None:
            commands.add_command(click.Command("hello"))

    monkeypatch.setattr(discovery, "BUILTINS", {"mine": f"{__name__}:_CommandPlugin"})
    monkeypatch.setitem(globals(), "_CommandPlugin", Plugin)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    group = click.Group()

    assert register_commands(group) == ()
    assert list(group.commands) == ["hello"]


async def test_event_brings_what_the_host_sent_and_its_meaning() -> None:
    spy, sent = Spy("event"), Event(type="anything")

    async with running(host_of(spy)) as host:
        publish(host, sent)

    assert spy.only == {"raw": {"type": "anything"}, "event": sent}


async def test_session_created_brings_its_event() -> None:
    event = events.SessionCreated(type="session.created", session_id="s", parent_id="root")

    assert await told("session_created", event) == {"event": event}


async def test_session_deleted_brings_its_event() -> None:
    event = events.SessionDeleted(type="session.deleted", session_id="s")

    assert await told("session_deleted", event) == {"event": event}


async def test_session_status_brings_its_event() -> None:
    event = events.SessionStatus(type="session.status", session_id="s", status="retry", attempt=1)

    assert await told("session_status", event) == {"event": event}


async def test_session_idle_brings_its_event() -> None:
    event = idle("s")

    assert await told("session_idle", event) == {"event": event}


async def test_session_abort_requested_brings_its_event() -> None:
    event = events.SessionAbortRequested(type="session.abort.requested", session_id="s")

    assert await told("session_abort_requested", event) == {"event": event}


async def test_model_requested_brings_its_event() -> None:
    event = events.ModelRequested(type="model.requested", session_id="s", message_id="msg_1")

    assert await told("model_requested", event) == {"event": event}


async def test_session_error_brings_its_event() -> None:
    event = events.SessionError(type="session.error", session_id="s", error=HostError(name="APIError"))

    assert await told("session_error", event) == {"event": event}


async def test_session_compacted_brings_its_event() -> None:
    event = events.SessionCompacted(type="session.compacted", session_id="s")

    assert await told("session_compacted", event) == {"event": event}


async def test_message_updated_brings_its_event() -> None:
    message = AssistantMessage(
        id="m", session_id="s", parent_id="u", model=MODEL, created_at=0.0, agent="build"
    )
    event = events.MessageUpdated(type="message.updated", session_id="s", message=message)

    assert await told("message_updated", event) == {"event": event}


async def test_message_part_updated_brings_its_event_and_no_deltas() -> None:
    part = Part(id="p", message_id="m", session_id="s", type="text")
    event = events.MessagePartUpdated(type="message.part.updated", session_id="s", part=part)
    delta = events.MessagePartDelta(
        type="message.part.delta", session_id="s", message_id="m", part_id="p", delta="a"
    )

    assert await told("message_part_updated", event, delta) == {"event": event}


async def test_message_activity_brings_a_delta() -> None:
    event = events.MessagePartDelta(
        type="message.part.delta", session_id="s", message_id="m", part_id="p", delta="a"
    )

    assert await told("message_activity", event) == {"event": event}


async def test_message_removed_brings_its_event() -> None:
    event = events.MessageRemoved(type="message.removed", session_id="s", message_id="m")

    assert await told("message_removed", event) == {"event": event}


async def test_messages_transform_may_answer_with_another_history() -> None:
    messages: list[dict[str, Any]] = [{"info": {}, "parts": []}]

    assert await answered("messages_transform", [], messages=messages) == {"messages": messages}


async def test_chat_message_may_answer_with_another_model() -> None:
    request = PromptRequest(session_id="s", agent="build")

    assert await answered("chat_message", MODEL, request=request) == {"request": request}


async def test_model_attempt_failed_may_answer_with_another_model() -> None:
    assert await answered("model_attempt_failed", MODEL, attempt=ATTEMPT) == {"attempt": ATTEMPT}


async def test_background_model_may_answer_with_another_model() -> None:
    attempt = replace(ATTEMPT, agent="title", tried=(), error=HostError(name=""))

    assert await answered("background_model", MODEL, attempt=attempt) == {"attempt": attempt}


async def test_confirm_prompt_may_answer_with_a_stop() -> None:
    arguments = await answered("confirm_prompt", "stop", message_id="m")

    assert arguments == {"session_id": "s", "message_id": "m"}


async def test_run_ending_may_answer_with_last_words() -> None:
    words = LastWords(trouble="nobody answers")

    assert await answered("run_ending", words) == {"session_id": "s"}


async def test_tool_before_may_answer_with_other_arguments() -> None:
    call = ToolCall(session_id="s", call_id="c", tool="bash")

    assert await answered("tool_before", {"command": "ls"}, call=call) == {"call": call}


async def test_tool_after_may_answer_with_another_result() -> None:
    call = ToolCall(session_id="s", call_id="c", tool="bash")
    result, other = ToolResult(title="", output="a"), ToolResult(title="", output="b")

    assert await answered("tool_after", other, call=call, result=result) == {"call": call, "result": result}


async def test_permission_ask_may_answer_with_a_verdict() -> None:
    request = PermissionRequest(id="r", session_id="s", type="bash")

    assert await answered("permission_ask", "deny", request=request) == {"request": request}


async def test_turn_completed_brings_the_turn() -> None:
    assert await notified("turn_completed", turn=1) == {"session_id": "s", "turn": 1}


async def test_commit_session_memory_brings_the_segment() -> None:
    segment = MemorySegment(session_id="s", key="s:1-2", start=1, end=2)

    arguments = await notified("commit_session_memory", segment=segment)

    assert arguments == {"session_id": "s", "segment": segment}


class OpenDatabase:
    """What a plugin has open; of what it can do nothing is asked here."""

    owner_key = "A"

    async def commit(self, segment: MemorySegment) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def test_open_session_memory_may_answer_with_what_it_has_open() -> None:
    arguments = await answered("open_session_memory", OpenDatabase(), owner_key="A")

    assert arguments == {"session_id": "s", "owner_key": "A"}
