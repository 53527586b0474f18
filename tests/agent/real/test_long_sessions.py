"""Sessions of many prompts in our own host, any of which may fail: the chain answers each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, cut, done_only, error_object, reset, status, stream, tool_call

pytestmark = pytest.mark.real_host

FAILURES: Final[dict[str, Sequence[Reply]]] = {
    "429": [status(429)],
    "500": [status(500)],
    "401": [status(401)],
    "404": [status(404)],
    "empty": [stream()],
    "done-only": [done_only()],
    "cut": [cut("Half an answer ")],
    "reset": [reset()],
    "error-in-stream": [error_object("Half an answer ")],
    "after-a-tool": [tool_call("bash", {"command": "true", "description": "Does nothing"}), status(429)],
}
AGENTS: Final = ("build", "plan")
LONGEST: Final = 20
TURNS: Final = {"some": 80, "many": 1000}
SETTINGS: Final = """
[fallback]
fallback_models = ["spare/answers"]
cooldown = 0

[agents.plan]
fallback_models = ["spare/answers-as-well"]

[serve]
model = "spare/usual"

[permissions]
bash = "allow"
"""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: how its model fails, None if it answers, its agent, and whether the call waits for it."""

    number: int
    failure: str | None
    agent: str
    waits: bool

    @property
    def model(self) -> str:
        """Name the model that is asked first; each failing one is asked once."""
        return f"{self.failure}-{self.number}" if self.failure else "usual"

    @property
    def answered_by(self) -> str:
        """Name the model that is to answer."""
        if self.failure is None:
            return "usual"
        return "answers-as-well" if self.agent == "plan" else "answers"


def sessions(turns: int) -> Iterator[list[Prompt]]:
    """Draw sessions of 1 to `LONGEST` prompts, so many prompts in all."""
    drawn = Random(turns)  # noqa: S311 -- the same prompts every time are the point
    number = 0
    while number < turns:
        length = min(drawn.randint(1, LONGEST), turns - number)
        failures = [drawn.choice([None, *FAILURES]) for _ in range(length)]
        yield [
            Prompt(number + place, failure, drawn.choice(AGENTS), drawn.random() < 0.5)
            for place, failure in enumerate(failures)
        ]
        number += length


def provided(turns: int) -> dict[str, Sequence[Reply]]:
    """Script every model that is asked."""
    failing = (prompt for session in sessions(turns) for prompt in session if prompt.failure)
    scripts: dict[str, Sequence[Reply]] = {
        prompt.model: FAILURES[prompt.failure] for prompt in failing if prompt.failure
    }
    return scripts | {
        "usual": [stream("Answer of the usual.")],
        "answers": [stream("Answer.")],
        "answers-as-well": [stream("Answer as well.")],
    }


def author_of(server: AgentServer, session: str, prompt: Prompt, earlier: set[str]) -> tuple[str, bool]:
    """Run a prompt; return which model its answer names, and whether that is a failed one.

    ``earlier`` are the ids of the session's answers so far, whose ends may still be on their way.
    """
    provider = "spare" if prompt.failure is None else f"of-{prompt.model}"
    model, text = f"{provider}/{prompt.model}", f"Question {prompt.number}?"
    if prompt.waits:
        info: Any = server.answer(session, text, model, agent=prompt.agent)["info"]
    else:
        position = server.events.position
        server.prompt(session, text, model, agent=prompt.agent)
        server.events.wait_for(
            lambda event: (
                event["type"] == "run.ended"
                and event["properties"]["sessionID"] == session
                and event["properties"]["messageID"] not in earlier
            ),
            since=position,
        )
        info = server.messages(session)[-1]["info"]
    earlier.add(info["id"])
    return info["modelID"], "error" in info


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param(TURNS["some"], id="some"),
        pytest.param(TURNS["many"], id="many", marks=[pytest.mark.thorough, pytest.mark.timeout(900)]),
    ],
)
def test_H1_the_chain_misses_no_failure_of_any_prompt(
    turns: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scripts = provided(turns)
    spare = ["answers", "answers-as-well", "usual"]
    models = {f"of-{name}": [name] for name in scripts if name not in spare}
    missed: list[tuple[int, Prompt, tuple[str, bool]]] = []
    with ScriptedProvider(scripts) as provider:
        home = AgentHome(tmp_path_factory.mktemp("host"), provider, {**models, "spare": spare}, SETTINGS)
        with AgentServer(home) as server:
            for prompts in sessions(turns):
                session, earlier = server.create_session(), set[str]()
                for place, prompt in enumerate(prompts, 1):
                    author = author_of(server, session, prompt, earlier)
                    if author != (prompt.answered_by, False):
                        missed.append((place, prompt, author))
            asked = {request.model for request in provider.requests()}

    assert missed == []
    assert asked >= {name for name in scripts if name not in spare}
