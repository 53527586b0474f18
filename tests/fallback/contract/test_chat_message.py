"""Which model a new message runs on.

Expressed anew: our own replay is known by the turn's message id and by a switch in progress, not by flags;
and a return to the primary is for a message that begins, so that one sent while a fallback is still awaited
goes where the session will be by then. A redirect changes nothing until the host has taken it.

Shown elsewhere (``tests/fallback/test_redirect.py``): return after the cooldown and its note, the fallback
while it lasts, no note where none is wanted, nothing while a failure is answered, a model picked by the
person, the fallback picked as the primary, no state, switched off, our own replay, a redirect that was not
taken.
"""

import pytest

from fallback_plugin.fallback.engine import Engine
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage
from tests.fallback.turns import answered, answering, awaiting, next_turn, rate_limited, running

COOLDOWN_S = 60.0


@pytest.mark.parametrize(("early_s", "chosen"), [(1.0, A), (0.0, None)])
def test_the_primary_comes_back_at_the_very_end_of_its_cooldown(
    early_s: float, chosen: ModelRef | None
) -> None:
    stage = answered()
    stage.now = stage.health.view(stage.now).closed_until(PRIMARY) - early_s
    assert stage.choose(PRIMARY) == chosen


def test_no_return_while_a_failure_is_being_answered() -> None:
    stage = rate_limited()
    stage.now += COOLDOWN_S
    assert stage.choose(PRIMARY) is None
    assert stage.state.switch is not None
    assert stage.toasts == []


def test_while_the_fallbacks_first_word_is_awaited_the_next_message_goes_to_it_too() -> None:
    assert awaiting().choose(PRIMARY) == A


def test_a_return_while_a_fallback_is_awaited_does_not_lose_that_turns_next_model() -> None:
    stage = awaiting()
    stage.now += COOLDOWN_S
    stage.choose(PRIMARY)
    stage.retry()
    stage.aborted()
    assert stage.asked == [A, B]


def test_on_the_primary_nothing_is_chosen_or_said() -> None:
    stage = answered()
    stage.now += COOLDOWN_S
    stage.choose(PRIMARY)
    stage.user("msg_5", PRIMARY)
    stage.effects.clear()
    assert stage.choose(PRIMARY) is None
    assert stage.toasts == []


def test_the_return_is_said_once() -> None:
    stage = answered()
    stage.now += COOLDOWN_S
    stage.choose(PRIMARY)
    stage.user("msg_5", PRIMARY)
    stage.choose(PRIMARY)
    assert [toast.title for toast in stage.toasts] == ["Model recovered"]


def test_a_return_the_host_did_not_make_is_undone() -> None:
    stage = answered()
    stage.now += COOLDOWN_S
    stage.choose(None)
    stage.user("msg_5", A)
    assert stage.state.state is not None
    assert (stage.state.state.original, stage.state.state.current) == (PRIMARY, A)


def test_a_fallback_picked_by_the_person_is_not_taken_away_when_the_old_primary_is_usable() -> None:
    stage = answered()
    stage.choose(PRIMARY)
    stage.choose(A)
    stage.now += COOLDOWN_S
    assert stage.choose(None) == A
    assert stage.state.state is not None
    assert stage.state.state.original == A


def test_nothing_is_adopted_while_a_failure_is_being_answered() -> None:
    stage = rate_limited()
    stage.choose(A)
    assert stage.state.state is not None
    assert stage.state.state.original == PRIMARY


def test_a_model_picked_by_hand_begins_with_a_fresh_count() -> None:
    stage = answered()
    stage.choose(ModelRef("fake", "picked"))
    assert stage.state.state is not None
    assert (stage.state.state.index, stage.state.state.attempts, stage.state.state.pending) == (-1, 0, None)


def test_a_model_picked_by_hand_keeps_what_is_known_to_cool() -> None:
    stage = answered()
    picked = ModelRef("fake", "picked")
    stage.choose(picked)
    stage.user("msg_5", picked)
    assert stage.state.state is not None
    assert stage.state.state.cooling(PRIMARY, stage.now)


def test_another_model_asked_for_in_the_midst_of_a_retry_wait_changes_nothing() -> None:
    stage = rate_limited()
    stage.choose(B)
    stage.aborted()
    stage.accepted()
    assert stage.asked == [A]
    assert stage.state.state is not None
    assert stage.state.state.current == A


@pytest.mark.parametrize("model", [A, PRIMARY])
def test_our_replay_on_its_way_through_the_hook_is_left_alone(model: ModelRef) -> None:
    stage = rate_limited()
    stage.aborted()
    assert stage.choose(model, message="msg_1") is None
    stage.accepted()
    assert stage.choose(model, message="msg_1") is None


def test_names_with_more_than_one_slash_are_told_apart() -> None:
    stage = rate_limited(chain=("router/vendor/a", "router/vendor/b"))
    nested = ModelRef("router", "vendor/a")
    stage.fail_over("msg_3", nested)
    stage.idle()
    assert stage.choose(PRIMARY) == nested


def test_a_running_primary_is_left_alone() -> None:
    assert running().choose(PRIMARY) is None


def test_a_prompt_that_names_no_model_in_a_new_session_is_left_alone() -> None:
    assert Stage().choose(None) is None


def test_after_the_users_stop_their_next_message_still_avoids_the_cooling_primary() -> None:
    stage = answering()
    stage.error(ABORTED)
    stage.idle()
    assert stage.choose(PRIMARY) == A


def test_the_chain_of_the_messages_agent_counts() -> None:
    made = {"fallback": {"fallback_models": ["spare/a"], "first_token_timeout": 0}}
    stage = Stage(
        Engine(Settings.model_validate({**made, "agents": {"build": {"fallback_models": ["third/b"]}}}))
    )
    stage.close(PRIMARY, stage.now + COOLDOWN_S)
    assert stage.choose(PRIMARY) == B


def test_a_fallback_that_failed_later_is_not_the_one_to_go_to() -> None:
    stage = next_turn(answered())
    stage.retry()
    stage.aborted()
    stage.accepted()
    assert stage.choose(PRIMARY) == B
