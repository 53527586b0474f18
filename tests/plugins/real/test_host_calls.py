"""Every call that a plugin may make of its host, made by a user's plugin in each real host."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.attach.attach_process import AttachProcess
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.calling_plugin import NAME, CallingPlugin, Refused
from tests.loopback.host_server import HostServer
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, hang, hang_before_headers, status, stream

pytestmark = [pytest.mark.real_host, pytest.mark.timeout(120)]

BRIDGE, ATTACH, OWN = "bridge", "attach", "agent"
MODELS: Final[dict[str, Reply]] = {
    "answers": stream("The ", "answer."),
    "broken": status(401),
    "flows": hang("Half "),
    "silent": hang_before_headers(),
    "stand-in": stream("The answer of ", "the stand-in."),
}
UNKNOWN: Final = "ses_00000000000000000000000000"


@dataclass(frozen=True, slots=True)
class CalledHost:
    """A running host with the plugin in it."""

    kind: str
    server: HostServer[Any]
    plugin: CallingPlugin
    provider: ScriptedProvider
    log: Callable[[], str]

    def call(self, name: str, *arguments: object) -> Any:
        """Have the plugin make a call."""
        return self.plugin.call(name, *arguments)

    def refusal(self, name: str, *arguments: object) -> Refused:
        """Have the plugin make a call that is refused, and return how."""
        with pytest.raises(Refused) as raised:
            self.call(name, *arguments)
        return raised.value

    def answered(self, model: str = "answers", text: str = "Who answers?") -> str:
        """Return a new session with a turn that has ended, well or not."""
        session = self.server.create_session()
        self.server.answer(session, text, ref(model))
        return session

    def flowing(self) -> str:
        """Return a new session whose model has begun to answer and goes on."""
        session, began = self.server.create_session(), self.server.events.position
        self.server.prompt(session, "Who answers?", ref("flows"))
        self.server.events.wait_for(
            lambda event: (
                event["type"] == "message.part.delta" and event["properties"]["sessionID"] == session
            ),
            since=began,
        )
        return session

    def texts(self, session: str) -> list[str]:
        """Return the texts of a session, oldest first, as the host shows them."""
        return [
            part["text"]
            for message in self.server.messages(session)
            for part in message["parts"]
            if part["type"] == "text"
        ]


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def prompt(model: str, words: str = "Who answers?", **more: object) -> dict[str, object]:
    return {"model": ref(model), "parts": [text(words)], **more}


def ids(server: HostServer[Any], session: str) -> list[str]:
    return [message["info"]["id"] for message in server.messages(session)]


@pytest.fixture(scope="module", params=[BRIDGE, pytest.param(ATTACH, marks=pytest.mark.thorough), OWN])
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path
) -> Iterator[CalledHost]:
    kind: str = request.param
    folder, root = tmp_path_factory.mktemp("plugins"), tmp_path_factory.mktemp("host")
    settings = f'[fallback]\nswitching = "inline"\n[plugins]\nblock = ["fallback"]\ndirs = ["{folder}"]\n'
    with ExitStack() as running:
        provider = running.enter_context(ScriptedProvider({name: [reply] for name, reply in MODELS.items()}))
        plugin = running.enter_context(CallingPlugin(folder))
        if kind == OWN:
            own = AgentHome(root, provider, provider_each(MODELS), settings)
            yield CalledHost(
                kind, running.enter_context(AgentServer(own)), plugin, provider, own.output_file.read_text
            )
            return
        home = OpenCodeHome(root, provider, provider_each(MODELS))
        log: Callable[[], str] = home.plugin_log_file.read_text
        if kind == BRIDGE:
            home.install_plugin(settings)
        else:
            home.write_settings(settings)
        server = running.enter_context(OpenCodeServer(opencode_binary, home))
        if kind == ATTACH:
            attached = AttachProcess(server.url, environment=home.environment, directory=home.directory)
            running.enter_context(attached)
            log = lambda: "\n".join(attached.log)  # noqa: E731 -- the other hosts' is a method
        server.warm_up("of-answers")
        yield CalledHost(kind, server, plugin, provider, log)


def test_P8_what_a_host_says_of_itself(host: CalledHost) -> None:
    kinds = {BRIDGE: "serve", ATTACH: "attach", OWN: "agent"}

    assert host.call("about") == [kinds[host.kind], str(host.server.home.directory)]


def test_P8_session_tells_the_parent_and_the_agent(host: CalledHost) -> None:
    parent = host.answered()
    url = f"{host.server.url}/session"
    child = httpx2.post(url, json={"parentID": parent, "title": "A child"}).raise_for_status().json()["id"]

    assert host.call("session", parent) == {"id": parent, "parent_id": None, "agent": "build"}
    assert host.call("session", child)["parent_id"] == parent


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("session", []),
        ("messages", []),
        ("prompt", [prompt("answers")]),
        ("run_turn", [prompt("answers"), 20]),
        ("revert", ["msg_none"]),
        ("unrevert", []),
        ("delete_message", ["msg_none"]),
        ("give_up", ["build"]),
    ],
)
def test_P8_a_session_that_there_is_not_is_refused(
    host: CalledHost, call: str, arguments: list[object]
) -> None:
    assert host.refusal(call, UNKNOWN, *arguments).status == 404


def test_P8_nothing_runs_in_a_session_that_there_is_not(host: CalledHost) -> None:
    host.call("abort", UNKNOWN)


def test_P8_messages_are_the_history_from_its_beginning(host: CalledHost) -> None:
    session = host.answered()
    host.server.answer(session, "And now?", ref("broken"))

    history = host.call("messages", session)

    assert [message["info"]["id"] for message in history] == ids(host.server, session)
    assert [part["text"] for each in history for part in each["parts"] if part["type"] == "text"] == [
        "Who answers?",
        "The answer.",
        "And now?",
    ]
    assert history[1]["info"]["model"] == {"provider": "of-answers", "model": "answers", "variant": None}
    assert history[3]["info"]["error"]["status_code"] == 401


def test_P8_models_are_those_that_the_host_may_ask(host: CalledHost) -> None:
    listed = host.call("models")["providers"]

    assert {f"of-{model}" for model in MODELS} <= set(listed)
    assert "answers" in listed["of-answers"]


def test_P8_a_prompt_is_accepted_and_answered_by_the_model_it_names(host: CalledHost) -> None:
    session, began = host.server.create_session(), host.server.events.position

    host.call("prompt", session, prompt("answers", "A plugin's words.", agent="build"))

    host.server.wait_for_answer(session, "The answer.", since=began)
    assert host.texts(session) == ["A plugin's words.", "The answer."]


def test_P8_a_failed_turn_is_run_again_in_place(host: CalledHost) -> None:
    session = host.answered("broken")
    question, began = ids(host.server, session)[0], host.server.events.position

    host.call("prompt", session, {"model": ref("answers"), "message_id": question})

    host.server.wait_for_answer(session, "The answer.", since=began)
    assert host.texts(session) == ["Who answers?", "The answer."]
    assert ids(host.server, session)[0] == question


def test_P8_run_turn_returns_the_answer_once_it_is_whole(host: CalledHost) -> None:
    session = host.server.create_session()

    answer = host.call("run_turn", session, prompt("answers"), 20)

    assert [part["text"] for part in answer["parts"] if part["type"] == "text"] == ["The answer."]
    assert not host.server.is_busy(session)


def test_P8_run_turn_returns_a_failed_answer_with_its_error(host: CalledHost) -> None:
    session = host.server.create_session()

    answer = host.call("run_turn", session, prompt("broken"), 20)

    assert answer["info"]["error"]["status_code"] == 401


def test_P8_run_turn_waits_no_longer_than_its_deadline_and_the_turn_goes_on(host: CalledHost) -> None:
    session = host.server.create_session()

    refusal = host.refusal("run_turn", session, prompt("silent"), 1)

    assert (refusal.kind, refusal.status) == ("HostCallTimeoutError", None)
    assert "within 1 s" in str(refusal)
    assert host.server.is_busy(session)
    host.server.abort(session)


def test_P8_abort_returns_once_the_run_is_over(host: CalledHost) -> None:
    session = host.flowing()

    host.call("abort", session)

    assert not host.server.is_busy(session)
    assert host.server.messages(session)[-1]["info"]["error"]["name"] == "MessageAbortedError"
    host.call("abort", session)


def test_P8_revert_hides_a_turn_and_unrevert_shows_it_again(host: CalledHost) -> None:
    session = host.answered()
    host.server.answer(session, "And now?", ref("answers"))
    second = ids(host.server, session)[2]

    host.call("revert", session, second)
    host.call("unrevert", session)
    host.call("unrevert", session)
    assert host.texts(session) == ["Who answers?", "The answer.", "And now?", "The answer."]

    host.call("revert", session, second)
    host.server.answer(session, "Something else?", ref("answers"))
    assert host.texts(session) == ["Who answers?", "The answer.", "Something else?", "The answer."]


def test_P8_delete_message_takes_one_message_out(host: CalledHost) -> None:
    session = host.answered()
    host.server.answer(session, "And now?", ref("answers"))
    first = ids(host.server, session)[0]

    host.call("delete_message", session, first)
    host.call("delete_message", session, first)

    assert host.texts(session) == ["The answer.", "And now?", "The answer."]


def test_P8_a_running_session_keeps_its_messages(host: CalledHost) -> None:
    session = host.flowing()
    question = ids(host.server, session)[0]

    for call, arguments in (("revert", [question]), ("unrevert", []), ("delete_message", [question])):
        refusal = host.refusal(call, session, *arguments)
        assert refusal.status == 409, call
        assert "busy" in str(refusal)

    host.server.abort(session)
    assert host.texts(session)[0] == "Who answers?"


@pytest.mark.parametrize("agent", ["build", None])
def test_P8_give_up_leaves_a_silent_model_for_the_one_a_plugin_names(
    host: CalledHost, agent: str | None
) -> None:
    session, began = host.server.create_session(), host.server.events.position
    host.server.prompt(session, "Who answers?", ref("silent"))
    host.provider.wait_for(lambda: bool(host.provider.requests("silent", session=session)))

    if host.kind == ATTACH:
        refusal = host.refusal("give_up", session, agent)
        assert refusal.status == 404
        assert "attach does not see the requests" in str(refusal)
        host.server.abort(session)
        return
    host.call("give_up", session, agent)

    host.server.wait_for_answer(session, "The answer of the stand-in.", since=began)
    assert [session, ref("silent"), "silent"] in host.call("attempts")


def test_P8_there_is_nothing_to_give_up_in_an_idle_session(host: CalledHost) -> None:
    refusal = host.refusal("give_up", host.answered(), "build")

    assert refusal.status == 404
    assert "no request is under way" in str(refusal) or host.kind == ATTACH


def test_P8_a_toast_is_shown_as_it_was_written(host: CalledHost) -> None:
    began = host.server.events.position
    shown = {"title": "A plugin", "message": "Its words.", "variant": "warning"}

    host.call("toast", {**shown, "duration_s": 2.5})

    assert host.server.events.wait_for_toast("warning", since=began) == {**shown, "duration": 2500}


def test_P8_work_that_fails_is_logged_with_the_name_of_its_plugin(host: CalledHost) -> None:
    host.call("start_work")
    host.call("about")

    assert "this work fails on purpose" in host.log()
    assert NAME in host.log()
