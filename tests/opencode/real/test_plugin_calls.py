"""What a plugin may change in the real OpenCode's history, and how little of a stream it has to hear."""

from typing import Final

import pytest

from tests.loopback.event_log import Raw, session_of
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

PIECES: Final = 500
GATE: Final = Gate()
PLUGIN: Final = """
from collections import Counter

from fallback_plugin import Toast, hookimpl
from fallback_plugin.errors import HostCallError

heard = Counter()


async def say(host, text):
    await host.toast(Toast(title="A plugin", message=text))


@hookimpl
async def message_activity(event, host):
    heard[event.session_id] += 1
    if event.delta != "Not yet ":
        return
    for call in (host.delete_message, host.revert):
        try:
            await call(event.session_id, event.message_id)
        except HostCallError as error:
            await say(host, f"refused with {error.status}")


@hookimpl
async def session_idle(event, host):
    question, *_, answer = await host.messages(event.session_id)
    match answer.info.model.model:
        case "to-delete":
            await host.delete_message(event.session_id, answer.info.id)
        case "to-revert":
            await host.revert(event.session_id, question.info.id)
            await say(host, "reverted")
        case "long":
            await say(host, f"heard {heard[event.session_id]}")
"""


@pytest.fixture(scope="module")
def server(
    start_server: StartServer, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> OpenCodeServer:
    provider.script("running", stream("Not yet ", GATE, "over."))
    provider.script("to-delete", stream("Delete me."))
    provider.script("to-revert", stream("Revert me."))
    provider.script("long", stream(*(f"word {number} " for number in range(PIECES))))
    provider.script("ok", stream("All well."))
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "changes_the_history.py").write_text(PLUGIN)
    return start_server(
        models={"fake": ["ok", "running", "to-delete", "to-revert", "long"]},
        settings=f'[plugins]\nblock = ["fallback"]\ndirs = ["{folder}"]\n',
    )


def toasts_about(server: OpenCodeServer, model: str, count: int) -> list[str]:
    """Run a turn and return the first toasts after it."""
    began = server.events.position
    session = server.create_session()
    server.prompt(session, "Who answers?", f"fake/{model}")
    server.events.wait_for(lambda _: len(server.events.toasts(began)) >= count, since=began)
    return [toast["message"] for toast in server.events.toasts(began)]


def test_a_running_session_refuses_to_lose_messages(server: OpenCodeServer) -> None:
    try:
        assert toasts_about(server, "running", count=2) == ["refused with 409"] * 2
    finally:
        GATE.open()


def test_an_idle_session_loses_the_message_a_plugin_deletes(server: OpenCodeServer) -> None:
    began = server.events.position
    session = server.create_session()

    server.prompt(session, "Who answers?", "fake/to-delete")

    def removed(event: Raw) -> bool:
        return event["type"] == "message.removed" and session_of(event) == session

    server.events.wait_for(removed, since=began)
    assert [message["info"]["role"] for message in server.messages(session)] == ["user"]


def test_a_reverted_turn_is_gone_with_the_next_prompt(server: OpenCodeServer) -> None:
    began = server.events.position
    session = server.create_session()
    server.prompt(session, "First question", "fake/to-revert")
    server.events.wait_for_toast(since=began)

    server.prompt(session, "Second question", "fake/ok")

    server.wait_for_answer(session, "All well.", since=began)
    texts = [
        part["text"] for message in server.messages(session) for part in message["parts"] if "text" in part
    ]
    assert texts == ["Second question", "All well."]


def test_of_a_long_answer_a_plugin_hears_a_few_deltas(server: OpenCodeServer) -> None:
    (heard,) = toasts_about(server, "long", count=1)
    assert 1 <= int(heard.removeprefix("heard ")) < PIECES / 100
