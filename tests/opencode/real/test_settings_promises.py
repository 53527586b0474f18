"""What the settings of a fallback promise, in the real OpenCode, one after the other on one server."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from tests.loopback.event_log import Raw, toast_of
from tests.loopback.opencode_home import provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import hang, status, stream
from tests.opencode.real.conftest import BeginTurn, StartServer

pytestmark = pytest.mark.real_host

CASES: Final = (
    "enabled",
    "paid",
    "allowed",
    "attempts",
    "quiet",
    "advance",
    "worded",
    "unworded",
    "rested",
    "agent",
    "sticky",
    "returning",
)
MODELS: Final = [*(f"bad-{case}" for case in CASES), "bad-too", "first", "second"]
QUIET_S: Final = 1.0

Set: TypeAlias = Callable[[str], None]


@pytest.fixture(scope="module")
def server(start_server: StartServer, provider: ScriptedProvider) -> OpenCodeServer:
    for model in MODELS:
        provider.script(model, status(401))
    provider.script("bad-advance", hang("Half "))
    for case in ("worded", "unworded"):
        provider.script(f"bad-{case}", status(400, "The parcel is late: come back"))
    for case in ("sticky", "returning"):
        provider.script(f"bad-{case}", status(401), stream("Its own answer."))
    provider.script("first", stream("Answer of the first."))
    provider.script("second", stream("Answer of the second."))
    server = start_server(models=provider_each(MODELS), settings="[fallback]\n")
    server.warm_up(f"of-{MODELS[0]}")
    return server


def _says_in_force(event: Raw) -> bool:
    toast = toast_of(event)
    return toast is not None and toast["message"] == "Settings in force."


@pytest.fixture
def set_to(server: OpenCodeServer) -> Set:
    """Return what writes the table `[fallback]` and waits until the host says that it is in force.

    Of settings that are the same as before it says nothing: each test has its own.
    """

    def set_to(text: str) -> None:
        began = server.events.position
        server.home.write_settings(f"[fallback]\n{text}\n")
        server.events.wait_for(_says_in_force, since=began)  # a note of an earlier test's turn may come first

    return set_to


def closed(server: OpenCodeServer, model: str) -> dict[str, Any]:
    """Return what is known of a closed model."""
    (entry,) = (each for each in json.loads(server.home.command("health", "--json")) if each["name"] == model)
    found: dict[str, Any] = entry
    return found


def chain(*models: str) -> str:
    return f"fallback_models = [{', '.join(models)}]"


FIRST: Final = f'"{ref("first")}"'
SECOND: Final = f'"{ref("second")}"'
PAID_FIRST: Final = f'{{ model = "{ref("first")}", paid = true }}'


def test_P8_enabled_false_leaves_failures_to_the_host(begin: BeginTurn, set_to: Set) -> None:
    set_to(f"enabled = false\n{chain(FIRST)}")

    turn = begin(ref("bad-enabled")).wait_for_error()

    assert turn.is_quiet(QUIET_S)
    assert turn.asked() == ["bad-enabled"]
    assert turn.toasts() == []


@pytest.mark.parametrize(
    ("case", "allowed", "answers"),
    [("paid", "false", "second"), ("allowed", "true", "first")],
)
def test_P8_a_paid_model_is_taken_only_if_allowed(
    begin: BeginTurn, set_to: Set, case: str, allowed: str, answers: str
) -> None:
    set_to(f"allow_paid = {allowed}\n{chain(PAID_FIRST, SECOND)}")

    turn = begin(ref(f"bad-{case}")).wait_for_switch(f"Answer of the {answers}.")

    assert turn.asked() == [f"bad-{case}", answers]


def test_P8_max_attempts_ends_a_turn_and_says_what_was_not_asked(
    server: OpenCodeServer, begin: BeginTurn, set_to: Set
) -> None:
    bad_too = f'"{ref("bad-too")}"'
    set_to(f"max_attempts = 1\n{chain(bad_too, FIRST)}")

    turn = begin(ref("bad-attempts"))

    toast = server.events.wait_for_toast("error", since=turn.began)
    assert turn.asked() == ["bad-attempts", "bad-too"]
    assert toast["message"].splitlines() == [
        f"{ref('bad-attempts')}: refused the key (401)",
        f"{ref('bad-too')}: refused the key (401)",
        f"{ref('first')}: not asked, max_attempts is used up",
    ]


def test_P8_notify_false_switches_without_a_word(begin: BeginTurn, set_to: Set) -> None:
    set_to(f"notify = false\n{chain(FIRST)}")

    turn = begin(ref("bad-quiet")).wait_for_answer("Answer of the first.")

    assert turn.is_quiet(QUIET_S)
    assert turn.asked() == ["bad-quiet", "first"]
    assert turn.toasts() == []


def test_P8_on_foreign_abort_advance_goes_on_after_somebody_elses_stop(begin: BeginTurn, set_to: Set) -> None:
    set_to(f'on_foreign_abort = "advance"\n{chain(FIRST)}')

    turn = begin(ref("bad-advance")).wait_for_delta("Half ")
    turn.stop()

    turn.wait_for_switch("Answer of the first.")
    assert turn.asked() == ["bad-advance", "first"]


def test_P8_a_rule_of_the_user_says_what_a_providers_own_words_mean(
    server: OpenCodeServer, begin: BeginTurn, set_to: Set
) -> None:
    set_to(
        f"{chain(FIRST)}\n[[fallback.rules]]\npattern = 'PARCEL .* late'\nkind = 'quota'\nscope = 'model'\n"
    )

    turn = begin(ref("bad-worded")).wait_for_switch("Answer of the first.")

    assert turn.asked() == ["bad-worded", "first"]
    entry = closed(server, "bad-worded")
    assert (entry["reason"], entry["scope"]) == ("quota", "model")


def test_P8_without_a_rule_the_same_words_are_a_refused_request(begin: BeginTurn, set_to: Set) -> None:
    set_to(f"rules = []\nmax_attempts = 9\n{chain(FIRST)}")

    turn = begin(ref("bad-unworded")).wait_for_error()

    assert turn.is_quiet(QUIET_S)
    assert turn.asked() == ["bad-unworded"]


def test_P8_a_models_own_cooldown_goes_before_that_of_all(
    server: OpenCodeServer, begin: BeginTurn, set_to: Set
) -> None:
    set_to(f'cooldown = "30m"\n{chain(FIRST)}\n[models."{ref("bad-rested")}"]\ncooldown = "2h"\n')

    begin(ref("bad-rested")).wait_for_switch("Answer of the first.")

    (entry,) = (
        each
        for each in json.loads(server.home.command("health", "--json"))
        if each["provider"] == "of-bad-rested"
    )
    assert round(entry["until"] - entry["closed_at"]) == 2 * 60 * 60


def test_P8_an_agents_own_model_stands_before_its_chain(begin: BeginTurn, set_to: Set) -> None:
    set_to(f"{chain(FIRST)}\n[agents.Plan]\nmodel = {SECOND}\n{chain(FIRST)}\n")

    turn = begin(ref("bad-agent"), agent="plan").wait_for_switch("Answer of the second.")

    assert turn.asked() == ["bad-agent", "second"]


@pytest.mark.parametrize("case", ["sticky", "returning"])
def test_P8_only_a_sticky_session_stays_on_its_fallback_once_the_first_model_is_open(
    server: OpenCodeServer, begin: BeginTurn, set_to: Set, case: str
) -> None:
    is_sticky = case == "sticky"
    answer = "Answer of the first." if is_sticky else "Its own answer."
    set_to(f"sticky = {str(is_sticky).lower()}\n{chain(FIRST)}")
    turn = begin(ref(f"bad-{case}")).wait_for_switch("Answer of the first.")
    server.home.command("health", "clear", f"of-bad-{case}")

    later = begin(ref(f"bad-{case}"), session=turn.session).wait_for_answer(answer)

    assert later.asked() == ["first" if is_sticky else f"bad-{case}"]
