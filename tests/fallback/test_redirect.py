"""Which model a prompt runs on while the primary cools, and afterwards."""

from typing import Any

import pytest

from fallback_plugin.fallback.engine import Engine
from fallback_plugin.model_ref import ModelRef
from tests.fallback.stage import PRIMARY, A, B, Stage, settings


def after_a_switch(**changes: Any) -> Stage:
    """A session whose primary failed in the first turn; the fallback answered it."""
    stage = Stage(Engine(settings(**changes)))
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    stage.fail_over("msg_3", A)
    stage.idle()
    stage.effects.clear()
    return stage


@pytest.mark.parametrize("requested", [PRIMARY, None])
def test_while_the_primary_cools_a_prompt_goes_to_the_fallback_in_use(requested: ModelRef | None) -> None:
    assert after_a_switch().choose(requested) == A


@pytest.mark.parametrize("requested", [PRIMARY, None])
def test_once_the_primary_is_usable_the_session_goes_back_and_says_so(requested: ModelRef | None) -> None:
    stage = after_a_switch()
    stage.now += 60
    chosen = stage.choose(requested)
    assert chosen in (None, PRIMARY)
    assert (chosen is None) == (requested == PRIMARY)
    assert [toast.message for toast in stage.toasts] == ["Back on fake/primary."]


def test_the_return_is_not_said_to_a_person_who_wants_no_notes() -> None:
    stage = after_a_switch(notify=False)
    stage.now += 60
    stage.choose()
    assert stage.toasts == []


def test_a_session_that_never_failed_is_left_alone() -> None:
    stage = Stage()
    stage.user()
    assert stage.choose() is None


def test_switched_off_nothing_is_redirected() -> None:
    stage = after_a_switch()
    stage.engine.settings = settings(enabled=False)
    assert stage.choose() is None


def test_our_own_replay_is_left_alone() -> None:
    stage = after_a_switch()
    assert stage.choose(PRIMARY, message="msg_1") is None


def test_our_own_prompt_under_a_new_id_is_no_choice_of_the_persons() -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    stage.aborted()
    stage.accepted()
    assert stage.choose(A, message="msg_9") is None
    assert stage.state.state is not None
    assert (stage.state.state.original, stage.state.state.index) == (PRIMARY, 0)


def test_nothing_is_redirected_while_a_failure_is_being_answered() -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    assert stage.choose(PRIMARY) is None
    assert stage.choose(B) is None
    assert stage.state.state is not None
    assert stage.state.state.current == PRIMARY


def test_the_fallback_picked_by_the_person_becomes_the_primary() -> None:
    stage = after_a_switch()
    assert stage.choose(A) is None
    stage.now += 60
    assert stage.choose(A) is None
    assert stage.toasts == []


def test_another_model_picked_by_the_person_is_taken_as_it_is() -> None:
    stage = after_a_switch()
    other = ModelRef("fake", "other")
    assert stage.choose(other) is None
    assert stage.state.state is not None
    assert stage.state.state.original == other


def test_when_the_fallback_in_use_cools_as_well_the_next_usable_one_is_taken() -> None:
    stage = after_a_switch()
    stage.user("msg_5", A)
    stage.answer("msg_6", A, parent="msg_5")
    stage.retry()
    stage.aborted()
    stage.accepted()
    stage.user("msg_5", B)
    stage.answer("msg_7", B, parent="msg_5")
    stage.content("msg_7")
    stage.idle()
    assert stage.choose(PRIMARY) == B


def test_with_every_model_cooling_the_prompt_runs_where_it_was_sent() -> None:
    stage = after_a_switch(chain=("spare/a",))
    stage.user("msg_5", A)
    stage.answer("msg_6", A, parent="msg_5")
    stage.retry()
    stage.idle()
    assert stage.choose(PRIMARY) is None


def test_a_redirect_the_host_did_not_take_is_undone() -> None:
    stage = after_a_switch()
    assert stage.state.state is not None
    stage.state.state.mark_failed(A, usable_at=stage.now + 60)
    assert stage.choose(PRIMARY) == B
    stage.user("msg_5", PRIMARY)
    assert stage.state.state.current == PRIMARY
    assert stage.state.state.pending is None


def test_a_redirected_turn_that_fails_moves_on_along_the_chain() -> None:
    stage = after_a_switch()
    assert stage.choose(PRIMARY) == A
    stage.user("msg_5", A)
    stage.answer("msg_6", A, parent="msg_5")
    stage.retry()
    stage.aborted()
    assert stage.asked == [B]


def test_a_primary_that_fails_again_after_its_return_starts_the_chain_anew() -> None:
    stage = after_a_switch()
    stage.now += 60
    stage.choose(PRIMARY)
    stage.user("msg_5", PRIMARY)
    stage.answer("msg_6", parent="msg_5")
    stage.retry()
    stage.aborted()
    assert stage.asked == [A]
