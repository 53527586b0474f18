"""Every hook that OpenCode is asked about, in the real OpenCode: when it comes, and what its answer does."""

import json
import os
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream, tool_call
from tests.loopback.turn import Turn
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

PLUGIN: Final = """
import json
from dataclasses import replace
from pathlib import Path

from fallback_plugin import ModelRef, hookimpl
from fallback_plugin.hookspecs import ToolResult

FILE = Path({file!r})


def note(hook, session_id=None, **about):
    with FILE.open("a") as file:
        file.write(json.dumps(dict(hook=hook, session=session_id, **about)) + "\\n")


@hookimpl
def host_started(host):
    note("host_started", kind=host.kind, directory=host.directory)


@hookimpl
def host_stopping(host):
    note("host_stopping", directory=host.directory)


@hookimpl
def settings_changed(settings, host):
    note("settings_changed", directory=host.directory, attempts=settings.fallback.max_attempts)


@hookimpl
def event(raw, event):
    note("event", event.session_id if hasattr(event, "session_id") else None, type=raw["type"])


@hookimpl
def session_created(event):
    note("session_created", event.session_id, parent=event.parent_id)


@hookimpl
def session_deleted(event):
    note("session_deleted", event.session_id)


@hookimpl
def session_status(event):
    note("session_status", event.session_id, status=event.status)


@hookimpl
def session_idle(event):
    note("session_idle", event.session_id)


@hookimpl
def session_error(event):
    note("session_error", event.session_id, name=event.error.name)


@hookimpl
def session_compacted(event):
    note("session_compacted", event.session_id)


@hookimpl
def message_updated(event):
    note("message_updated", event.session_id, kind=type(event.message).__name__)


@hookimpl
def message_part_updated(event):
    note("message_part_updated", event.session_id, type=event.part.type)


@hookimpl
def message_activity(event):
    note("message_activity", event.session_id, delta=event.delta)


@hookimpl
def message_removed(event):
    note("message_removed", event.session_id, message=event.message_id)


@hookimpl
def chat_message(request):
    note("chat_message", request.session_id, model=str(request.model), message=request.message_id)
    return ModelRef("of-chosen", "chosen") if str(request.model) == "of-asked/asked" else None


@hookimpl
async def messages_transform(messages, host):
    texts = [part["text"] for message in messages for part in message["parts"] if part["type"] == "text"]
    note("messages_transform", texts=texts)
    if "My secret is 1234." not in texts:
        return None
    changed = json.loads(json.dumps(list(messages)))
    for message in changed:
        for part in message["parts"]:
            if part["type"] == "text":
                part["text"] = part["text"].replace("1234", "****")
    return changed


@hookimpl
def tool_before(call):
    note("tool_before", call.session_id, tool=call.tool, args=dict(call.args))
    if call.args.get("command") == "echo one":
        return {{**call.args, "command": "echo two"}}


@hookimpl
def tool_after(call, result):
    note("tool_after", call.session_id, tool=call.tool, args=dict(call.args), output=result.output)
    if result.output.strip() == "secret":
        return ToolResult(title="Hidden", output="nothing to see", metadata=result.metadata)


@hookimpl
def model_attempt_failed(attempt):
    note("model_attempt_failed", attempt.session_id, status=attempt.error.status_code)
"""
MODELS: Final = ["asked", "chosen", "tools", "broken"]


class Notes:
    """What the plugin writes down, hook by hook, into a named pipe that is read in a thread."""

    def __init__(self, pipe: Path) -> None:
        self.pipe = pipe
        os.mkfifo(pipe)
        # Open for writing as well, so that it does not end with the plugin's process.
        self._lines = os.fdopen(os.open(pipe, os.O_RDWR), "r")
        self._notes: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def of(self, hook: str, session: str | None = None) -> list[dict[str, Any]]:
        """Return a hook's notes, of one session if asked for."""
        notes = list(self._notes)
        return [note for note in notes if note["hook"] == hook and session in (None, note["session"])]

    def wait_for(self, hook: str, session: str | None = None, **about: str) -> dict[str, Any]:
        """Return a hook's first note that says these things, once it is there."""

        def found() -> list[dict[str, Any]]:
            return [note for note in self.of(hook, session) if about.items() <= note.items()]

        with self._changed:
            assert self._changed.wait_for(found, 15.0), f"{hook} did not come"
        return found()[0]

    def _read(self) -> None:
        for line in self._lines:
            with self._changed:
                self._notes.append(json.loads(line))
                self._changed.notify_all()


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Notes:
    return Notes(tmp_path_factory.mktemp("notes") / "pipe")


@pytest.fixture(scope="module")
def server(
    start_server: StartServer,
    provider: ScriptedProvider,
    tmp_path_factory: pytest.TempPathFactory,
    notes: Notes,
) -> OpenCodeServer:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "notes.py").write_text(PLUGIN.format(file=str(notes.pipe)))
    provider.script("broken", status(401))
    for model in MODELS[:-1]:
        provider.script(model, stream(f"Answer of {model}."))
    server = start_server(
        models=provider_each(MODELS),
        settings=f'[fallback]\nmax_attempts = 7\n[plugins]\nblock = ["fallback"]\ndirs = ["{folder}"]\n',
        config={"permission": {"bash": "allow"}},
    )
    server.warm_up("of-asked")
    return server


def sent_texts(turn: Turn) -> str:
    return json.dumps(turn.requests()[-1].body)


def outputs(server: OpenCodeServer, session: str) -> list[str]:
    parts = [part for each in server.messages(session) for part in each["parts"] if part["type"] == "tool"]
    return [part["state"]["output"] for part in parts]


def test_P8_tool_before_changes_the_arguments_of_a_tool(
    server: OpenCodeServer, begin: BeginTurn, provider: ScriptedProvider, notes: Notes
) -> None:
    provider.script("tools", tool_call("bash", {"command": "echo one", "description": "d"}), stream("Done."))
    turn = begin(ref("tools"))

    turn.wait_for_answer("Done.")

    assert outputs(server, turn.session) == ["two\n"]
    assert [note["args"]["command"] for note in notes.of("tool_before", turn.session)] == ["echo one"]


def test_P8_tool_after_changes_the_result_of_a_tool(
    server: OpenCodeServer, begin: BeginTurn, provider: ScriptedProvider, notes: Notes
) -> None:
    provider.script(
        "tools", tool_call("bash", {"command": "echo secret", "description": "d"}), stream("Done.")
    )
    turn = begin(ref("tools"))

    turn.wait_for_answer("Done.")

    assert outputs(server, turn.session) == ["nothing to see"]
    assert "nothing to see" in sent_texts(turn)
    assert [note["output"] for note in notes.of("tool_after", turn.session)] == ["secret\n"]


def test_P8_chat_message_moves_a_prompt_to_another_model(
    server: OpenCodeServer, begin: BeginTurn, notes: Notes
) -> None:
    turn = begin(ref("asked"))

    turn.wait_for_answer("Answer of chosen.")

    assert turn.asked() == ["chosen"]
    (note,) = notes.of("chat_message", turn.session)
    assert note["model"] == "of-asked/asked"
    assert note["message"] == server.messages(turn.session)[0]["info"]["id"]


def test_P8_messages_transform_changes_what_the_model_gets_and_not_the_history(begin: BeginTurn) -> None:
    turn = begin(ref("chosen"), text="My secret is 1234.")

    turn.wait_for_answer("Answer of chosen.")

    assert "My secret is ****." in sent_texts(turn)
    assert "1234" not in sent_texts(turn)
    assert turn.user_texts() == [["My secret is 1234."]]


def test_P8_hooks_about_the_host_come_once_for_each_folder(
    server: OpenCodeServer, notes: Notes, tmp_path: Path
) -> None:
    about = {"directory": str(tmp_path)}
    server.create_session(directory=tmp_path)
    assert notes.wait_for("host_started", None, **about)["kind"] == "serve"
    assert notes.wait_for("settings_changed", None, **about)["attempts"] == 7

    server.dispose(tmp_path)

    notes.wait_for("host_stopping", None, **about)
    hooks = ("host_started", "settings_changed", "host_stopping")
    assert [sum(about.items() <= note.items() for note in notes.of(hook)) for hook in hooks] == [1, 1, 1]


def test_P8_hooks_about_a_session_come_in_its_order(
    server: OpenCodeServer, begin: BeginTurn, notes: Notes
) -> None:
    # Given two turns, and a session that is deleted after them
    session = server.create_session()
    for _ in range(2):
        begin(ref("chosen"), session=session).wait_for_answer("Answer of chosen.")
    server.delete_session(session)

    # When the last hook about it has come
    notes.wait_for("session_deleted", session)

    # Then each hook came, in the host's order, and none of another session in between was mixed in
    assert [note["parent"] for note in notes.of("session_created", session)] == [None]
    statuses = [note["status"] for note in notes.of("session_status", session)]
    assert statuses[0] == "busy"
    assert statuses[-1] == "idle"
    assert len(notes.of("session_idle", session)) >= 2
    assert {note["kind"] for note in notes.of("message_updated", session)} == {
        "UserMessage",
        "AssistantMessage",
    }
    assert "text" in {note["type"] for note in notes.of("message_part_updated", session)}
    assert notes.of("message_activity", session)[0]["delta"] == "Answer of chosen."
    assert "message.part.delta" in {note["type"] for note in notes.of("event", session)}


def test_P8_hooks_about_failures(begin: BeginTurn, notes: Notes) -> None:
    turn = begin(ref("broken"))
    turn.wait_for_error()

    notes.wait_for("session_error", turn.session)
    (error,) = notes.of("session_error", turn.session)
    assert error["name"] == "APIError"


def test_P8_a_message_that_is_removed_and_a_history_that_is_shortened(
    server: OpenCodeServer, begin: BeginTurn, notes: Notes
) -> None:
    turn = begin(ref("chosen"))
    turn.wait_for_answer("Answer of chosen.")
    answer = server.messages(turn.session)[-1]["info"]["id"]

    server.summarize(turn.session, ref("chosen"))
    notes.wait_for("session_compacted", turn.session)

    server.delete_message(turn.session, answer)
    notes.wait_for("message_removed", turn.session)
    assert [note["message"] for note in notes.of("message_removed", turn.session)] == [answer]
