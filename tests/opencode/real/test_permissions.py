"""`permission_ask` in the real OpenCode: its verdict is the reply; without one the user decides."""

from typing import Final

import pytest

from tests.loopback.event_log import Raw, session_of
from tests.loopback.opencode_home import ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, stream, tool_call
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

PLUGIN: Final = """
import anyio

from fallback_plugin import hookimpl

replied = {}


@hookimpl
async def event(raw):
    if raw["type"] == "permission.replied":
        replied.setdefault(raw["properties"]["requestID"], anyio.Event()).set()


@hookimpl
async def permission_ask(request):
    assert request.session_id.startswith("ses_")
    if request.type != "bash":
        return None
    (command,) = request.pattern
    match command.split()[-1]:
        case "allowed":
            return "allow"
        case "denied":
            return "deny"
        case "left":
            return "ask"
        case "broken":
            raise RuntimeError("no idea")
        case "wrong":
            return "perhaps"
        case "slow":
            await anyio.sleep_forever()
        case "late":
            await replied.setdefault(request.id, anyio.Event()).wait()
            return "deny"
"""
ASKED_WAYS: Final = ["unknown", "left", "broken", "wrong", "slow"]
"""Last words of commands about which the plugin has no verdict."""


@pytest.fixture(scope="module")
def server(
    start_server: StartServer, tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider
) -> OpenCodeServer:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "decides.py").write_text(PLUGIN)
    provider.script("asks", stream("Done."))
    server = start_server(
        models={"of-asks": ["asks"]},
        settings=f'[plugins]\ndirs = ["{folder}"]\n',
        config={"permission": {"bash": "ask", "read": "ask"}},
    )
    server.warm_up("of-asks")
    return server


class Asking:
    """Turns whose model calls bash with a command that ends in a word the plugin knows."""

    def __init__(self, server: OpenCodeServer, provider: ScriptedProvider) -> None:
        self.server = server
        self.provider = provider

    def begin(self, word: str, *, session: str | None = None) -> str:
        """Begin a turn and return its session."""
        self.began = self.server.events.position
        self.provider.script("asks", call_of(word), stream("Done."))
        session = session or self.server.create_session()
        self.server.prompt(session, "Who decides?", ref("asks"))
        return session

    def first(self, kind: str, session: str) -> Raw:
        """Wait for the turn's first event of a type and return its properties."""

        def fits(event: Raw) -> bool:
            return event["type"] == kind and session_of(event) == session

        properties: Raw = self.server.events.wait_for(fits, since=self.began)["properties"]
        return properties

    def replies(self, session: str) -> list[str]:
        """Return how the turn's questions were answered."""
        replied = self.server.events.since(self.began, type="permission.replied", session=session)
        return [event["properties"]["reply"] for event in replied]

    def tools(self, session: str) -> list[tuple[str, str]]:
        """Return the states of the session's tools and what they gave out."""
        return [
            (part["state"]["status"], part["state"].get("output") or part["state"].get("error"))
            for message in self.server.messages(session)
            for part in message["parts"]
            if part["type"] == "tool"
        ]


@pytest.fixture
def asking(server: OpenCodeServer, provider: ScriptedProvider) -> Asking:
    return Asking(server, provider)


def call_of(word: str) -> Reply:
    return tool_call("bash", {"command": f"echo {word}", "description": "Says a word"})


def test_P8_what_a_plugin_allows_is_done_without_the_user(asking: Asking, server: OpenCodeServer) -> None:
    session = asking.begin("allowed")

    server.wait_for_answer(session, "Done.", since=asking.began)
    assert asking.replies(session) == ["once"]
    assert asking.tools(session) == [("completed", "allowed\n")]


def test_P8_what_a_plugin_denies_is_not_done_and_the_model_goes_on(
    asking: Asking, server: OpenCodeServer
) -> None:
    session = asking.begin("denied")

    server.wait_for_answer(session, "Done.", since=asking.began)
    assert asking.replies(session) == ["reject"]
    ((state, error),) = asking.tools(session)
    assert state == "error"
    assert "plugin" in error


@pytest.mark.parametrize("word", ASKED_WAYS)
def test_P8_without_a_verdict_the_user_is_asked(asking: Asking, server: OpenCodeServer, word: str) -> None:
    session = asking.begin(word)
    request = asking.first("permission.asked", session)["id"]

    assert server.is_busy(session)
    server.reply_to_permission(request, "once")

    server.wait_for_answer(session, "Done.", since=asking.began)
    assert asking.replies(session) == ["once"]
    assert asking.tools(session) == [("completed", f"{word}\n")]


def test_P8_a_verdict_after_the_users_answer_changes_nothing(asking: Asking, server: OpenCodeServer) -> None:
    session = asking.begin("late")
    request = asking.first("permission.asked", session)["id"]

    server.reply_to_permission(request, "once")

    server.wait_for_answer(session, "Done.", since=asking.began)
    assert asking.replies(session) == ["once"]
    assert asking.tools(session) == [("completed", "late\n")]
    assert server.events.toasts(asking.began) == []


def test_P8_later_turns_of_a_session_are_decided_as_well(asking: Asking, server: OpenCodeServer) -> None:
    session = server.create_session()
    for _ in range(3):
        asking.begin("allowed", session=session)
        server.wait_for_answer(session, "Done.", since=asking.began)
        assert asking.replies(session) == ["once"]
