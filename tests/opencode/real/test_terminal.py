"""A failing model in OpenCode's terminal UI: what the person sees, types next, stops, and leaves behind."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_run import run
from tests.loopback.opencode_terminal import OpenCodeTerminal
from tests.loopback.provider import SMALL_MODEL, ScriptedProvider
from tests.loopback.reply import Gate, Pause, Reply, status, stream
from tests.loopback.turn import PROMPT

pytestmark = [
    pytest.mark.real_host,
    # Each fixture starts a UI and waits for its cold first turn.
    pytest.mark.timeout(120),
]

FAILING: Final[Mapping[str, Reply]] = {"limited": status(429), "bad-key": status(401)}
WORDS: Final[Mapping[str, str]] = {"limited": "rate limited", "bad-key": "refused the key"}
ANSWER: Final = "Answer of the fallback."
BESIDE_A_TOAST: Final = ANSWER[:12]
"""What a toast of two lines leaves of the answer's line."""
STOP_WINDOW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Screens:
    """A terminal after a turn whose model failed, and what it showed in that turn."""

    terminal: OpenCodeTerminal
    primary: str
    while_switching: str
    when_answered: str


@dataclass(frozen=True, slots=True)
class Redirected:
    """Three prompts of a terminal whose primary was closed before the first and opened after it."""

    asked: list[str]
    first: str
    second: str
    explained: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """What came of an answer that the person stopped, and then of the UI they quit."""

    asked_before: list[str]
    asked_later: list[str]
    screen: str
    left_behind: list[int]


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    # The fallback begins late, so that what is said while switching stays on the screen.
    scripts = {model: [reply] for model, reply in FAILING.items()}
    fallback = stream(Pause(1.0), "Answer ", "of the fallback.")
    talking = stream("First words. ", Gate(), "Last words.")
    with ScriptedProvider({**scripts, "fallback": [fallback], "talking": [talking]}) as provider:
        yield provider


@contextmanager
def opened(
    root: Path, binary: Path, tmux: Path, provider: ScriptedProvider, *, primary: str, fallback: str
) -> Iterator[OpenCodeTerminal]:
    home = OpenCodeHome(root, provider, {"p": [primary], "q": [fallback]})
    home.install_plugin(f'[fallback]\nfallback_models = ["q/{fallback}"]\n')
    with OpenCodeTerminal(binary, home, tmux) as terminal:
        yield terminal


@pytest.fixture(scope="module", params=["limited", pytest.param("bad-key", marks=pytest.mark.thorough)])
def switched(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    opencode_binary: Path,
    tmux: Path,
    provider: ScriptedProvider,
) -> Iterator[Screens]:
    root = tmp_path_factory.mktemp("opencode")
    primary: str = request.param
    with opened(root, opencode_binary, tmux, provider, primary=primary, fallback="fallback") as terminal:
        terminal.prompt(PROMPT)
        yield Screens(
            terminal=terminal,
            primary=primary,
            while_switching=terminal.wait_for("Trying"),
            when_answered=terminal.wait_for(lambda screen: BESIDE_A_TOAST in screen and "Now on" in screen),
        )


@pytest.fixture(scope="module")
def stopped(
    tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path, tmux: Path, provider: ScriptedProvider
) -> Stopped:
    root = tmp_path_factory.mktemp("opencode")
    with opened(root, opencode_binary, tmux, provider, primary="limited", fallback="talking") as terminal:
        terminal.prompt(PROMPT)
        terminal.wait_for("First words.")
        session = provider.requests("talking")[0].session
        assert session is not None
        terminal.press("Escape")
        terminal.wait_for("again to interrupt")
        terminal.press("Escape")
        terminal.wait_for(lambda screen: "interrupt " not in screen)
        before = asked(provider, session)
        provider.is_quiet(session, after=len(provider.requests(session=session)), window_s=STOP_WINDOW_S)
        return Stopped(before, asked(provider, session)[len(before) :], terminal.screen, terminal.quit())


@pytest.fixture(scope="module")
def redirected(
    tmp_path_factory: pytest.TempPathFactory, opencode_binary: Path, tmux: Path, provider: ScriptedProvider
) -> Redirected:
    root = tmp_path_factory.mktemp("opencode")
    home = OpenCodeHome(root, provider, {"p": ["closed"], "q": ["fallback"]})
    home.install_plugin('[fallback]\nfallback_models = ["q/fallback"]\ncooldown = "1h"\n')
    provider.script("closed", status(429))
    run(opencode_binary, home, "p/closed")
    before = len(provider.requests())
    with OpenCodeTerminal(opencode_binary, home, tmux) as terminal:
        terminal.prompt("The first one.")
        first = terminal.wait_for("closed until")
        terminal.wait_for(ANSWER)
        provider.script("closed", stream("Answer of the primary."))
        home.command("health", "clear", "--all")
        terminal.prompt("The second one.")
        second = terminal.wait_for("Back on")
        terminal.wait_for("Answer of the primary.")
        terminal.prompt("The third one.")
        terminal.wait_for(lambda screen: screen.count("Answer of the primary.") == 2)
    models = [request.model for request in provider.requests()[before:] if request.model != SMALL_MODEL]
    return Redirected(models, first, second, home.command("explain"))


def asked(provider: ScriptedProvider, session: str | None) -> list[str]:
    """Return the models a session asked, without the one that finds its title."""
    return [request.model for request in provider.requests(session=session) if request.model != SMALL_MODEL]


def test_a_toast_says_what_failed_and_what_is_tried(switched: Screens) -> None:
    assert f"p/{switched.primary}: {WORDS[switched.primary]}" in switched.while_switching
    assert "Trying q/fallback" in switched.while_switching


def test_a_toast_says_which_model_answers(switched: Screens) -> None:
    assert "Now on q/fallback." in switched.when_answered


def test_the_prompt_is_drawn_once(switched: Screens) -> None:
    assert switched.when_answered.count(PROMPT) == 1, switched.when_answered


def test_the_next_prompt_leaves_the_cooling_primary_alone(
    switched: Screens, provider: ScriptedProvider
) -> None:
    session = provider.requests(switched.primary)[-1].session

    switched.terminal.prompt("And now?")

    switched.terminal.wait_for(lambda screen: screen.count(ANSWER) == 2)
    assert asked(provider, session) == [switched.primary, "fallback", "fallback"]


def test_escape_while_the_fallback_answers_is_final(stopped: Stopped) -> None:
    assert (stopped.asked_before, stopped.asked_later) == (["limited", "talking"], [])
    assert "Last words." not in stopped.screen


def test_quitting_leaves_no_process_behind(stopped: Stopped) -> None:
    assert stopped.left_behind == []


def test_P4_a_redirect_at_the_first_prompt_is_said_with_its_reason(redirected: Redirected) -> None:
    # A toast breaks its lines where the words end.
    said = " ".join(redirected.first.split())
    assert "p/closed: rate limited" in said
    assert "closed until" in said


def test_P4_the_terminals_next_prompts_go_to_the_primary_once_that_is_open(redirected: Redirected) -> None:
    assert redirected.asked == ["fallback", "closed", "closed"]
    assert "Back on p/closed." in redirected.second


def test_P4_explain_names_the_redirect_and_the_way_back(redirected: Redirected) -> None:
    assert "p/closed → q/fallback" in redirected.explained
    assert "it was closed when the prompt came" in redirected.explained
    assert "back (p/closed may be asked again)" in redirected.explained


def test_P10_a_turn_whose_models_are_all_limited_goes_to_the_one_that_opens(
    tmp_path: Path, opencode_binary: Path, tmux: Path, provider: ScriptedProvider
) -> None:
    provider.script("opens", status(429, headers={"retry-after": "4"}), stream("Answer after the wait."))
    provider.script("stays-shut", status(429, headers={"retry-after": "60"}))
    with opened(
        tmp_path, opencode_binary, tmux, provider, primary="opens", fallback="stays-shut"
    ) as terminal:
        terminal.prompt(PROMPT)
        said = terminal.wait_for("First back")
        answered = terminal.wait_for("Answer after the wait.", timeout_s=30)
        session = provider.requests("opens")[0].session

    assert "All fallbacks exhausted" in said
    assert answered.count(PROMPT) == 1, answered
    assert asked(provider, session) == ["opens", "stays-shut", "opens"]
