"""`opencode run`, the command: what it prints and its exit status when its model fails."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest

from tests.loopback.dialects import anthropic
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_run import Finished, run
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import (
    Reply,
    cut,
    hang,
    hang_before_headers,
    status,
    stream,
    thinking,
    tool_call,
)

pytestmark = pytest.mark.real_host

FAILURES: Final[Mapping[str, Reply]] = {
    "limited": status(429),
    "bad-key": status(401),
    "overloaded": status(503),
    "cut": cut("Half an "),
    "hang": hang_before_headers(),
    "empty": stream(),
    "stalled": hang("Half an "),
    "only-thoughts": thinking("Let me think."),
}
BEGUN: Final = frozenset({"cut", "stalled", "only-thoughts"})
"""Failures after the first content, which no other model can take over."""
TAKEN_OVER: Final = tuple(model for model in FAILURES if model not in BEGUN)

TO_ANOTHER_PROTOCOL: Final = ("limited", "bad-key", "overloaded", "hang", "cut")

SAME, OTHER, NONE = "same", "other", "none"
"""Agents whose next model speaks the same protocol, another one, or fails as well."""

USUAL: Final = frozenset({"limited", "bad-key", "cut", "stalled"})
"""The failures of the usual tests; the thorough ones have all."""

JSON: Final = ("--format", "json")
DEADLINE_S: Final = 12


class Case(NamedTuple):
    """A run: its first model and its agent. With ``again`` it is the second of two in one home."""

    model: str
    agent: str = SAME
    options: tuple[str, ...] = ()
    again: bool = False


RUNS: Final[Mapping[str, Case]] = {
    **{f"{model}-{SAME}": Case(model) for model in FAILURES},
    **{f"{model}-{OTHER}": Case(model, OTHER, JSON) for model in TO_ANOTHER_PROTOCOL},
    "limited-none": Case("limited", NONE),
    "limited-none-json": Case("limited", NONE, JSON),
    "cut-none": Case("cut", NONE),
    "well": Case("well"),
    "bad-request": Case("bad-request"),
    "asks-first": Case("bad-key", "asking"),
    "asks-first-auto": Case("bad-key", "asking", ("--auto",)),
    "known-to-be-closed": Case("limited", again=True),
    "limited-stuck": Case("limited", "stuck"),
}
SETTINGS: Final = f"""
[fallback]
run_deadline = "{DEADLINE_S}s"
fallback_models = ["{ref("fallback")}"]

[agents.stuck]
fallback_models = ["{ref("stuck")}:high"]

[agents.{OTHER}]
fallback_models = ["{ref("of-anthropic")}"]

[agents.{NONE}]
fallback_models = ["{ref("none")}", "{ref("none")}-mistyped", "of-nobody/unknown"]

[agents.asking]
fallback_models = ["{ref("asking")}:high"]

[models."{ref("hang")}"]
first_token_timeout = "3s"

[models."{ref("stalled")}"]
stall_timeout = "1s"
"""


Runs: TypeAlias = Callable[[str], tuple[Finished, list[str]]]


def mostly_thorough(models: Iterable[str]) -> list[object]:
    return [pytest.param(model, marks=[] if model in USUAL else [pytest.mark.thorough]) for model in models]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path) -> Runs:
    """Carry each run out once, in a home and with a provider of its own."""

    @cache
    def one(name: str) -> tuple[Finished, list[str]]:
        case = RUNS[name]
        replies = {
            **FAILURES,
            "well": stream("All ", "well."),
            "bad-request": status(400),
            "fallback": stream("Answer of the ", "fallback."),
            "of-anthropic": anthropic("Answer of the fallback."),
            "none": status(401),
            "stuck": hang_before_headers(),
        }
        with ScriptedProvider({name: [reply] for name, reply in replies.items()}) as provider:
            provider.script(
                "asking",
                tool_call("bash", {"command": "echo ran >> ran", "description": "Leaves a line"}),
                stream("Answer of the fallback."),
            )
            home = OpenCodeHome(
                tmp_path_factory.mktemp("run"),
                provider,
                provider_each([*replies, "asking"]),
                {
                    "agent": {
                        name: {"mode": "primary", "description": "Own chain."}
                        for name in (OTHER, NONE, "stuck")
                    }
                    | {"asking": {"mode": "primary", "description": "Asks.", "permission": {"bash": "ask"}}}
                },
                npm={"of-of-anthropic": "@ai-sdk/anthropic"},
            )
            home.install_plugin(SETTINGS)
            agent = "build" if case.agent == SAME else case.agent
            before = 0
            if case.again:
                run(opencode_binary, home, ref(case.model), "--agent", agent)
                before = len(provider.requests())
            done = run(opencode_binary, home, ref(case.model), "--agent", agent, *case.options)
            tool_ran = ["tool ran"] if (home.directory / "ran").exists() else []
            return done, [request.model for request in provider.requests()[before:]] + tool_ran

    return one


@pytest.mark.parametrize("model", mostly_thorough(FAILURES))
def test_a_failed_run_ends_with_the_next_models_answer_and_status_0(finished: Runs, model: str) -> None:
    done, asked = finished(f"{model}-{SAME}")

    assert (done.status, done.answer) == (0, "Answer of the fallback."), done
    assert asked == [model, "fallback"]


@pytest.mark.parametrize("model", mostly_thorough(TAKEN_OVER))
def test_what_is_answered_inline_looks_like_a_run_that_never_failed(finished: Runs, model: str) -> None:
    done, _ = finished(f"{model}-{SAME}")

    assert done.stdout == "Answer of the fallback.\n"
    assert "Error" not in done.stderr


@pytest.mark.parametrize("model", mostly_thorough(TO_ANOTHER_PROTOCOL))
def test_a_model_of_another_protocol_answers_at_the_end_of_the_run(finished: Runs, model: str) -> None:
    done, asked = finished(f"{model}-{OTHER}")

    assert done.status == 0, done
    assert asked == [model, "of-anthropic"]
    assert done.lines("text")[-1]["part"]["text"] == "Answer of the fallback."
    assert done.lines("step_finish")[-1]["part"]["reason"] == "stop"


def test_a_model_that_an_earlier_process_found_closed_is_not_asked(finished: Runs) -> None:
    done, asked = finished("known-to-be-closed")

    assert (done.status, done.stdout) == (0, "Answer of the fallback.\n"), done
    assert asked == ["fallback"]


def test_complaint_29_a_run_that_nobody_answers_ends_at_its_deadline_and_says_so(finished: Runs) -> None:
    done, asked = finished("limited-stuck")

    assert done.status == 1, done
    assert asked == ["limited", "stuck"]
    assert f"within {DEADLINE_S} s" in done.stderr


def test_when_all_models_fail_the_run_says_why_and_ends_with_status_1(finished: Runs) -> None:
    done, asked = finished("limited-none")

    assert (done.status, done.stdout) == (1, ""), done
    assert asked == ["limited", "none"]
    assert all(ref(model) in done.stderr for model in ("limited", "none"))


def test_P9_a_run_that_nobody_answers_gives_each_model_of_the_chain_its_reason(finished: Runs) -> None:
    done, _ = finished("limited-none")

    printed = done.stderr[done.stderr.index("Error: no model") :].strip().splitlines()
    assert printed[0] == "Error: no model of the chain answered:"
    assert f"{ref('none')}: refused the key (401)" in printed
    assert f"{ref('none')}-mistyped: unknown to the host" in printed
    assert "of-nobody/unknown: its provider is disabled or not connected" in printed
    assert any(line.startswith(f"{ref('limited')}: rate limited (429), rests until ") for line in printed)
    assert printed[-1].startswith(f"First back: {ref('limited')} at ")


@pytest.mark.parametrize("model", mostly_thorough(TAKEN_OVER))
def test_P19_a_run_that_another_model_answers_says_so_on_one_line(finished: Runs, model: str) -> None:
    done, _ = finished(f"{model}-{SAME}")

    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Model fallback: ")]
    assert line.startswith(f"Model fallback: Now on {ref('fallback')}. {ref(model)}: ")


@pytest.mark.parametrize("model", mostly_thorough(TO_ANOTHER_PROTOCOL))
def test_P19_a_turn_that_is_replayed_after_its_run_says_so_on_one_line(finished: Runs, model: str) -> None:
    done, _ = finished(f"{model}-{OTHER}")

    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Model fallback: ")]
    assert line.startswith(f"Model fallback: Now on {ref('of-anthropic')}. {ref(model)}: ")


@pytest.mark.parametrize("case", [f"cut-{SAME}", f"cut-{OTHER}", "cut-none"])
def test_an_answer_that_was_cut_off_is_said_to_be(finished: Runs, case: str) -> None:
    done, _ = finished(case)

    assert f"{ref('cut')}: answer was cut off, rests until " in done.stderr
    assert "unreachable" not in done.stderr


def test_P19_a_run_on_its_own_model_says_nothing(finished: Runs) -> None:
    done, _ = finished("well")

    assert "Model fallback" not in done.stderr


def test_half_an_answer_that_nobody_finishes_is_no_success(finished: Runs) -> None:
    done, asked = finished("cut-none")

    assert done.status == 1, done
    assert asked == ["cut", "none"]


@pytest.mark.thorough
def test_all_failing_is_told_in_json_as_well(finished: Runs) -> None:
    done, _ = finished("limited-none-json")

    assert done.status == 1
    assert ref("none") in done.lines("error")[-1]["error"]["data"]["message"]


def test_a_good_run_is_left_alone(finished: Runs) -> None:
    done, asked = finished("well")

    assert (done.status, done.stdout, asked) == (0, "All well.\n", ["well"]), done


def test_a_bad_request_ends_the_run_as_it_would_without_us(finished: Runs) -> None:
    done, asked = finished("bad-request")

    assert (done.status, asked) == (1, ["bad-request"]), done
    assert "Invalid value" in done.stderr


def test_permissions_are_rejected_at_the_end_of_a_run_as_before_it(finished: Runs) -> None:
    done, asked = finished("asks-first")

    assert "tool ran" not in asked
    assert asked[:2] == ["bad-key", "asking"]
    assert "auto-rejecting" in done.stderr


@pytest.mark.thorough
def test_permissions_are_given_with_auto(finished: Runs) -> None:
    done, asked = finished("asks-first-auto")

    assert (done.status, done.answer) == (0, "Answer of the fallback."), done
    assert asked == ["bad-key", "asking", "asking", "tool ran"]
