"""Limited models that open again, in the real OpenCode: within a turn that waits, and after it."""

from typing import Final

import pytest

from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, status, stream
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

QUIET_S: Final = 0.6
"""Longer than a switch takes from its failure to its prompt."""

TOO_LONG_S: Final = 12.0
"""Shorter than the host's wait for the last model."""


def limited(seconds: int) -> Reply:
    return status(429, headers={"retry-after": str(seconds)})


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    names = ["one", "two", "three", "first", "second", "third", "cleared", "spare"]
    server = start_server(
        models=provider_each(names),
        settings=f"""
[fallback]
fallback_models = ["{ref("spare")}"]
cooldown = "1h"

[agents.build]
fallback_models = ["{ref("two")}", "{ref("three")}"]

[agents.plan]
fallback_models = ["{ref("second")}", "{ref("third")}"]

[agents.general]
fallback_models = ["{ref("spare")}"]
""",
    )
    provider.script("spare", stream("Answer of the ", "spare."))
    server.warm_up("of-one")
    return server


def test_P10_the_turn_goes_to_the_model_that_opens_while_the_host_waits(
    begin: BeginTurn, provider: ScriptedProvider
) -> None:
    provider.script("one", limited(3), stream("Answer of the ", "first one."))
    provider.script("two", limited(60))
    provider.script("three", limited(60))

    turn = begin(ref("one")).wait_for_answer("Answer of the first one.")

    assert turn.asked() == ["one", "two", "three", "one"]
    first, *_, last = turn.requests()
    assert 3 <= last.arrived_at - first.arrived_at < TOO_LONG_S
    assert turn.is_quiet(QUIET_S)
    titles = [toast["title"] for toast in turn.toasts() if toast["variant"] != "success"]
    assert titles == ["Model fallback", "Model fallback", "All fallbacks exhausted", "Model fallback"]


def test_P10_when_every_model_stays_limited_each_is_asked_twice_at_most(
    begin: BeginTurn, provider: ScriptedProvider
) -> None:
    for name in ("first", "second"):
        provider.script(name, limited(3))
    provider.script("third", limited(60))

    turn = begin(ref("first"), agent="plan")
    provider.wait_for(lambda: turn.asked().count("second") == 2, timeout_s=30)

    assert turn.asked() == ["first", "second", "third", "first", "second"]
    # The host asks the last model again by itself; nobody else is.
    turn.is_quiet(QUIET_S)
    assert set(turn.asked()[5:]) <= {"second", "third"}
    turn.stop()


def test_P5_what_is_cleared_is_asked_again_by_the_session_in_which_it_failed(
    begin: BeginTurn, provider: ScriptedProvider, server: OpenCodeServer
) -> None:
    provider.script("cleared", status(429), stream("Answer of the ", "cleared one."))
    turn = begin(ref("cleared"), agent="general").wait_for_answer("Answer of the spare.")
    second = begin(ref("cleared"), agent="general", session=turn.session)
    second.wait_for_answer("Answer of the spare.")
    server.home.command("health", "clear", ref("cleared"))

    third = begin(ref("cleared"), agent="general", session=turn.session)
    third.wait_for_answer("Answer of the cleared one.")

    assert (turn.asked(), second.asked()[:1], third.asked()) == (
        ["cleared", "spare", "spare", "cleared"],
        ["spare"],
        ["cleared"],
    )
    assert server.events.wait_for_toast("info", since=third.began)["title"] == "Model recovered"
