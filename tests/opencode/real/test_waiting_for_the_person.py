"""A turn that waits for the person is no silent model: however long that takes, no other model is asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from fallback_plugin.hookspecs import ACTIVITY_EVERY_S
from tests.loopback.event_log import Raw, session_of
from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, hang, hang_before_headers, stream, tool_call
from tests.loopback.turn import Turn
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

TIMEOUT_S: Final = 1.0
WAITING_WINDOW_S: Final = TIMEOUT_S + ACTIVITY_EVERY_S + 3.0
"""Longer than both timers: a stall is called `ACTIVITY_EVERY_S` after its timeout at the earliest."""
SETTLED_S: Final = TIMEOUT_S + 1.0


@dataclass(frozen=True, slots=True)
class Asking:
    """A tool call that asks the person, the event that says so, and the person's two answers by HTTP."""

    tool: Reply
    event: str
    agree: Callable[[OpenCodeServer, str], None]
    refuse: Callable[[OpenCodeServer, str], None]

    def wait_for(self, turn: Turn) -> str:
        """Return the id of the turn's request to the person once it is open."""

        def asked(event: Raw) -> bool:
            return event["type"] == self.event and session_of(event) == turn.session

        request: str = turn.server.events.wait_for(asked, since=turn.began)["properties"]["id"]
        return request


WAYS: Final = [{"label": "Left", "description": "By the river"}, {"label": "Right", "description": "Uphill"}]
ASKING: Final[Mapping[str, Asking]] = {
    "permission": Asking(
        tool_call("bash", {"command": "true", "description": "Does nothing"}),
        "permission.asked",
        agree=lambda server, request: server.reply_to_permission(request, "once"),
        refuse=lambda server, request: server.reply_to_permission(request, "reject"),
    ),
    "question": Asking(
        tool_call("question", {"questions": [{"question": "Where to?", "header": "Way", "options": WAYS}]}),
        "question.asked",
        agree=lambda server, request: server.reply_to_question(request, "Left"),
        refuse=lambda server, request: server.reply_to_question(request),
    ),
}
NEXT_STEPS: Final[Mapping[str, Reply]] = {
    "answers": stream("Answer ", "of the first."),
    "is-silent": hang_before_headers(),
    "stalls": hang("Half an "),
}
PRIMARIES: Final = {
    f"{asking}-{then}": (ASKING[asking].tool, NEXT_STEPS[then]) for asking in ASKING for then in NEXT_STEPS
}


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    for model, replies in PRIMARIES.items():
        provider.script(model, *replies)
    provider.script("fallback", stream("Answer ", "of the fallback."))
    timeouts = f'first_token_timeout = "{TIMEOUT_S:g}s"\nstall_timeout = "{TIMEOUT_S:g}s"\n'
    server = start_server(
        models=provider_each([*PRIMARIES, "fallback"]),
        settings="\n".join(
            [
                f'[fallback]\nfallback_models = ["{ref("fallback")}"]\n',
                *(f'[models."{ref(model)}"]\n{timeouts}' for model in PRIMARIES),
            ]
        ),
        config={"permission": {"bash": "ask", "question": "allow"}},
    )
    server.warm_up(f"of-{next(iter(PRIMARIES))}")
    return server


@pytest.mark.parametrize("asking", ASKING)
def test_an_open_question_is_waited_for(
    asking: str, begin: BeginTurn, server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    # Given a model whose tool asks the person
    model = f"{asking}-answers"
    provider.script(model, *PRIMARIES[model])
    turn = begin(ref(model))
    request = ASKING[asking].wait_for(turn)

    # When the person takes longer than any of the model's timers
    assert turn.is_quiet(WAITING_WINDOW_S)
    assert server.is_busy(turn.session)
    ASKING[asking].agree(server, request)

    # Then the same model goes on, as if nothing had been
    turn.wait_for_answer("Answer of the first.")
    assert turn.asked() == [model, model]
    assert server.events.since(turn.began, type="session.error", session=turn.session) == []
    assert turn.toasts() == []


@pytest.mark.parametrize("asking", ASKING)
def test_a_question_the_person_refuses_ends_the_turn(
    asking: str, begin: BeginTurn, server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    model = f"{asking}-answers"
    provider.script(model, *PRIMARIES[model])
    turn = begin(ref(model))

    ASKING[asking].refuse(server, ASKING[asking].wait_for(turn))

    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == [model]
    assert not server.is_busy(turn.session)
    assert turn.toasts() == []


@pytest.mark.parametrize("then", ["is-silent", "stalls"])
@pytest.mark.parametrize("asking", ASKING)
def test_after_the_answer_a_hanging_model_is_left_as_ever(
    asking: str, then: str, begin: BeginTurn, server: OpenCodeServer
) -> None:
    turn = begin(ref(f"{asking}-{then}"))

    ASKING[asking].agree(server, ASKING[asking].wait_for(turn))

    turn.wait_for_switch("Answer of the fallback.")
    assert turn.asked() == [f"{asking}-{then}"] * 2 + ["fallback"]
    assert turn.requests()[-1].roles[-1] == "tool"
