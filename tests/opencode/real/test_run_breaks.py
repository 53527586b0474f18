"""`opencode run` whose answer breaks off after it has begun: the run ends, and the next model answers."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest

from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_run import Finished, run
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import (
    Close,
    Gate,
    Pause,
    Reply,
    closed_early,
    cut,
    error_object,
    hang,
    reset,
    status,
    stream,
)

pytestmark = pytest.mark.real_host

READ: Final = Pause(2.0)
"""Time for the host to read the text: it drops what it has not read of a connection that breaks."""

BREAKS: Final[Mapping[str, Reply]] = {
    "cut": cut("Half an "),
    "cut-in-chunks": cut("Half an ", chunked=True),
    "reset": reset("Half an ", READ),
    "reset-in-chunks": reset("Half an ", READ, chunked=True),
    "closed-early": closed_early("Half an ", READ),
    "error": error_object("Half an ", READ),
    "error-in-chunks": error_object("Half an ", chunked=True),
    "error-and-no-end": (*error_object("Half an ", chunked=True)[:-1], Gate(), Close()),
    "stalled": hang("Half an "),
}

# An SDK whose requests OpenCode makes with nobody watching.
UNWATCHED: Final = "@ai-sdk/groq"
UNSEEN: Final[Mapping[str, Reply]] = {
    f"unseen-{name}": BREAKS[name] for name in ("cut", "error", "error-and-no-end", "stalled")
}


class Case(NamedTuple):
    """A run: its first model and the models of its chain."""

    model: str
    chain: tuple[str, ...] = ("fallback",)


RUNS: Final[Mapping[str, Case]] = {
    **{name: Case(name) for name in BREAKS},
    **{name: Case(name) for name in UNSEEN},
    "unseen-limited": Case("unseen-limited"),
    "then-limited": Case("reset-in-chunks", ("limited", "fallback")),
    "then-breaks": Case("cut", ("closed-early", "fallback")),
    "then-cut": Case("closed-early", ("cut", "fallback")),
    "then-stalled": Case("closed-early", ("stalled", "fallback")),
    "then-nobody": Case("closed-early", ("limited",)),
    "then-none-of-two": Case("cut", ("limited", "limited-too")),
    "then-none-finishes": Case("closed-early", ("cut", "error")),
    "whole": Case("whole"),
}
ANSWERED: Final = [name for name, case in RUNS.items() if case.chain[-1] == "fallback" and name != "whole"]
USUAL: Final = ("cut", "reset-in-chunks", "unseen-error", "then-limited", "then-none-of-two")
REPLIES: Final[Mapping[str, Reply]] = {
    **BREAKS,
    **UNSEEN,
    "unseen-limited": status(429),
    "limited": status(429, headers={"retry-after": "3600"}),
    "limited-too": status(429, headers={"retry-after": "3600"}),
    "fallback": stream("Answer of the ", "fallback."),
    "whole": (*closed_early("All ", "well.", finish="stop")[:-1], READ, Close(early=True)),
}
SWITCHED: Final = re.compile(r": switched \((.*)\)$", re.MULTILINE)


class Ran(NamedTuple):
    """What a run printed, whom it asked, and what was written down of answers by another model."""

    done: Finished
    asked: list[str]
    switched: list[str]

    @property
    def notes(self) -> list[str]:
        return [line for line in self.done.stderr.splitlines() if line.startswith("Model fallback: ")]


Runs: TypeAlias = Callable[[str], Ran]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path) -> Runs:
    """Carry each run out once, in a home and with a provider of its own."""

    @cache
    def one(name: str) -> Ran:
        case = RUNS[name]
        with ScriptedProvider({name: [reply] for name, reply in REPLIES.items()}) as provider:
            home = OpenCodeHome(
                tmp_path_factory.mktemp("run"),
                provider,
                provider_each(list(REPLIES)),
                npm={f"of-{name}": UNWATCHED for name in REPLIES if name.startswith("unseen-")},
            )
            home.install_plugin(_settings(case.chain))
            done = run(opencode_binary, home, ref(case.model))
            switched = SWITCHED.findall(home.plugin_log_file.read_text())
            return Ran(done, [request.model for request in provider.requests()], switched)

    return one


def _settings(chain: Sequence[str]) -> str:
    models = ", ".join(f'"{ref(model)}"' for model in chain)
    stalling = [f'[models."{ref(model)}"]\nstall_timeout = "1s"\n' for model in REPLIES if "stalled" in model]
    return "\n".join([f"[fallback]\nfallback_models = [{models}]\n", *stalling])


def mostly_thorough(names: Iterable[str]) -> list[object]:
    return [pytest.param(name, marks=[] if name in USUAL else [pytest.mark.thorough]) for name in names]


@pytest.mark.parametrize("name", mostly_thorough(ANSWERED))
def test_each_model_is_asked_once_and_the_run_ends_with_the_last_ones_answer(ran: Runs, name: str) -> None:
    case = RUNS[name]
    done, asked, _ = ran(name)

    assert asked == [case.model, *case.chain]
    assert (done.status, done.answer) == (0, "Answer of the fallback."), done


@pytest.mark.parametrize("name", mostly_thorough(ANSWERED))
def test_only_the_model_that_answered_is_said_to_be_in_use(ran: Runs, name: str) -> None:
    result = ran(name)

    (note,) = result.notes
    assert note.startswith(f"Model fallback: Now on {ref('fallback')}. ")
    assert result.switched == [ref("fallback")]


@pytest.mark.parametrize("model", mostly_thorough(BREAKS))
def test_the_error_that_is_printed_says_that_the_turn_goes_on(ran: Runs, model: str) -> None:
    done = ran(model).done

    (error,) = [line for line in done.stderr.splitlines() if "Error: " in line]
    assert error.endswith("The model failed. fallback-plugin goes on."), done


@pytest.mark.parametrize("name", mostly_thorough(["then-nobody", "then-none-of-two", "then-none-finishes"]))
def test_what_nobody_finishes_is_no_success_and_no_model_is_said_to_be_in_use(ran: Runs, name: str) -> None:
    case = RUNS[name]
    result = ran(name)

    assert (result.done.status, result.asked) == (1, [case.model, *case.chain]), result.done
    assert (result.notes, result.switched) == ([], [])


def test_each_model_that_did_not_answer_has_its_own_reason(ran: Runs) -> None:
    printed = ran("then-none-of-two").done.stderr

    assert f"{ref('cut')}: answer was cut off, rests until " in printed
    # Another process saw this one fail; this process knows it from the health they share, without the status.
    assert f"{ref('limited')}: rate limited before, rests until " in printed
    assert f"{ref('limited-too')}: rate limited (429), rests until " in printed


def test_an_answer_that_was_whole_when_its_connection_broke_stands(ran: Runs) -> None:
    result = ran("whole")

    assert (result.done.status, result.done.answer, result.asked) == (0, "All well.", ["whole"]), result.done
