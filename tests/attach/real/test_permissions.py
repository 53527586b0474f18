"""Plugins beside a server decide on its permission requests."""

from pathlib import Path
from typing import Final

import pytest

from tests.attach.real.conftest import Attach, StartServer
from tests.loopback.event_log import Raw, session_of
from tests.loopback.opencode_home import OpenCodeHome, ref
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream, tool_call

pytestmark = [pytest.mark.real_host, pytest.mark.thorough]

PLUGIN: Final = """
from fallback_plugin import hookimpl


@hookimpl
def permission_ask(request):
    return {"echo allowed": "allow", "echo denied": "deny"}.get(request.pattern[0])
"""


def test_P8_a_plugin_beside_a_server_allows_denies_or_leaves_it_to_the_user(
    start_server: StartServer, attach: Attach, provider: ScriptedProvider, tmp_path: Path
) -> None:
    # Given a plugin that knows two of three commands
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "decides.py").write_text(PLUGIN)
    home = OpenCodeHome(tmp_path / "home", provider, {"of-asks": ["asks"]}, {"permission": {"bash": "ask"}})
    home.write_settings(f'[plugins]\ndirs = ["{tmp_path / "plugins"}"]\n')
    server = start_server(home=home)
    server.warm_up("of-asks")
    attach(server)

    for word, reply, state in (
        ("allowed", "once", "completed"),
        ("denied", "reject", "error"),
        ("unknown", "once", "completed"),
    ):
        # When its model calls one
        provider.script(
            "asks",
            tool_call("bash", {"command": f"echo {word}", "description": "Says a word"}),
            stream("Done."),
        )
        began, session = server.events.position, server.create_session()
        server.prompt(session, "Who decides?", ref("asks"))
        if word == "unknown":

            def asked(event: Raw, session: str = session) -> bool:
                return event["type"] == "permission.asked" and session_of(event) == session

            request = server.events.wait_for(asked, since=began)["properties"]["id"]
            server.reply_to_permission(request, "once")

        # Then the plugin's verdict or the user's is the answer, and the model goes on
        server.wait_for_answer(session, "Done.", since=began)
        replied = server.events.since(began, type="permission.replied", session=session)
        tools = [
            part for each in server.messages(session) for part in each["parts"] if part["type"] == "tool"
        ]
        assert [event["properties"]["reply"] for event in replied] == [reply]
        assert [tool["state"]["status"] for tool in tools] == [state]
