"""A failing model in the real OpenCode: the turn is saved, once, and the person is told the truth."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from tests.loopback.event_log import Raw, session_of, toast_of
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, status, stream
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

FAILING: Final[Mapping[str, Reply]] = {
    "429": status(429),
    "429-for-an-hour": status(429, headers={"retry-after": "3600"}),
    "401": status(401),
    "402": status(402),
    "404": status(404),
    "503": status(503),
}
OTHERS: Final[Mapping[str, Reply]] = {
    "ok": stream("All ", "well."),
    "400": status(400),
    "429-cooling": status(429),
    "429-of-two": status(429),
    "429-of-all": status(429),
}
FALLBACKS: Final[Mapping[str, Reply]] = {
    "fallback-a": stream("Answer ", "of a."),
    "fallback-b": stream("Answer ", "of b."),
    "429-as-well": status(429),
    "401-as-well": status(401),
}
SETTINGS: Final = """
[fallback]
fallback_models = ["fakeb/fallback-a", "fakeb/fallback-b"]

[agents.plan]
fallback_models = ["fakeb/429-as-well", "fakeb/fallback-b"]

[agents.unlucky]
fallback_models = ["fakeb/401-as-well"]
"""
UNLUCKY: Final = {"agent": {"unlucky": {"mode": "primary", "description": "Has no model that works."}}}


@dataclass(frozen=True)
class Turn:
    """A turn that began with a failing model and was answered."""

    primary: str
    session: str
    began: int
    answer: Raw


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    for model, reply in {**FAILING, **OTHERS, **FALLBACKS}.items():
        provider.script(model, reply)
    return start_server(
        models={"fake": [*OTHERS, *FAILING], "fakeb": list(FALLBACKS)}, settings=SETTINGS, config=UNLUCKY
    )


@pytest.fixture(scope="module", params=list(FAILING))
def turn(request: pytest.FixtureRequest, server: OpenCodeServer) -> Turn:
    return saved_turn(server, request.param)


def saved_turn(server: OpenCodeServer, primary: str) -> Turn:
    """Run a turn to its answer, and to the last toast about it."""
    began = server.events.position
    session = server.create_session()
    server.prompt(session, "Who answers?", f"fake/{primary}")
    answer = server.wait_for_answer(session, "Answer of a.", since=began)
    server.events.wait_for_toast("success", since=began)
    return Turn(primary, session, began, answer)


def test_the_failing_model_is_asked_once(turn: Turn, provider: ScriptedProvider) -> None:
    assert len(provider.requests(turn.primary, session=turn.session)) == 1


def test_the_first_fallback_is_asked_once(turn: Turn, provider: ScriptedProvider) -> None:
    assert len(provider.requests("fallback-a", session=turn.session)) == 1


def test_the_second_fallback_is_not_asked(turn: Turn, provider: ScriptedProvider) -> None:
    assert provider.requests("fallback-b", session=turn.session) == []


def test_the_fallback_gets_the_same_conversation(turn: Turn, provider: ScriptedProvider) -> None:
    (failed,) = provider.requests(turn.primary, session=turn.session)
    (saved,) = provider.requests("fallback-a", session=turn.session)
    assert saved.body["messages"][1:] == failed.body["messages"][1:]


def test_the_transcript_has_one_user_message_with_its_text(turn: Turn, server: OpenCodeServer) -> None:
    users = [message for message in server.messages(turn.session) if message["info"]["role"] == "user"]
    assert [[part["text"] for part in message["parts"]] for message in users] == [["Who answers?"]]


def test_a_toast_says_what_failed_and_what_is_tried(turn: Turn, server: OpenCodeServer) -> None:
    toasts = [toast["message"] for toast in server.events.toasts(turn.began) if toast["variant"] == "warning"]
    assert len(toasts) == 1
    assert f"fake/{turn.primary}" in toasts[0]
    assert "fakeb/fallback-a" in toasts[0]


def test_switched_is_said_once_and_after_content(turn: Turn, server: OpenCodeServer) -> None:
    events = server.events.since(turn.began)
    said = [number for number, event in enumerate(events) if is_success(toast_of(event))]
    spoken = next(
        number
        for number, event in enumerate(events)
        if event["type"] == "message.part.delta"
        and event["properties"]["messageID"] == turn.answer["properties"]["part"]["messageID"]
    )
    assert len(said) == 1
    assert said[0] > spoken


def test_the_next_prompt_leaves_a_cooling_model_alone(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    first = saved_turn(server, "429-cooling")
    position = server.events.position

    server.prompt(first.session, "And now?", "fake/429-cooling")

    server.wait_for_answer(first.session, "Answer of a.", since=position)
    assert len(provider.requests("429-cooling", session=first.session)) == 1


def test_a_fallback_that_fails_is_followed_by_the_next(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    began = server.events.position
    session = server.create_session()

    server.prompt(session, "Who answers?", "fake/429-of-two", agent="plan")

    server.wait_for_answer(session, "Answer of b.", since=began)
    server.events.wait_for_toast("success", since=began)
    asked = [request.model for request in provider.requests(session=session)]
    assert asked == ["429-of-two", "429-as-well", "fallback-b"]


def test_a_chain_at_its_end_is_said_once_with_every_reason(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    began = server.events.position
    session = server.create_session()

    server.prompt(session, "Who answers?", "fake/429-of-all", agent="unlucky")

    toast = server.events.wait_for_toast("error", since=began)
    assert "fake/429-of-all" in toast["message"]
    assert "fakeb/401-as-well" in toast["message"]
    assert provider.is_quiet(session, after=2, window_s=3)
    assert [shown["variant"] for shown in server.events.toasts(began)] == ["warning", "error"]


def test_a_malformed_request_is_not_sent_to_another_model(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    began = server.events.position
    session = server.create_session()

    server.prompt(session, "Is it valid?", "fake/400")

    server.events.wait_for(lambda event: is_failed_answer(event, session), since=began)
    assert provider.is_quiet(session, after=1, window_s=3)
    assert server.events.toasts(began) == []


def test_a_good_answer_is_left_alone(server: OpenCodeServer, provider: ScriptedProvider) -> None:
    began = server.events.position
    session = server.create_session()

    server.prompt(session, "Is all well?", "fake/ok")

    server.wait_for_answer(session, "All well.", since=began)
    assert provider.is_quiet(session, after=1, window_s=1)
    assert server.events.toasts(began) == []


def is_success(toast: Raw | None) -> bool:
    return toast is not None and toast["variant"] == "success"


def is_failed_answer(event: Raw, session: str) -> bool:
    info = event["properties"].get("info", {})
    return event["type"] == "message.updated" and "error" in info and session_of(event) == session
