"""Prompts after a switch in the real OpenCode: on the primary again in time, or on what the person picks."""

from typing import Final

import pytest

from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

COOLDOWN_S: Final = 2.0
SETTINGS: Final = f"""
[fallback]
fallback_models = ["of-fallback/fallback"]

[models."of-limited-once/limited-once"]
cooldown = "{COOLDOWN_S}s"
"""


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    provider.script("limited-once", status(429), stream("Back ", "again."))
    provider.script("limited", status(429))
    provider.script("picked", stream("Answer of the ", "picked one."))
    provider.script("fallback", stream("Answer of the ", "fallback."))
    models = ("limited-once", "limited", "picked", "fallback")
    return start_server(models=provider_each(models), settings=SETTINGS)


def test_the_primary_is_asked_again_after_its_cooldown(begin: BeginTurn, server: OpenCodeServer) -> None:
    primary = ref("limited-once")
    first = begin(primary).wait_for_switch("Answer of the fallback.")
    assert first.is_quiet(COOLDOWN_S)

    second = begin(primary, session=first.session, text="And now?")

    second.wait_for_answer("Back again.")
    assert second.asked() == ["limited-once"]
    toast = server.events.wait_for_toast("info", since=second.began)
    assert primary in toast["message"]


def test_a_model_the_person_picks_is_left_to_them(begin: BeginTurn) -> None:
    first = begin(ref("limited")).wait_for_switch("Answer of the fallback.")

    second = begin(ref("picked"), session=first.session, text="And now?")

    second.wait_for_answer("Answer of the picked one.")
    assert second.is_quiet(0.5)
    assert (second.asked(), second.said()) == (["picked"], [])
