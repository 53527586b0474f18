"""Which model a prompt runs on while the primary cools, and afterwards."""

import json
from typing import Any

import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.decisions import _plain
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.redirect import moved_sessions
from fallback_plugin.fallback.state import Moved
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.model_catalog import read_catalog
from tests.fallback.stage import PRIMARY, A, B, Stage, api_error, settings


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


@pytest.mark.parametrize("current", [PRIMARY, A])
def test_a_prompt_without_a_model_goes_where_the_host_means_it_to_go(current: ModelRef) -> None:
    """An agent's own model, or the one that takes the place of a model that is gone."""
    stage, own = after_a_switch(), ModelRef("fake", "planner")
    if current == PRIMARY:
        stage.now += 60
        stage.choose(None, resolved=PRIMARY)
    assert stage.choose(None, resolved=own, agent="plan") in (None, own)
    assert stage.choose(None, resolved=own, agent="plan") in (None, own)


def test_it_is_kept_from_that_model_while_it_is_closed() -> None:
    stage, own = after_a_switch(), ModelRef("fake", "planner")
    stage.close(own, stage.now + 60)
    assert stage.choose(None, resolved=own, agent="plan") == A
    stage.now += 60
    assert stage.choose(None, resolved=own, agent="plan") in (None, own)


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
    stage.choose(PRIMARY)
    assert stage.choose(A) is None
    stage.now += 60
    assert stage.choose(A) is None
    assert [toast.title for toast in stage.toasts] == ["Model chosen"]


def test_another_model_picked_by_the_person_is_taken_as_it_is() -> None:
    stage = after_a_switch()
    other = ModelRef("fake", "other")
    assert stage.choose(other) is None
    assert stage.state.state is not None
    assert stage.state.state.original == other


def test_a_closed_model_is_asked_only_where_a_moved_session_picks_it() -> None:
    moved = after_a_switch()
    moved.close(B, moved.now + 60)
    assert moved.choose(B) is None

    new = Stage(Engine(settings(("spare/a", "third/b"))))
    new.close(B, new.now + 60)
    assert new.choose(B) == A


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
    stage.close(A, stage.now + 60)
    assert stage.choose(PRIMARY) == B
    assert stage.state.state is not None
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


def test_a_redirected_turn_moves_on_along_the_chain_there_is_now() -> None:
    """The fallback in use was the last of the old chain; of the new one it is the first."""
    stage = Stage(Engine(settings(chain=("third/b", "spare/a"))))
    stage.close(B, stage.now + 30)
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    stage.fail_over("msg_3", A)
    stage.idle()
    stage.now += 30
    stage.engine.settings = settings(chain=("spare/a", "third/b"))

    assert stage.choose(PRIMARY) == A
    stage.user("msg_5", A)
    stage.answer("msg_6", A, parent="msg_5")
    stage.retry()
    stage.aborted()

    assert stage.asked == [A, B]


def test_a_primary_that_fails_again_after_its_return_starts_the_chain_anew() -> None:
    stage = after_a_switch()
    stage.now += 60
    stage.choose(PRIMARY)
    stage.user("msg_5", PRIMARY)
    stage.answer("msg_6", parent="msg_5")
    stage.retry()
    stage.aborted()
    assert stage.asked == [A]


def begun_while_closed(**changes: Any) -> Stage:
    """A new session whose first prompt came while the primary was closed; the fallback answered it."""
    stage = Stage(Engine(settings(**changes)))
    stage.close(PRIMARY, stage.now + 60)
    assert stage.choose(PRIMARY, message="msg_1") == A
    stage.user("msg_1", A)
    stage.answer("msg_2", A)
    stage.content("msg_2")
    stage.idle()
    return stage


class TestP4:
    """A redirect is said, is remembered as ours, and ends when the primary is open."""

    def test_P4_a_redirect_is_said_with_its_reason_and_its_end(self) -> None:
        (toast,) = begun_while_closed().toasts
        assert toast.variant == "warning"
        assert toast.message.startswith("fake/primary: rate limited, closed until ")
        assert toast.message.endswith(". Asking spare/a meanwhile.")

    def test_P4_a_redirect_is_a_decision(self) -> None:
        stage = begun_while_closed()
        (record,) = [each for each in stage.all(effects.Record) if each.decision == "redirect"]
        assert record.why is not None
        assert (record.why.failed, record.why.taken, record.why.failure.kind) == (PRIMARY, A, "rate_limit")
        assert [(each.model, each.until) for each in record.why.passed_over] == [(PRIMARY, 1_000_060.0)]

    def test_P4_a_redirect_that_goes_on_is_said_once(self) -> None:
        stage = begun_while_closed()
        stage.effects.clear()
        assert [stage.choose(PRIMARY), stage.choose(PRIMARY)] == [A, A]
        assert stage.effects == []

    @pytest.mark.parametrize("prompts", [1, 2, 5])
    def test_P4_a_redirect_that_comes_back_is_no_choice(self, prompts: int) -> None:
        stage = begun_while_closed()
        for _ in range(prompts):
            assert stage.choose(A) is None
        stage.now += 60
        stage.effects.clear()
        assert [stage.choose(A) for _ in range(prompts)] == [PRIMARY] * prompts
        assert [toast.title for toast in stage.toasts] == ["Model recovered"]

    def test_P4_a_variant_that_the_host_leaves_out_is_no_choice_either(self) -> None:
        stage = Stage(Engine(settings(("spare/a:high",))))
        stage.close(PRIMARY, stage.now + 60)
        assert stage.choose(PRIMARY) == ModelRef("spare", "a", "high")
        stage.now += 60
        assert stage.choose(A) == PRIMARY

    def test_P4_so_is_one_of_a_switch_in_the_midst_of_a_turn(self) -> None:
        stage = after_a_switch()
        stage.now += 60
        assert stage.choose(A) == PRIMARY

    def test_P4_once_the_host_has_asked_for_the_primary_the_fallback_is_a_choice(self) -> None:
        stage = begun_while_closed()
        stage.now += 60
        assert stage.choose(A) == PRIMARY
        assert stage.choose(PRIMARY) is None
        assert stage.choose(A) is None
        assert stage.choose(A) is None
        assert stage.state.state is not None
        assert stage.state.state.original == A

    def test_P4_the_fallback_picked_while_the_primary_is_closed_stays_and_that_is_said(self) -> None:
        stage = begun_while_closed()
        stage.choose(PRIMARY)
        assert stage.choose(A) is None
        assert stage.toasts[-1].message == "Staying on spare/a. Pick fake/primary to go back."
        stage.now += 60
        assert stage.choose(A) is None

    def test_P4_another_model_ends_it(self) -> None:
        stage = begun_while_closed()
        assert stage.choose(B) is None
        assert stage.choose(A) is None
        stage.now += 60
        assert stage.choose(A) is None

    def test_P4_each_stand_in_of_a_chain_counts(self) -> None:
        stage = begun_while_closed()
        stage.close(A, stage.now + 60)
        assert stage.choose(A) == B
        assert stage.choose(B) is None
        stage.now += 61
        assert stage.choose(B) == PRIMARY

    def test_P4_a_new_process_knows_from_the_decisions_where_a_session_was_moved_from(self) -> None:
        before = begun_while_closed()
        written = [json.loads(json.dumps(_plain(each, 0.0))) for each in before.all(effects.Record)]
        after = Stage(health=before.health, now=before.now)
        after.engine.remember_moved(moved_sessions(written))
        assert after.choose(A) is None
        after.now += 61
        assert after.choose(A) == PRIMARY
        assert [toast.title for toast in after.toasts] == ["Model recovered"]

    def test_P4_a_replay_that_another_process_sends_is_no_selection_of_the_hosts(self) -> None:
        """`opencode run` sends a deferred turn again through an instance of its own."""
        why = {"turn": "msg_1", "failed": "fake/primary", "taken": "spare/a"}
        moved = [{"session": "ses_1", "decision": "switch", "why": why}]
        after = Stage()
        after.engine.remember_moved(moved_sessions(moved))
        assert after.choose(A, "msg_1") is None
        assert after.toasts == []
        assert after.choose(A, "msg_5") == PRIMARY

    @pytest.mark.parametrize("ended_by", ["back", "chosen by the user"])
    def test_P4_a_session_that_came_back_is_none_of_those(self, ended_by: str) -> None:
        why = {"failed": "fake/primary", "taken": "spare/a"}
        moved = {"session": "ses_1", "decision": "redirect", "why": why}
        assert set(moved_sessions([moved])) == {"ses_1"}
        assert moved_sessions([moved, {"session": "ses_1", "decision": ended_by}]) == {}

    def test_P4_a_chain_of_switches_leads_back_to_its_beginning(self) -> None:
        steps = [("fake/primary", "spare/a"), ("spare/a", "third/b")]
        decisions = [
            {"session": "ses_1", "decision": "switch", "why": {"failed": failed, "taken": taken}}
            for failed, taken in steps
        ]
        assert moved_sessions(decisions) == {"ses_1": {None: Moved(PRIMARY, (A, B))}}
        to_primary = {"failed": "third/b", "taken": "fake/primary"}
        decisions.append({"session": "ses_1", "decision": "switch", "why": to_primary})
        assert moved_sessions(decisions) == {}

    @pytest.mark.parametrize("of_plan", [PRIMARY, ModelRef("fake", "planner")])
    def test_P4_a_turn_of_another_agent_makes_it_no_choice(self, of_plan: ModelRef) -> None:
        stage = begun_while_closed()
        assert stage.choose(of_plan, agent="plan") == (A if of_plan == PRIMARY else None)
        assert stage.choose(A) is None
        stage.now += 60
        assert stage.choose(A) == PRIMARY
        assert stage.choose(of_plan, agent="plan") is None

    @pytest.mark.parametrize("sticky", [True, False])
    def test_P4_sticky_sessions_stay(self, *, sticky: bool) -> None:
        stage = begun_while_closed(sticky=sticky)
        stage.now += 60
        assert stage.choose(A) == (None if sticky else PRIMARY)

    @pytest.mark.parametrize("sticky", [True, False])
    def test_sticky_sessions_stay_in_a_new_process_on_the_stand_in_that_was_in_use(
        self, *, sticky: bool
    ) -> None:
        stage = Stage(Engine(settings(("spare/a", "third/b"), sticky=sticky)))
        stage.engine.remember_moved({"ses_1": {None: Moved(PRIMARY).on(B).on(A).on(B)}})
        assert stage.choose(None, resolved=PRIMARY) == (B if sticky else None)


NOPE = ModelRef("zz", "nope")


def before_an_unknown_model(*, primary: ModelRef | None) -> Stage:
    """A session on a host that does not list `NOPE`, moved from ``primary`` to A, or new."""
    stage = after_a_switch() if primary else Stage(Engine(settings()))
    stage.engine.catalog = read_catalog(
        {"providers": [{"id": each.provider, "models": {each.model: {}}} for each in (PRIMARY, A, B)]}
    )
    return stage


def fail_as_unknown(stage: Stage) -> None:
    """A turn on `NOPE`, answered by the first model of the chain."""
    assert stage.choose(NOPE, message="msg_5") is None
    stage.user("msg_5", NOPE)
    stage.answer("msg_6", NOPE, parent="msg_5")
    stage.error(api_error(404, "model not found"))
    stage.aborted()
    stage.accepted()
    assert stage.prompts[-1].model != NOPE
    stage.user("msg_5", stage.prompts[-1].model)
    stage.answer("msg_7", stage.prompts[-1].model, parent="msg_5")
    stage.content("msg_7")
    stage.idle()


class TestUnlisted:
    @pytest.mark.parametrize("wait_s", [0, 3600])
    @pytest.mark.parametrize("primary", [PRIMARY, None])
    def test_an_unlisted_model_is_nothing_to_come_back_to(
        self, primary: ModelRef | None, wait_s: float
    ) -> None:
        stage = before_an_unknown_model(primary=primary)
        fail_as_unknown(stage)
        stage.now += wait_s
        expected = None if primary is None else PRIMARY if wait_s else A
        assert [stage.choose(None), stage.choose(None)] == [expected, expected]

    def test_an_unlisted_model_that_is_named_again_is_redirected(self) -> None:
        stage = before_an_unknown_model(primary=PRIMARY)
        fail_as_unknown(stage)
        taken = stage.choose(NOPE, message="msg_8")
        assert taken in (A, B)
        assert stage.choose(PRIMARY, message="msg_9") == A

    def test_a_quiet_session_keeps_its_primary_while_an_unlisted_model_is_asked(self) -> None:
        stage = before_an_unknown_model(primary=PRIMARY)
        stage.choose(PRIMARY, message="msg_4")
        stage.engine.session("ses_1").state.move("build", A)  # type: ignore[union-attr]  # there is one
        fail_as_unknown(stage)
        stage.now += 3600
        stage.engine.prune(stage.now)
        assert stage.engine.session("ses_1") is None
        assert stage.choose(A) == PRIMARY

    def test_a_new_process_does_not_go_back_to_an_unlisted_model(self) -> None:
        stage = before_an_unknown_model(primary=None)
        stage.engine.remember_moved({"ses_1": {None: Moved(NOPE, (A,))}})
        assert stage.choose(A) is None

    def test_a_primary_that_is_no_longer_listed_is_not_gone_back_to(self) -> None:
        stage = before_an_unknown_model(primary=PRIMARY)
        stage.engine.catalog = read_catalog(
            {"providers": [{"id": each.provider, "models": {each.model: {}}} for each in (A, B)]}
        )
        stage.now += 3600
        assert stage.choose(None) == A
