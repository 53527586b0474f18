"""`opencode acp`, as editors start it: a prompt never ends before its answer, whatever its model does."""

import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pytest

from tests.loopback.acp_client import AcpClient, Reply
from tests.loopback.dialects import anthropic
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.provider import SMALL_MODEL, ScriptedProvider
from tests.loopback.reply import (
    Gate,
    Pause,
    cut,
    error_object,
    hang,
    hang_before_headers,
    reset,
    status,
    stream,
    thinking,
    tool_call,
)
from tests.loopback.reply import Reply as Script

pytestmark = [pytest.mark.real_host, pytest.mark.timeout(180)]

COMMAND: Final = Path(sys.executable).with_name("fallback-plugin")
ANSWER: Final = "Answer of the fallback."
FAILURES: Final[Mapping[str, Script]] = {
    "limited": status(429),
    "bad-key": status(401),
    "overloaded": status(503),
    "broken": error_object("Half an "),
    "cut": cut("Half an "),
    "reset": reset("Half an ", Pause(1.0), chunked=True),
    "hang": hang_before_headers(),
    "stalled": hang("Half an "),
    "empty": stream(),
    "only-thoughts": thinking("Let me think."),
}
SAME, OTHER, VARIANT = "build", "other", "variant"
"""Modes whose next model speaks the same protocol, another one, or is asked with a variant."""

NEXT: Final = {SAME: "fallback", OTHER: "claude", VARIANT: "varied"}
WAYS: Final = (
    "auto",
    pytest.param("inline", marks=pytest.mark.thorough),
    pytest.param("replay", marks=pytest.mark.thorough),
)
RACES: Final = 6
OPEN: Final = ("limited", "bad-key", "cut", "empty")
"""Failures after which a prompt is held until it is cancelled."""

PAUSES_S: Final = (None, 0.0, 0.02, 0.1)
"""How long after a cancel the next prompt is sent; None for both in one write."""

QUIET_S: Final = 0.7
PROMPTS: Final = 60
"""Far more than are needed until a model that rests for moments is asked again."""

OVERLAPPED: Final = {f"open-{name}-{second}": (name, second) for name in OPEN for second in ("ok", "fails")}
"""Models whose first prompt is cancelled while it is held: how they fail, and what becomes of the second."""

CHAINS: Final = {
    OTHER: [ref("claude")],
    VARIANT: [f"{ref('varied')}:high"],
    "none": [ref("none")],
    "nobody": [ref("nobody")],
    "stuck": [ref("stuck")],
    "stuck-other": [ref("stuck-claude")],
    "late": [ref("late-claude")],
    "slow": [ref("slow")],
    "slow-other": [f"{ref('slow')}:high"],
    "asking": [ref("asking")],
    "asking-other": [f"{ref('asking')}:high"],
}
ASKS: Final = {"bash": "ask"}


def settings(way: str) -> str:
    chains = "\n".join(f"[agents.{agent}]\nfallback_models = {models}" for agent, models in CHAINS.items())
    silent = "\n".join(
        f'[models."{ref(f"hang-{mode}")}"]\nfirst_token_timeout = "3s"\n'
        f'[models."{ref(f"stalled-{mode}")}"]\nstall_timeout = "1s"'
        for mode in NEXT
    )
    healthy_again = "\n".join(f'[models."{ref(f"again-{number}")}"]\ncooldown = 0' for number in range(RACES))
    open_again = "\n".join(f'[models."{ref(model)}"]\ncooldown = 0' for model in (*OVERLAPPED, "late-claude"))
    return f"""
[fallback]
switching = "{way}"
fallback_models = ["{ref("fallback")}"]
{chains}
{silent}
[models."{ref("once")}"]
cooldown = 0
{healthy_again}
{open_again}
"""


class Ended(NamedTuple):
    """A prompt that has ended: what the editor was given before that, and who was asked."""

    reply: Reply
    text: str
    asked: list[str]


class Editor:
    """An editor with its agent, and the provider that the agent asks."""

    def __init__(self, client: AcpClient, provider: ScriptedProvider) -> None:
        self.client: Final = client
        self.provider: Final = provider

    def begin(self, model: str, mode: str = SAME) -> tuple[str, Future[Reply]]:
        """Prompt a new session."""
        session = self.client.new_session(ref(model))
        self.client.set_option(session, "mode", mode)
        return session, self.client.prompt(session)

    def end(self, session: str, prompt: Future[Reply]) -> Ended:
        reply = prompt.result(90)
        return Ended(reply, self.client.text(session, until=reply.position), self.asked(session))

    def prompt(self, model: str, mode: str = SAME) -> tuple[str, Ended]:
        session, prompt = self.begin(model, mode)
        return session, self.end(session, prompt)

    def asked(self, session: str) -> list[str]:
        """Return the models that were asked for a session's turns."""
        models = (request.model for request in self.provider.requests(session=session))
        return [model for model in models if model != SMALL_MODEL]

    def wait_until_asked(self, session: str, model: str) -> None:
        self.provider.wait_for(lambda: model in self.asked(session))

    def cancelled(self, session: str, prompt: Future[Reply]) -> list[str]:
        """Cancel, check that the prompt ends so and nothing more is asked, and return who was asked."""
        self.client.cancel(session)
        reply = prompt.result(20)
        assert reply.stop_reason == "cancelled", reply.message
        asked = len(self.provider.requests(session=session))
        assert self.provider.is_quiet(session, after=asked, window_s=QUIET_S)
        assert self.client.text(session, since=reply.position) == ""
        return self.asked(session)


class Start(Protocol):
    def __call__(self, way: str, *, copies: int = 1) -> Editor: ...


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path) -> Iterator[Start]:
    """Start an agent for each way of switching when it is first wanted."""
    editors: dict[tuple[str, int], Generator[Editor]] = {}
    running: dict[tuple[str, int], Editor] = {}

    def one(way: str, copies: int) -> Generator[Editor]:
        replies = {
            **{f"{name}-{mode}": [reply] for name, reply in FAILURES.items() for mode in NEXT},
            **{f"race-{number}": [status(429)] for number in range(RACES)},
            **{f"limited-{number}": [status(429)] for number in range(13)},
            **{f"again-{number}": [status(401), stream("Primary.")] for number in range(RACES)},
            **{
                model: [FAILURES[name], stream("Primary.") if second == "ok" else FAILURES[name]]
                for model, (name, second) in OVERLAPPED.items()
            },
            "late-claude": [hang_before_headers()],
            **{f"twice-{mode}": [status(429)] for mode in NEXT},
            **{f"shown-{mode}": [status(429)] for mode in NEXT},
            "cut-none": [cut("Half an ")],
            "cut-load": [cut("Half an ")],
            "bad-request": [status(400)],
            "once": [status(429), stream("Primary.")],
            **{f"compacts-{mode}": [stream("Primary."), status(429)] for mode in (SAME, OTHER)},
            "fallback": [stream("Answer of the ", "fallback.")],
            "varied": [stream("Answer of the ", "fallback.")],
            "claude": [anthropic(ANSWER)],
            "none": [status(401)],
            "nobody": [status(401)],
            "stuck": [hang_before_headers()],
            "stuck-claude": [hang_before_headers()],
            "slow": [hang("Half of the ")],
            "asking": [
                tool_call("bash", {"command": "echo ran >> ran", "description": "Leaves a line"}),
                stream(ANSWER),
            ]
            * 2,
        }
        agents = {
            name: {"mode": "primary", "description": "Own chain.", "permission": ASKS} for name in CHAINS
        }
        npm = {f"of-{name}": "@ai-sdk/anthropic" for name in ("claude", "stuck-claude", "late-claude")}
        with ScriptedProvider(replies) as provider:
            home = OpenCodeHome(
                tmp_path_factory.mktemp("acp"), provider, provider_each(replies), {"agent": agents}, npm=npm
            )
            for scope in ("user", "project")[:copies]:
                home.install_plugin(settings(way), scope=scope)
            with AcpClient((opencode_binary, "acp"), home) as client:
                yield Editor(client, provider)

    def started(way: str, *, copies: int = 1) -> Editor:
        if (way, copies) not in running:
            editors[way, copies] = one(way, copies)
            running[way, copies] = next(editors[way, copies])
        return running[way, copies]

    yield started
    for editor in editors.values():
        editor.close()


@pytest.fixture
def editor(start: Start) -> Editor:
    return start("auto")


@pytest.fixture(scope="module")
def prompts(start: Start) -> Mapping[str, Mapping[tuple[str, str], tuple[str, Future[Reply]]]]:
    """Make every model fail for every next model, all at the same time, in one agent for each way."""

    class Begun(dict[str, Mapping[tuple[str, str], tuple[str, Future[Reply]]]]):
        def __missing__(self, way: str) -> Mapping[tuple[str, str], tuple[str, Future[Reply]]]:
            editor = start(way)
            self[way] = {
                (name, mode): editor.begin(f"{name}-{mode}", mode) for name in FAILURES for mode in NEXT
            }
            return self[way]

    return Begun()


@pytest.mark.parametrize("mode", NEXT)
@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("way", WAYS)
def test_P3_a_prompt_ends_after_the_next_models_answer(
    start: Start,
    prompts: Mapping[str, Mapping[tuple[str, str], tuple[str, Future[Reply]]]],
    way: str,
    name: str,
    mode: str,
) -> None:
    session, prompt = prompts[way][name, mode]
    ended = start(way).end(session, prompt)

    assert ended.reply.stop_reason == "end_turn", ended.reply.message
    assert ended.text.endswith(ANSWER)
    assert ended.text.count(ANSWER) == 1
    assert ended.asked == [f"{name}-{mode}", NEXT[mode]]


@pytest.mark.parametrize(("model", "last"), [("limited-0", "none"), ("cut-none", "nobody")])
def test_P3_when_all_models_fail_the_prompt_fails_with_every_reason(
    editor: Editor, model: str, last: str
) -> None:
    _, ended = editor.prompt(model, last)

    assert ended.reply.stop_reason is None
    assert all(ref(each) in ended.reply.error for each in (model, last)), ended.reply.message
    assert ended.asked == [model, last]


def test_P3_a_bad_request_ends_a_prompt_as_it_would_without_us(editor: Editor) -> None:
    _, ended = editor.prompt("bad-request")

    assert "Invalid value" in ended.reply.error
    assert ended.asked == ["bad-request"]


def test_P3_a_prompt_is_cancelled_before_a_switch(editor: Editor) -> None:
    session, prompt = editor.begin("slow")
    editor.client.wait_for_text(session, "Half of the ")

    assert editor.cancelled(session, prompt) == ["slow"]


@pytest.mark.parametrize(
    ("model", "mode", "stuck"),
    [("limited-1", "stuck", "stuck"), ("limited-2", "stuck-other", "stuck-claude")],
)
def test_P3_a_prompt_is_cancelled_in_a_switch(editor: Editor, model: str, mode: str, stuck: str) -> None:
    session, prompt = editor.begin(model, mode)
    editor.wait_until_asked(session, stuck)

    assert editor.cancelled(session, prompt) == [model, stuck]


@pytest.mark.parametrize(("model", "mode"), [("limited-3", "slow"), ("limited-4", "slow-other")])
def test_P3_a_prompt_is_cancelled_after_a_switch(editor: Editor, model: str, mode: str) -> None:
    session, prompt = editor.begin(model, mode)
    editor.client.wait_for_text(session, "Half of the ")

    assert editor.cancelled(session, prompt) == [model, "slow"]


@pytest.mark.parametrize("number", range(RACES))
def test_P3_nothing_is_asked_after_a_cancel_at_the_moment_of_a_failure(editor: Editor, number: int) -> None:
    gate = Gate()
    editor.provider.script(f"race-{number}", (gate, *status(429)))
    session, prompt = editor.begin(f"race-{number}", "stuck-other" if number % 2 else "stuck")
    editor.wait_until_asked(session, f"race-{number}")
    gate.open()
    if number >= RACES // 2:
        editor.provider.wait_for(
            lambda: editor.provider.requests(f"race-{number}")[0].last_byte_at is not None
        )

    editor.cancelled(session, prompt)


def test_P3_a_session_goes_on_after_a_cancel_in_a_switch(editor: Editor) -> None:
    session, prompt = editor.begin("limited-5", "stuck-other")
    editor.wait_until_asked(session, "stuck-claude")
    editor.cancelled(session, prompt)
    editor.client.set_option(session, "mode", SAME)
    editor.client.set_option(session, "model", ref("fallback"))

    ended = editor.end(session, editor.client.prompt(session))
    assert (ended.reply.stop_reason, ended.text) == ("end_turn", ANSWER)


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.thorough) for number in range(1, RACES))]
)
def test_P3_a_prompt_sent_as_soon_as_a_cancelled_one_has_ended_is_answered_once(
    editor: Editor, number: int
) -> None:
    """What became of the turn that was stopped while it was sent again comes when the next is under way."""
    session, prompt = editor.begin(f"again-{number}", "stuck-other")
    editor.wait_until_asked(session, "stuck-claude")
    editor.client.cancel(session)
    assert prompt.result(20).stop_reason == "cancelled"

    before = editor.client.position
    ended = editor.end(session, editor.client.prompt(session))
    assert editor.client.text(session, since=before, until=ended.reply.position) == "Primary."
    asked = editor.asked(session)
    assert asked == [f"again-{number}", "stuck-claude", f"again-{number}"]
    assert editor.provider.is_quiet(
        session, after=len(editor.provider.requests(session=session)), window_s=QUIET_S
    )


@pytest.mark.parametrize(
    ("number", "model"),
    [
        pytest.param(number, model, marks=[pytest.mark.thorough] if number % 4 else [])
        for number, model in enumerate(OVERLAPPED)
    ],
)
def test_P3_a_prompt_sent_while_a_cancelled_one_is_open_ends_with_its_own_answer(
    editor: Editor, number: int, model: str
) -> None:
    """OpenCode forgets who waits for a session's idle when an earlier prompt of it ends."""
    _, second = OVERLAPPED[model]
    pause_s = PAUSES_S[(number + number // 2) % len(PAUSES_S)]
    editor.provider.script("late-claude", hang_before_headers())
    session, cancelled = editor.begin(model, "late")
    editor.wait_until_asked(session, "late-claude")
    editor.provider.script("late-claude", anthropic(ANSWER))

    before = editor.client.position
    if pause_s is None:
        prompt = editor.client.cancel_and_prompt(session)
    else:
        editor.client.cancel(session)
        time.sleep(pause_s)  # the moment is what the test varies
        prompt = editor.client.prompt(session)

    assert cancelled.result(20).stop_reason == "cancelled"
    reply = prompt.result(40)
    assert reply.stop_reason == "end_turn", reply.message
    text = editor.client.text(session, since=before, until=reply.position)
    assert text.endswith("Primary." if second == "ok" else ANSWER)
    # A prompt that overlaps with another is not ended twice, nor is the cancelled one sent again.
    asked = [model, "late-claude", model, *(["late-claude"] if second == "fails" else [])]
    assert editor.asked(session) == asked


@pytest.mark.parametrize("mode", [SAME, OTHER])
def test_P3_two_prompts_sent_at_once_both_end(editor: Editor, mode: str) -> None:
    session = editor.client.new_session(ref(f"twice-{mode}"))
    editor.client.set_option(session, "mode", mode)

    for prompt in editor.client.prompt_twice(session):
        assert prompt.result(60).stop_reason == "end_turn"
    assert ANSWER in editor.client.text(session)


@pytest.mark.parametrize("mode", [SAME, OTHER])
def test_P3_a_prompt_sent_when_the_answer_of_the_held_one_is_shown_ends_as_well(
    editor: Editor, mode: str
) -> None:
    session, first = editor.begin(f"shown-{mode}", mode)
    editor.client.wait_for_text(session, ANSWER)
    second = editor.client.prompt(session)

    assert first.result(40).stop_reason == "end_turn"
    assert second.result(40).stop_reason == "end_turn"
    assert editor.client.text(session).count(ANSWER) == 2


def test_P3_a_held_prompt_of_a_session_that_is_closed_ends(editor: Editor) -> None:
    session, prompt = editor.begin("limited-12", "stuck-other")
    editor.wait_until_asked(session, "stuck-claude")
    editor.client.call("session/close", {"sessionId": session})

    assert prompt.result(20).stop_reason == "cancelled"


@pytest.mark.parametrize(("model", "mode"), [("limited-6", "asking"), ("limited-7", "asking-other")])
def test_P3_a_fallbacks_tool_asks_the_editor_for_permission(editor: Editor, model: str, mode: str) -> None:
    before = editor.client.position
    ran = editor.client.home.directory / "ran"
    lines = ran.read_text().count("ran") if ran.exists() else 0
    session, ended = editor.prompt(model, mode)

    assert (ended.reply.stop_reason, ended.text) == ("end_turn", ANSWER)
    assert ended.asked == [model, "asking", "asking"]
    asked = [
        message
        for message in editor.client.received(before)
        if message.get("method") == "session/request_permission"
    ]
    assert [message["params"]["sessionId"] for message in asked] == [session]
    assert ran.read_text().count("ran") == lines + 1


@pytest.mark.parametrize(("model", "mode"), [("limited-8", SAME), ("limited-9", OTHER), ("cut-load", SAME)])
def test_P3_a_session_with_a_fallback_is_loaded_and_goes_on(editor: Editor, model: str, mode: str) -> None:
    session, _ = editor.prompt(model, mode)

    shown = editor.client.load_session(session)
    texts = [
        update["content"]["text"] for update in shown if update["sessionUpdate"] == "agent_message_chunk"
    ]
    assert texts == [ANSWER]
    before = editor.client.position
    reply = editor.client.prompt(session).result(40)
    assert editor.client.text(session, since=before, until=reply.position) == ANSWER
    # The first model still rests, so it is not asked.
    assert editor.asked(session) == [model, NEXT[mode], NEXT[mode]]


def test_P3_the_next_prompt_goes_to_the_primary_once_it_is_healthy(editor: Editor) -> None:
    session, ended = editor.prompt("once")
    assert (ended.text, ended.asked) == (ANSWER, ["once", "fallback"])

    asked: list[str] = []
    while asked[-1:] != ["once"] and len(asked) < PROMPTS:
        before = editor.client.position
        reply = editor.client.prompt(session).result(40)
        asked = editor.asked(session)
    assert asked[-1] == "once"
    assert editor.client.text(session, since=before, until=reply.position) == "Primary."


@pytest.mark.parametrize("mode", [SAME, OTHER])
def test_P3_a_compaction_ends_after_the_next_models_summary(editor: Editor, mode: str) -> None:
    session, ended = editor.prompt(f"compacts-{mode}", mode)
    assert ended.text == "Primary."

    before = editor.client.position
    reply = editor.client.prompt(session, "/compact").result(60)
    assert reply.stop_reason == "end_turn", reply.message
    assert ANSWER in editor.client.text(session, since=before, until=reply.position)
    assert editor.asked(session) == [f"compacts-{mode}"] * 2 + [NEXT[mode]]


def test_P3_what_no_toast_says_is_explained_and_stands_in_the_log(editor: Editor) -> None:
    session, _ = editor.prompt("limited-10")
    home = editor.client.home

    explained = subprocess.run(
        [COMMAND, "explain", session], env=home.environment, capture_output=True, text=True, check=True
    ).stdout
    assert all(ref(model) in explained for model in ("limited-10", "fallback"))
    assert f"{session}: switch ({ref('limited-10')}: rate_limit" in home.plugin_log_file.read_text()


@pytest.mark.parametrize(("model", "mode"), [("limited-11", SAME), ("cut-other", OTHER)])
def test_P3_two_installed_copies_answer_a_failure_once(start: Start, model: str, mode: str) -> None:
    _, ended = start("auto", copies=2).prompt(model, mode)

    assert ended.text.endswith(ANSWER)
    assert ended.text.count(ANSWER) == 1
    assert ended.asked == [model, NEXT[mode]]
