"""Requests answered inline in the real OpenCode: each SDK, two providers, a login, subagents, titles."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.loopback.dialects import ANSWERS, anthropic
from tests.loopback.event_log import Raw
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_run import run
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import SMALL_MODEL, ScriptedProvider
from tests.loopback.reply import Gate, status, stream, tool_call
from tests.loopback.turn import PROMPT, Turn
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

SDKS: Final[Mapping[str, str]] = {npm.rpartition("/")[2]: npm for npm in ANSWERS}
LOGIN_PLUGIN: Final = """
export default {
  id: "login",
  server: async () => ({
    auth: {
      provider: "of-login",
      methods: [{ type: "oauth", label: "Log in", authorize: async () => ({}) }],
      loader: async () => ({
        apiKey: "not-the-key",
        fetch: (input, init) => {
          const headers = new Headers(init.headers)
          headers.set("authorization", "Bearer of-the-login")
          return fetch(input, { ...init, headers })
        },
      }),
    },
  }),
}
"""
TASK: Final = {"description": "Finds out", "prompt": "Find it out.", "subagent_type": "worker"}


def chain(*models: str) -> str:
    return f"fallback_models = {list(models)}\n"


SETTINGS: Final = "\n".join(
    [
        '[log]\nlevel = "debug"\n[fallback]\nswitching = "inline"\n' + chain(ref("fallback")),
        *(f"[agents.{sdk}]\n{chain(f'of-{sdk}/second-{sdk}', f'by-{sdk}/third-{sdk}')}" for sdk in SDKS),
        f"[agents.login]\n{chain('of-login/second-login')}",
        f"[agents.to-login]\n{chain('of-login/third-login')}",
        f"[agents.signed]\n{chain('of-signed/after-thoughts')}",
        f"[agents.hopeless]\n{chain(ref('refused-as-well'))}",
    ]
)
AGENTS: Final = [*SDKS, "login", "to-login", "signed", "hopeless"]
REFUSED: Final = ("refused", "refused-as-well")
OPENAI_COMPATIBLE: Final = (
    "limited",
    "fallback",
    "before-login",
    "parent",
    "child",
    "awaited",
    "held",
    *REFUSED,
)


def log_in(home: OpenCodeHome) -> None:
    """Add a plugin that logs in to one provider, with a fetch of its own."""
    (home.plugin_file.parent / "login.js").write_text(LOGIN_PLUGIN)
    credentials = {"type": "oauth", "refresh": "r", "access": "a", "expires": 9_999_999_999_999}
    file = home.log_file.parents[1] / "auth.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"of-login": credentials}))


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    models: dict[str, list[str]] = {
        **provider_each(OPENAI_COMPATIBLE),
        "of-login": ["first-login", "second-login", "third-login"],
        "of-signed": ["thoughtful", "after-thoughts"],
    }
    npm = {"of-signed": "@ai-sdk/anthropic"}
    for model in ("limited", "before-login", "child", "first-login", "awaited"):
        provider.script(model, status(429))
    for model in REFUSED:
        provider.script(model, status(401))
    for model in ("fallback", "second-login", "third-login"):
        provider.script(model, stream(f"Answer of {model}."))
    provider.script("parent", tool_call("task", TASK), stream("All ", "is known."))
    provider.script("thoughtful", anthropic("Well thought.", thought="Let me think."), status(429))
    provider.script("after-thoughts", anthropic("Answer of after-thoughts."))
    for sdk, package in SDKS.items():
        models |= {f"of-{sdk}": [f"first-{sdk}", f"second-{sdk}"], f"by-{sdk}": [f"third-{sdk}"]}
        npm |= {f"of-{sdk}": package, f"by-{sdk}": package}
        provider.script(f"first-{sdk}", status(429))
        provider.script(f"second-{sdk}", status(503))
        provider.script(f"third-{sdk}", ANSWERS[package](f"Answer of third-{sdk}."))
    return start_server(
        models=models,
        settings=SETTINGS,
        config={
            "agent": {
                **{name: {"mode": "primary", "description": "Has a chain of its own."} for name in AGENTS},
                "worker": {"mode": "subagent", "description": "Finds out", "model": ref("child")},
            },
            "permission": {"task": "allow"},
        },
        npm=npm,
        prepare=log_in,
    )


def retried(turn: Turn) -> list[Raw]:
    """Return the host's waits to ask a model again."""
    return [
        event
        for event in turn.server.events.since(turn.began)
        if event["type"] == "session.status"
        and event["properties"]["sessionID"] == turn.session
        and event["properties"]["status"]["type"] == "retry"
    ]


@pytest.mark.parametrize("sdk", SDKS)
def test_each_sdk_takes_the_answer_of_another_model_and_of_another_provider(
    begin: BeginTurn, sdk: str
) -> None:
    turn = begin(f"of-{sdk}/first-{sdk}", agent=sdk).wait_for_switch(f"Answer of third-{sdk}.")

    assert turn.is_quiet(0.3)
    assert turn.asked() == [f"first-{sdk}", f"second-{sdk}", f"third-{sdk}"]
    assert f"key-of-by-{sdk}" in json.dumps(dict(turn.requests()[-1].headers))
    assert "key-of-of" not in json.dumps(dict(turn.requests()[-1].headers))
    assert not any(name.startswith("x-fallback") for request in turn.requests() for name in request.headers)
    assert retried(turn) == []
    assert turn.authors() == [f"first-{sdk}"]
    assert turn.user_texts() == [[PROMPT]]


def test_the_host_waits_for_the_answer_on_the_spot(begin: BeginTurn) -> None:
    turn = begin(ref("limited")).wait_for_switch("Answer of fallback.")

    assert "asked on the spot: hook/model.request" in turn.server.home.plugin_log_file.read_text()


def test_a_login_keeps_its_own_fetch(begin: BeginTurn) -> None:
    turn = begin("of-login/first-login", agent="login").wait_for_switch("Answer of second-login.")

    assert turn.asked() == ["first-login", "second-login"]
    assert {request.headers["authorization"] for request in turn.requests()} == {"Bearer of-the-login"}
    assert retried(turn) == []


def test_a_provider_with_a_login_is_asked_by_the_host_itself(begin: BeginTurn) -> None:
    turn = begin(ref("before-login"), agent="to-login").wait_for_switch("Answer of third-login.")

    assert turn.asked() == ["before-login", "third-login"]
    assert turn.requests()[-1].headers["authorization"] == "Bearer of-the-login"
    assert turn.authors()[-1] == "third-login"


def test_complaint_54_thoughts_that_a_model_signed_are_not_sent_to_another(begin: BeginTurn) -> None:
    first = begin("of-signed/thoughtful", agent="signed").wait_for_answer("Well thought.")

    turn = begin("of-signed/thoughtful", agent="signed", session=first.session, text="And now?")

    turn.wait_for_switch("Answer of after-thoughts.")
    failed, answered = turn.requests()
    assert "signed-by-the-first-model" in json.dumps(failed.body)
    assert "signed-by-the-first-model" not in json.dumps(answered.body)
    assert turn.authors()[-1] == "after-thoughts"


def test_a_subagent_goes_on_and_its_parent_gets_the_answer(
    begin: BeginTurn, provider: ScriptedProvider
) -> None:
    turn = begin(ref("parent")).wait_for_answer("All is known.")

    (answered,) = (
        request for request in provider.requests("fallback") if request.headers.get("x-parent-session-id")
    )
    assert answered.session != turn.session
    told = [message for message in turn.requests()[-1].body["messages"] if message["role"] == "tool"]
    assert "Answer of fallback." in json.dumps(told)
    assert turn.asked() == ["parent", "parent"]


def test_a_client_that_waits_for_the_answer_gets_the_fallbacks(server: OpenCodeServer) -> None:
    answer = server.answer(server.create_session(), PROMPT, ref("awaited"))

    assert (answer["info"].get("error"), answer["info"]["finish"]) == (None, "stop")
    assert [part["text"] for part in answer["parts"] if part["type"] == "text"] == ["Answer of fallback."]


def test_a_client_that_waits_for_the_answer_gets_an_error_when_all_models_fail(
    server: OpenCodeServer,
) -> None:
    answer = server.answer(server.create_session(), PROMPT, ref("refused"), agent="hopeless")

    assert answer["info"]["error"]["data"]["statusCode"] == 401
    assert "finish" not in answer["info"]


def test_run_attach_ends_with_status_0_when_all_models_fail_as_the_docs_say(
    opencode_binary: Path, server: OpenCodeServer, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """OpenCode's command looks at its request's HTTP status alone; see docs/how-to.md, `opencode run`."""
    client = OpenCodeHome(tmp_path / "client", provider, provider_each(REFUSED))

    ended = run(opencode_binary, client, ref("refused"), "--attach", server.url, "--agent", "hopeless")

    assert provider.requests("refused") or provider.requests("refused-as-well")
    assert (ended.status, ended.stdout) == (0, "")


def test_a_title_is_written_by_the_next_model(server: OpenCodeServer, provider: ScriptedProvider) -> None:
    provider.script(SMALL_MODEL, status(429))
    began = server.events.position
    session = server.create_session(title=None)

    server.prompt(session, PROMPT, ref("fallback"))

    def titled(event: Raw) -> bool:
        info: Mapping[str, Any] = event["properties"].get("info", {})
        return event["type"] == "session.updated" and info.get("title") == "Answer of fallback."

    server.events.wait_for(titled, since=began)

    # The model rests now: the next session's title is not asked of it.
    asked_before, began = len(provider.requests(SMALL_MODEL)), server.events.position
    server.prompt(server.create_session(title=None), PROMPT, ref("fallback"))
    server.events.wait_for(titled, since=began)
    assert len(provider.requests(SMALL_MODEL)) == asked_before


def test_P2_a_title_is_not_asked_for_again_after_a_stop(
    server: OpenCodeServer, provider: ScriptedProvider
) -> None:
    """OpenCode makes up a title beside the turn and goes on with it after a stop."""
    server.home.command("health", "clear", "--all")
    gate = Gate()
    provider.script(SMALL_MODEL, (gate, *status(429)))
    provider.script("held", (gate, *stream("Answer.")))
    session = server.create_session(title=None)
    server.prompt(session, PROMPT, ref("held"))
    provider.wait_for(lambda: len(provider.requests(session=session)) == len(("title", "answer")))

    server.abort(session)
    gate.open()

    # Its SDK asks again after 2 s.
    assert provider.is_quiet(session, after=2, window_s=4.0)
