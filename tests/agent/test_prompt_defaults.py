"""Which model a prompt of our own host goes to, by what it, its session and the settings name."""

import pytest

from fallback_plugin.agent.prompt_defaults import model_of
from fallback_plugin.agent.records import Session, UserPrompt
from fallback_plugin.model_ref import ModelRef

NAMED, KEPT, OWN, DEFAULT, GONE = (
    ModelRef("p", name) for name in ("named", "kept", "own", "default", "gone")
)


def is_known(model: ModelRef) -> bool:
    return model != GONE


def session(agent: str | None, model: ModelRef | None) -> Session:
    return Session(
        id="ses_1", directory="/p", title="A test", created_at=0.0, updated_at=0.0, agent=agent, model=model
    )


@pytest.mark.parametrize(
    ("named", "agent", "before", "kept", "expected"),
    [
        (NAMED, "plan", "build", KEPT, NAMED),
        (None, "plan", "build", KEPT, OWN),
        (None, "plan", None, KEPT, OWN),
        (None, "plan", "plan", KEPT, KEPT),
        (None, None, "plan", KEPT, KEPT),
        (None, "plan", "plan", None, OWN),
        (None, "build", "plan", KEPT, KEPT),
        (None, None, None, KEPT, KEPT),
        (None, "build", "plan", None, DEFAULT),
        (None, None, None, None, DEFAULT),
        (None, "build", "build", GONE, DEFAULT),
        (None, "plan", "plan", GONE, OWN),
        (None, "build", "plan", GONE, DEFAULT),
        (GONE, "build", "build", KEPT, GONE),
    ],
    ids=[
        "a prompt's own",
        "a change to an agent with a model",
        "a change from the default agent",
        "an agent that stays keeps the session's",
        "a prompt without an agent keeps the session's",
        "a first prompt to an agent with a model",
        "a change to an agent without one keeps the session's",
        "the default agent keeps the session's",
        "nobody names one, with an agent",
        "nobody names one",
        "the session's is gone",
        "the session's is gone, and its agent has its own",
        "the session's is gone, at a change to an agent without one",
        "one that the prompt names and that does not exist",
    ],
)
def test_the_model_of_a_prompt(
    named: ModelRef | None,
    agent: str | None,
    before: str | None,
    kept: ModelRef | None,
    expected: ModelRef,
) -> None:
    prompt = UserPrompt(parts=(), model=named, agent=agent)

    found = model_of(prompt, session(before, kept), own={"plan": OWN}.get, default=DEFAULT, knows=is_known)

    assert found == expected


def test_a_default_agent_with_its_own_model_begins_on_it() -> None:
    own = {"build": OWN}.get
    found = model_of(UserPrompt(parts=()), session(None, None), own=own, default=DEFAULT, knows=is_known)

    assert found == OWN
