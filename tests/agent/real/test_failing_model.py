"""A model fails in our own host: its turn goes on in the same run, and nothing is shown twice."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.event_log import Raw
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import (
    Answer,
    Reply,
    cut,
    done_only,
    error_body,
    error_object,
    hang,
    hang_before_headers,
    reset,
    status,
    stream,
    thinking,
    tool_call,
)

pytestmark = pytest.mark.real_host

FAILURES: Final[dict[str, Reply]] = {
    "limited": status(429, headers={"retry-after": "3600"}),
    "unpaid": status(402),
    "rejected": status(401),
    "unknown": status(404),
    "overloaded": status(503),
    "error-in-stream": error_object(),
    "error-after-words": error_object("Half an answer of the failing model"),
    "cut": cut("Half an answer of the failing model"),
    "reset": reset("Half an answer of the failing model"),
    "empty": stream(),
    "done-only": done_only(),
    "empty-at-limit": stream(finish="length"),
    "thoughts-at-limit": thinking("Half an answer of the failing model", finish="length"),
    "error-with-status-200": (Answer(200, error_body("Incorrect API key provided.")),),
    "only-thoughts": thinking("Half an answer of the failing model"),
    "hangs": hang_before_headers(),
    "stalls": hang("Half an answer of the failing model"),
}
TOLD: Final[dict[str, Reply]] = {"cut-and-told": cut("Half an "), "reset-and-told": reset("Half an ")}
SETTINGS: Final = """
[fallback]
fallback_models = ["spare/answers"]
first_token_timeout = "1s"
stall_timeout = "1s"

[agents.draining]
fallback_models = ["of-answers-once/answers-once", "of-fails-later/fails-later"]

[agents.doomed]
fallback_models = ["spare/fails-as-well"]

[serve]
model = "spare/answers"

[permissions]
write = "allow"
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    scripts = {name: [reply] for name, reply in (FAILURES | TOLD).items()} | {
        "told-to-rest": [status(429, headers={"retry-after": "3600"})],
        "fails-first": [status(503)],
        "idles": [status(429)],
        "cleared": [status(429, headers={"retry-after": "3600"}), stream("Its own answer.")],
        "short-rest": [status(429, headers={"retry-after": "7"})],
        "answers": [stream("The answer.")],
        "fails-as-well": [status(503)],
        "rests": [status(429, headers={"retry-after": "3600"})],
        "answers-once": [stream("The answer."), status(503)],
        "fails-later": [status(503)],
        "after-a-tool": [tool_call("write", {"path": "done.txt", "content": "once"}), status(429)],
    }
    with ScriptedProvider(scripts) as provider:
        yield provider


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> Iterator[AgentServer]:
    # What a test closes, no other one asks for: they come in any order.
    own = (
        "told-to-rest",
        "fails-first",
        "idles",
        "after-a-tool",
        "cleared",
        "short-rest",
        "rests",
        "answers-once",
        "fails-later",
    )
    models = {f"of-{name}": [name] for name in [*FAILURES, *TOLD, *own]}
    models["spare"] = ["answers", "fails-as-well"]
    home = AgentHome(tmp_path_factory.mktemp("host"), provider, models, SETTINGS)
    with AgentServer(home) as server:
        yield server


def words(message: Raw) -> str:
    return "".join(part.get("text", "") for part in message["parts"] if part["type"] in {"text", "reasoning"})


def end_of_run(server: AgentServer, session: str, since: int) -> Raw:
    """Wait for the terminal event of a session's run, and return what it says."""
    properties: Raw = server.events.wait_for(
        lambda event: event["type"] == "run.ended" and event["properties"]["sessionID"] == session,
        since=since,
    )["properties"]
    return properties


@pytest.mark.parametrize("failure", FAILURES)
def test_the_turn_goes_on_with_the_next_model(
    server: AgentServer, provider: ScriptedProvider, failure: str
) -> None:
    session = server.create_session()
    position = server.events.position

    server.prompt(session, "Who answers?", f"of-{failure}/{failure}", agent="build")

    end = end_of_run(server, session, position)
    assert (end["outcome"], end["text"]) == ("completed", "The answer.")
    asked, answered = server.messages(session)
    assert words(asked) == "Who answers?"
    assert (answered["info"]["providerID"], answered["info"]["modelID"]) == ("spare", "answers")
    assert words(answered) == "The answer."
    assert len(provider.requests(failure, session=session)) == 1
    assert len(provider.requests("answers", session=session)) == 1
    server.events.wait_for_toast("success", since=position)
    assert [toast["variant"] for toast in server.events.toasts(position)] == ["warning", "success"]


@pytest.mark.parametrize("failure", TOLD)
def test_an_answer_that_was_cut_off_is_said_to_be(server: AgentServer, failure: str) -> None:
    session = server.create_session()
    position = server.events.position

    server.prompt(session, "Who answers?", f"of-{failure}/{failure}", agent="build")

    server.events.wait_for_toast("success", since=position)
    trying, now_on = (toast["message"] for toast in server.events.toasts(position))
    assert trying == f"of-{failure}/{failure}: answer was cut off. Trying spare/answers …"
    assert f"of-{failure}/{failure}: answer was cut off, rests until " in now_on


def test_the_idle_comes_once_and_after_the_end(server: AgentServer) -> None:
    session = server.create_session()
    position = server.events.position

    server.prompt(session, "Who answers?", "of-idles/idles", agent="build")
    server.wait_for_answer(session, "The answer.", since=position)

    kinds = [event["type"] for event in server.events.since(position, session=session)]
    assert kinds.count("run.ended") == kinds.count("session.idle") == 1
    assert kinds.index("run.ended") < kinds.index("session.idle")


def test_finished_tool_steps_stay_and_are_not_repeated(
    server: AgentServer, provider: ScriptedProvider
) -> None:
    session = server.create_session()
    position = server.events.position

    server.prompt(session, "Write it down.", "of-after-a-tool/after-a-tool", agent="build")

    assert end_of_run(server, session, position)["outcome"] == "completed"
    assert (server.home.directory / "done.txt").read_text() == "once"
    _, step, answer = server.messages(session)
    tools = [part["state"]["status"] for part in step["parts"] if part["type"] == "tool"]
    assert tools == ["completed"]
    assert step["info"]["modelID"] == "after-a-tool"
    assert words(answer) == "The answer."
    (request,) = provider.requests("answers", session=session)
    assert [message["role"] for message in request.body["messages"]][-3:] == ["user", "assistant", "tool"]


def test_when_all_fail_it_is_said_once_and_the_turn_ends_with_the_error(server: AgentServer) -> None:
    session = server.create_session()
    position = server.events.position

    server.prompt(session, "Who answers?", "of-fails-first/fails-first", agent="doomed")

    end = end_of_run(server, session, position)
    assert end["outcome"] == "failed"
    assert end["error"]["data"]["statusCode"] == 503
    server.events.wait_for_toast("error", since=position)
    _, answered = server.messages(session)
    assert words(answered) == ""
    assert answered["info"]["modelID"] == "fails-as-well"
    error = answered["info"]["error"]["data"]
    assert error["statusCode"] == 503
    assert [line.partition(". ")[0] for line in error["message"].splitlines()] == [
        "No model could answer.",
        "of-fails-first/fails-first: overloaded (503)",
        "spare/fails-as-well: overloaded (503)",
    ]


def test_B4_the_first_choice_has_its_reason_after_any_number_of_prompts_kept_from_it(
    server: AgentServer,
) -> None:
    session = server.create_session()
    ends = []
    for model in ("of-rests/rests", None, None):
        position = server.events.position
        server.prompt(session, "Who answers?", model, agent="draining")
        ends.append(end_of_run(server, session, position))

    assert [end["outcome"] for end in ends] == ["completed", "failed", "failed"]
    words = [end["error"]["data"]["message"].splitlines()[1:] for end in ends[1:]]
    named = [{line.partition(":")[0] for line in lines} for lines in words]
    assert named == [{"of-rests/rests", "of-answers-once/answers-once", "of-fails-later/fails-later"}] * 2


def test_a_closed_model_gets_no_request_at_all(server: AgentServer, provider: ScriptedProvider) -> None:
    for _ in range(2):
        session = server.create_session()
        position = server.events.position
        server.prompt(session, "Who answers?", "of-told-to-rest/told-to-rest", agent="build")
        end_of_run(server, session, position)

    assert provider.requests("told-to-rest", session=session) == []
    asked, _ = server.messages(session)
    assert asked["info"]["model"] == {"providerID": "spare", "modelID": "answers"}


def command(server: AgentServer, *arguments: str) -> str:
    """Run a command of ours in the server's home."""
    done = subprocess.run(
        [sys.executable, "-m", "fallback_plugin", *arguments],
        env=server.home.environment,
        cwd=server.home.directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_P5_what_is_cleared_is_asked_again_by_the_session_in_which_it_failed(
    server: AgentServer, provider: ScriptedProvider
) -> None:
    session = server.create_session()
    for clears, answer in ((False, "The answer."), (False, "The answer."), (True, "Its own answer.")):
        if clears:
            command(server, "health", "clear", "of-cleared/cleared")
        position = server.events.position
        server.prompt(session, "Who answers?", "of-cleared/cleared", agent="build")
        server.wait_for_answer(session, answer, since=position)

    asked = [request.model for request in provider.requests(session=session)]
    assert asked == ["cleared", "answers", "answers", "cleared"]


def test_P6_a_model_is_closed_for_as_long_as_its_provider_says(server: AgentServer) -> None:
    session = server.create_session()
    position = server.events.position
    server.prompt(session, "Who answers?", "of-short-rest/short-rest", agent="build")
    end_of_run(server, session, position)

    (entry,) = (
        each for each in json.loads(command(server, "health", "--json")) if each["name"] == "short-rest"
    )
    assert round(entry["until"] - entry["closed_at"]) == 7
