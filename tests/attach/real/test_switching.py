"""A server without any plugin, looked after from outside."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.attach.real.conftest import Attach, StartServer
from tests.loopback.event_log import EventLog
from tests.loopback.opencode_home import ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.turn import PROMPT, Turn

pytestmark = [pytest.mark.real_host, pytest.mark.thorough]


@pytest.mark.parametrize("primary", ["limited", "bad-key"])
def test_a_failing_model_is_left_for_the_next(
    server: OpenCodeServer, attach: Attach, provider: ScriptedProvider, primary: str
) -> None:
    attach(server)

    turn = Turn.begin(server, provider, ref(primary)).wait_for_switch("Answer of a.")

    assert turn.asked() == [primary, "fallback-a"]
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning", "success"]


def test_a_server_with_a_password_is_looked_after(
    start_server: StartServer, attach: Attach, provider: ScriptedProvider
) -> None:
    server = start_server(password="secret words")
    process = attach(server, options=("--password-env", "WORDS"), environment={"WORDS": "secret words"})

    turn = Turn.begin(server, provider, ref("limited")).wait_for_switch("Answer of a.")

    assert turn.asked() == ["limited", "fallback-a"]
    assert process.end(signal.SIGTERM) == 0
    assert process.saying("secret") == []


def test_a_server_that_was_killed_is_looked_after_again(
    start_server: StartServer, attach: Attach, provider: ScriptedProvider
) -> None:
    first = start_server()
    process = attach(first)
    turn = Turn.begin(first, provider, ref("slow"))
    turn.wait_for_delta("Half ")

    first.kill()
    process.wait_for(": lost: ")
    second = start_server(home=first.home, port=first.port)
    process.wait_for(": attached again (")
    later = Turn.begin(second, provider, ref("limited"), session=turn.session).wait_for_switch("Answer of a.")

    assert later.asked() == ["limited", "fallback-a"]
    assert turn.asked() == ["slow", "limited", "fallback-a"]
    assert [len(process.saying(words)) for words in (": attached (", ": lost: ", ": attached again (")] == [
        1,
        1,
        1,
    ]


def test_a_server_that_falls_silent_is_lost_when_two_heartbeats_are_missing(
    server: OpenCodeServer, attach: Attach
) -> None:
    process = attach(server)

    os.kill(server.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        lost = process.wait_for(": lost: ")
        silent_s = time.monotonic() - began
    finally:
        os.kill(server.pid, signal.SIGCONT)

    assert "nothing came for 25 s" in lost
    assert silent_s < 30
    process.wait_for(": attached again (")


@pytest.mark.parametrize("primary", ["limited", "bad-key"])
def test_beside_a_bridge_a_failure_is_answered_once(
    server_with_bridge: OpenCodeServer, attach: Attach, provider: ScriptedProvider, primary: str
) -> None:
    server = server_with_bridge
    attach(server)

    turn = Turn.begin(server, provider, ref(primary)).wait_for_switch("Answer of a.")

    assert turn.is_quiet(1.0)
    assert turn.asked() == [primary, "fallback-a"]
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning", "success"]
    assert len(server.python_children()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(
    server: OpenCodeServer, attach: Attach, number: signal.Signals
) -> None:
    process = attach(server)

    assert process.end(number) == 0
    assert process.saying("Traceback") == []


def test_a_persons_stop_is_final(server: OpenCodeServer, attach: Attach, provider: ScriptedProvider) -> None:
    attach(server)
    turn = Turn.begin(server, provider, ref("slow")).wait_for_delta("Half ")

    turn.stop()

    assert turn.is_quiet(1.0)
    assert turn.asked() == ["slow"]


def test_all_folders_of_a_server_are_looked_after(
    server: OpenCodeServer, attach: Attach, provider: ScriptedProvider, tmp_path: Path
) -> None:
    attach(server, options=("--all-directories",))
    events = EventLog(server.url, directory=tmp_path)
    events.start()

    # Each on a model of its own: one that cools is shared by all.
    near = Turn.begin(server, provider, ref("limited"))
    far = server.create_session(directory=tmp_path)
    server.prompt(far, PROMPT, ref("bad-key"), directory=tmp_path)

    near.wait_for_switch("Answer of a.")
    events.wait_for_toast("success")
    assert near.asked() == ["limited", "fallback-a"]
    assert [request.model for request in provider.requests(session=far)] == ["bad-key", "fallback-a"]


def test_named_folders_of_a_server_are_looked_after(
    server: OpenCodeServer, attach: Attach, provider: ScriptedProvider, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    named = (server.home.directory, tmp_path / "link", tmp_path)
    process = attach(server, options=tuple(word for path in named for word in ("--directory", str(path))))
    events = EventLog(server.url, directory=tmp_path)
    events.start()

    far = server.create_session(directory=tmp_path)
    server.prompt(far, PROMPT, ref("limited"), directory=tmp_path)

    events.wait_for_toast("success")
    assert [request.model for request in provider.requests(session=far)] == ["limited", "fallback-a"]
    assert process.saying(": attached (")[0].endswith(f"{server.home.directory}, {tmp_path}")
