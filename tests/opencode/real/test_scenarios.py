"""The 21 scenarios every fallback for OpenCode is measured by, in the real OpenCode."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pytest

from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import (
    Gate,
    Pause,
    Reply,
    cut,
    error_object,
    hang_before_headers,
    status,
    stream,
    thinking,
    tool_call,
)
from tests.loopback.turn import PROMPT, Turn
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

TOOL_COMMAND: Final = "echo ran >> tool-runs"
PRIMARIES: Final[Mapping[str, tuple[Reply, ...]]] = {
    "limited": (status(429),),
    "limited-for-an-hour": (status(429, headers={"retry-after": "3600"}),),
    "overloaded": (status(503),),
    "bad-key": (status(401),),
    "unpaid": (status(402),),
    "unknown": (status(404),),
    "error-object": (error_object(),),
    "cut": (cut("Half an "),),
    "hang": (hang_before_headers(),),
    "empty": (stream(),),
    "empty-at-limit": (stream(finish="length"),),
    "thoughts-at-limit": (thinking("Hm, ", "hm.", finish="length"),),
    "empty-at-odd-end": (stream(finish="model_context_window_exceeded"),),
    "before-empty": (thinking("Hm.", finish="length"),),
    "half-at-limit": (stream("Half an ", "answer.", finish="length"),),
    "bad-request": (status(400),),
    "before-limited": (status(429),),
    "before-bad-key": (status(429),),
    "before-none": (status(429),),
    "before-talking": (status(429),),
    "bad-key-before-talking": (status(401),),
    "stopped-at-retry": (status(429),),
    "stopped-in-switching": (status(429),),
    "stopped-when-settled": (status(429),),
    "cooling": (status(429),),
    "after-tool": (
        tool_call("bash", {"command": TOOL_COMMAND, "description": "Leaves a line"}),
        status(429),
    ),
    "before-slow": (status(429),),
    "bad-key-before-slow": (status(401),),
}
FALLBACKS: Final[Mapping[str, Reply]] = {
    "fallback-a": stream("Answer ", "of a."),
    "fallback-b": stream("Answer ", "of b."),
    "limited-too": status(429),
    "bad-key-too": status(401),
    "none-a": status(429),
    "none-b": status(429),
    "empty-too": stream(finish="length"),
    "talking": stream("First ", Pause(0.3), "second ", Gate(), "words."),
    "slow": stream(Pause(1.5), "Answer ", "of the slow one."),
    "silent": hang_before_headers(),
}
CHAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "then-limited": ("limited-too", "fallback-b"),
    "then-bad-key": ("bad-key-too", "fallback-b"),
    "then-none": ("none-a", "none-b"),
    "then-empty": ("empty-too",),
    "then-talking": ("talking", "fallback-b"),
    "then-slow": ("slow", "fallback-b"),
    "then-silent": ("silent", "fallback-b"),
}
STOP_WINDOW_S: Final = 10.0
EXHAUSTION_WINDOW_S: Final = 12.0
SETTLED_S: Final = 0.6


def settings(switching: str) -> str:
    def chain(models: tuple[str, ...]) -> str:
        return f"fallback_models = {[ref(model) for model in models]}\n"

    return "\n".join(
        [
            f'[fallback]\nswitching = "{switching}"\n' + chain(("fallback-a", "fallback-b")),
            f'[models."{ref("hang")}"]\nfirst_token_timeout = "1s"\n',
            *(f"[agents.{name}]\n{chain(models)}" for name, models in CHAINS.items()),
        ]
    )


@pytest.fixture(scope="module", params=["auto", pytest.param("inline", marks=pytest.mark.thorough)])
def switching(request: pytest.FixtureRequest) -> str:
    way: str = request.param
    return way


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider, switching: str) -> OpenCodeServer:
    for model, replies in PRIMARIES.items():
        provider.script(model, *replies)
    for model, reply in FALLBACKS.items():
        provider.script(model, reply)
    server = start_server(
        models=provider_each([*PRIMARIES, *FALLBACKS]),
        settings=settings(switching),
        config={
            "agent": {name: {"mode": "primary", "description": "Has a chain of its own."} for name in CHAINS},
            "permission": {"bash": "allow"},
        },
    )
    server.warm_up("of-limited")
    return server


@dataclass(frozen=True, slots=True)
class Watched:
    """A turn that was watched: what was asked before and meanwhile, and whether it still ran at the end."""

    turn: Turn
    before: list[str]
    later: list[str]
    still_runs: bool


@pytest.fixture(scope="module")
def watched(
    server: OpenCodeServer, provider: ScriptedProvider, switching: str
) -> Mapping[str, Future[Watched]]:
    """Play everything that has to be watched for long, side by side."""

    def begin(primary: str, agent: str = "build") -> Turn:
        return Turn.begin(server, provider, ref(primary), agent=agent)

    def watch(play: Callable[[], Turn], *, requests: int = 0, window_s: float = STOP_WINDOW_S) -> Watched:
        turn = play()
        before = turn.asked()
        provider.is_quiet(turn.session, after=len(before) + requests, window_s=window_s)
        seen = Watched(turn, before, turn.asked()[len(before) :], server.is_busy(turn.session))
        turn.stop()
        return seen

    def talking(primary: str) -> Turn:
        return begin(primary, "then-talking").wait_for_delta("second ")

    def stopped_in_switching() -> Turn:
        if switching == "auto":
            return begin("stopped-at-retry").wait_for_retry().stop()
        turn = begin("stopped-in-switching", "then-silent")
        provider.wait_for(lambda: turn.asked()[1:] == ["silent"])
        return turn.stop()

    plays: Mapping[str, Callable[[], Turn]] = {
        "bad-request": lambda: begin("bad-request").wait_for_error(),
        "before-talking": lambda: talking("before-talking").stop(),
        "bad-key-before-talking": lambda: talking("bad-key-before-talking").stop(),
        "stopped-in-switching": stopped_in_switching,
        "stopped-when-settled": lambda: begin("stopped-when-settled").wait_for_switch("Answer of a.").stop(),
    }
    with ThreadPoolExecutor(len(plays) + 1) as pool:
        exhausted = pool.submit(
            watch, lambda: begin("before-none", "then-none"), requests=8, window_s=EXHAUSTION_WINDOW_S
        )
        return {name: pool.submit(watch, play) for name, play in plays.items()} | {"before-none": exhausted}


def assert_saved(turn: Turn, asked: list[str]) -> None:
    """Require these requests and no more, the prompt once in the transcript, and each switch said once."""
    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == asked
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning"] * (len(asked) - 1) + ["success"]
    # An answer inline stands under the name of the model that the host asked.
    assert turn.authors()[-1] == (asked[0] if is_inline(turn) else asked[-1])


def is_inline(turn: Turn) -> bool:
    return 'switching = "inline"' in turn.server.home.settings_file.read_text()


def test_scenario_01_rate_limited(begin: BeginTurn) -> None:
    turn = begin(ref("limited")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["limited", "fallback-a"])


def test_scenario_02_rate_limited_for_an_hour(begin: BeginTurn) -> None:
    turn = begin(ref("limited-for-an-hour")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["limited-for-an-hour", "fallback-a"])


def test_scenario_03_overloaded(begin: BeginTurn) -> None:
    turn = begin(ref("overloaded")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["overloaded", "fallback-a"])


def test_scenario_04_key_refused(begin: BeginTurn) -> None:
    turn = begin(ref("bad-key")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["bad-key", "fallback-a"])


def test_scenario_05_payment_required(begin: BeginTurn) -> None:
    turn = begin(ref("unpaid")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["unpaid", "fallback-a"])


def test_scenario_06_model_not_found(begin: BeginTurn) -> None:
    turn = begin(ref("unknown")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["unknown", "fallback-a"])


def test_scenario_07_error_object_in_the_stream(begin: BeginTurn) -> None:
    turn = begin(ref("error-object")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["error-object", "fallback-a"])


def test_scenario_08_stream_cut_without_a_finish_reason(begin: BeginTurn) -> None:
    turn = begin(ref("cut")).wait_for_switch("Answer of a.")

    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == ["cut", "fallback-a"]
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning", "success"]
    # Its answer had begun: that is replayed whatever is set.
    assert turn.authors()[-1] == "fallback-a"


def test_scenario_09_no_byte_at_all(begin: BeginTurn) -> None:
    turn = begin(ref("hang")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["hang", "fallback-a"])


def test_scenario_10_stop_without_text(begin: BeginTurn) -> None:
    turn = begin(ref("empty")).wait_for_switch("Answer of a.")

    assert_saved(turn, ["empty", "fallback-a"])


@pytest.mark.parametrize("primary", ["empty-at-limit", "thoughts-at-limit", "empty-at-odd-end"])
def test_P13_an_end_without_a_word_is_answered_by_the_next_model(begin: BeginTurn, primary: str) -> None:
    turn = begin(ref(primary)).wait_for_switch("Answer of a.")

    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == [primary, "fallback-a"]
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning", "success"]


def test_P13_at_the_end_of_the_chain_a_reason_is_shown(server: OpenCodeServer, begin: BeginTurn) -> None:
    turn = begin(ref("before-empty"), agent="then-empty")
    toast = server.events.wait_for_toast("error", since=turn.began)

    assert turn.asked() == ["before-empty", "empty-too"]
    assert all(ref(model) in toast["message"] for model in ("before-empty", "empty-too"))


def test_P13_an_answer_that_was_cut_at_the_limit_stays(begin: BeginTurn) -> None:
    turn = begin(ref("half-at-limit")).wait_for_answer("Half an answer.")

    assert turn.is_quiet(SETTLED_S)
    assert (turn.asked(), turn.toasts()) == (["half-at-limit"], [])


def test_scenario_11_bad_request_is_sent_to_no_other_model(watched: Mapping[str, Future[Watched]]) -> None:
    seen = watched["bad-request"].result()

    assert (seen.before, seen.later) == (["bad-request"], [])
    assert seen.turn.toasts("bad-request") == []


def test_scenario_12_the_fallback_is_rate_limited_too(begin: BeginTurn) -> None:
    turn = begin(ref("before-limited"), agent="then-limited").wait_for_switch("Answer of b.")

    assert_saved(turn, ["before-limited", "limited-too", "fallback-b"])


def test_scenario_13_the_fallback_refuses_its_key(begin: BeginTurn) -> None:
    turn = begin(ref("before-bad-key"), agent="then-bad-key").wait_for_switch("Answer of b.")

    assert_saved(turn, ["before-bad-key", "bad-key-too", "fallback-b"])


def test_scenario_14_every_model_of_the_chain_fails(watched: Mapping[str, Future[Watched]]) -> None:
    seen = watched["before-none"].result()

    asked = seen.turn.asked()
    assert asked[:3] == ["before-none", "none-a", "none-b"]
    assert len(asked) <= 8
    (toast,) = (toast for toast in seen.turn.toasts("before-none") if toast["variant"] == "error")
    assert all(ref(model) in toast["message"] for model in ("before-none", "none-a", "none-b"))
    assert "First back" in toast["message"]


def test_scenario_15_the_person_stops_the_fallbacks_answer(watched: Mapping[str, Future[Watched]]) -> None:
    seen = watched["before-talking"].result()

    assert (seen.before, seen.later) == (["before-talking", "talking"], [])
    assert not seen.still_runs


def test_scenario_15_holds_after_a_refused_key_too(watched: Mapping[str, Future[Watched]]) -> None:
    seen = watched["bad-key-before-talking"].result()

    assert (seen.before, seen.later) == (["bad-key-before-talking", "talking"], [])
    assert not seen.still_runs


def test_scenario_16_the_person_stops_in_the_switching_moment(
    watched: Mapping[str, Future[Watched]],
) -> None:
    seen = watched["stopped-in-switching"].result()

    assert seen.later == []
    assert not seen.still_runs


def test_scenario_17_the_person_stops_when_all_is_settled(watched: Mapping[str, Future[Watched]]) -> None:
    seen = watched["stopped-when-settled"].result()

    assert (seen.before, seen.later) == (["stopped-when-settled", "fallback-a"], [])


def test_scenario_18_the_next_prompt_leaves_the_cooling_primary_alone(begin: BeginTurn) -> None:
    first = begin(ref("cooling")).wait_for_switch("Answer of a.")
    assert first.is_quiet(0.6)

    second = begin(ref("cooling"), session=first.session, text="And now?").wait_for_answer("Answer of a.")

    assert second.is_quiet(SETTLED_S)
    assert second.asked() == ["fallback-a"]


def test_scenario_19_a_finished_tool_step_is_kept(begin: BeginTurn, server: OpenCodeServer) -> None:
    turn = begin(ref("after-tool")).wait_for_switch("Answer of a.")

    assert turn.is_quiet(SETTLED_S)
    assert turn.asked() == ["after-tool", "after-tool", "fallback-a"]
    assert (server.home.directory / "tool-runs").read_text() == "ran\n"
    assert turn.requests()[-1].roles[-1] == "tool"


def test_scenario_20_a_slow_fallback_is_waited_for(begin: BeginTurn) -> None:
    turn = begin(ref("before-slow"), agent="then-slow").wait_for_switch("Answer of the slow one.")

    assert_saved(turn, ["before-slow", "slow"])


def test_scenario_21_a_slow_fallback_is_waited_for_after_a_refused_key(begin: BeginTurn) -> None:
    turn = begin(ref("bad-key-before-slow"), agent="then-slow").wait_for_switch("Answer of the slow one.")

    assert_saved(turn, ["bad-key-before-slow", "slow"])
