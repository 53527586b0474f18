"""Whole switches, step by step, and everything that may come between the steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fallback_plugin.events import (
    AssistantMessage,
    HostError,
    Part,
    SessionAbortRequested,
    SessionCreated,
    SessionDeleted,
    StoredMessage,
    UserMessage,
)
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, Failed, Fetched, TimerFired
from fallback_plugin.fallback.engine import SESSION_LIFE_S, Engine
from fallback_plugin.hookspecs import ACTIVITY_EVERY_S, PromptRequest
from fallback_plugin.host_client import OUTDATED, STOPPED, HostKind, Receipt, SessionInfo
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error, settings


def stage_with(**changes: Any) -> Stage:
    return Stage(Engine(settings(**changes)))


def on_retry(stage: Stage, **user: Any) -> Stage:
    stage.user(**user)
    stage.answer("msg_2", agent=user.get("agent", "build"))
    stage.retry()
    return stage


def test_a_rate_limit_is_answered_by_abort_then_prompt_then_two_toasts() -> None:
    stage = on_retry(Stage())
    assert [type(effect) for effect in stage.effects if not isinstance(effect, effects.StopTimer)] == [
        effects.FetchSession,
        effects.Claim,
        effects.CloseModel,
        effects.Abort,
        effects.Record,
    ]
    stage.fail_over("msg_3", A)
    assert stage.asked == [A]
    trying, now_on = (toast.message for toast in stage.toasts)
    assert trying == "fake/primary: rate limited. Trying spare/a …"
    assert now_on.startswith("Now on spare/a.")


def test_switched_is_said_only_when_the_new_model_produced_content() -> None:
    stage = on_retry(Stage())
    stage.aborted()
    stage.accepted()
    stage.user("msg_1", A)
    stage.answer("msg_3", A)
    stage.content("msg_3", "step-start")
    assert len(stage.toasts) == 1
    stage.content("msg_3", "reasoning")
    stage.content("msg_3", "text")
    assert len(stage.toasts) == 2


def test_nothing_is_shown_when_the_person_wants_no_notes() -> None:
    stage = on_retry(stage_with(notify=False))
    stage.fail_over("msg_3", A)
    assert stage.toasts == []
    assert stage.asked == [A]


def test_the_replay_carries_everything_the_host_would_reset() -> None:
    stage = Stage()
    extra = {
        "system": "Be brief.",
        "tools": {"bash": False},
        "format": {"type": "text"},
        "agent": "plan",
    }
    on_retry(stage, **extra)
    stage.aborted()
    (prompt,) = stage.prompts
    assert (prompt.message_id, prompt.parts) == ("msg_1", ())
    assert (prompt.agent, prompt.system, prompt.tools, prompt.format) == (
        "plan",
        "Be brief.",
        {"bash": False},
        {"type": "text"},
    )


def test_the_variant_of_the_chain_entry_is_asked_for() -> None:
    stage = on_retry(stage_with(chain=("spare/a:high",)))
    stage.aborted()
    assert stage.asked == [ModelRef("spare", "a", "high")]


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429, 500, 502, 503, 504, 529])
def test_a_status_another_model_may_mend_is_answered(status: int) -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.error(api_error(status))
    stage.aborted()
    assert stage.asked == [A]


@pytest.mark.parametrize("status", [400, 413, 422, 451])
def test_a_status_no_other_model_mends_sends_nothing(status: int) -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.error(api_error(status))
    stage.idle()
    stage.answer("msg_2", error=api_error(status))
    assert stage.all(effects.Abort) == []
    assert stage.toasts == []


def test_a_persons_policy_goes_before_ours() -> None:
    stage = stage_with(policy={"rate_limit": "stop", "bad_request": "fallback"})
    on_retry(stage)
    assert stage.all(effects.Abort) == []
    stage.error(api_error(400))
    assert len(stage.all(effects.Abort)) == 1


def test_an_unknown_text_is_left_to_the_hosts_first_retry() -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry("Something odd happened")
    assert stage.all(effects.Abort) == []
    stage.retry("Something odd happened", attempt=2)
    assert len(stage.all(effects.Abort)) == 1


def test_an_agents_own_chain_goes_before_the_global_one() -> None:
    made = Settings.model_validate(
        {
            "fallback": {"fallback_models": ["spare/a"], "first_token_timeout": 0},
            "agents": {"plan": {"fallback_models": ["third/b"]}},
        }
    )
    stage = Stage(Engine(made))
    on_retry(stage, agent="plan")
    stage.aborted()
    assert stage.asked == [B]


def test_without_a_chain_it_is_said_once_and_nothing_is_sent() -> None:
    stage = on_retry(stage_with(chain=()))
    stage.retry(attempt=2)
    assert [toast.title for toast in stage.toasts] == ["No fallback configured"]
    assert stage.all(effects.Abort) == []


def test_switched_off_it_does_nothing() -> None:
    stage = on_retry(stage_with(enabled=False))
    assert stage.effects == []


def test_a_long_retry_after_closes_the_model_until_then() -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry(next_in=3600)
    stage.aborted()
    stage.accepted()
    assert stage.last(effects.CloseModel).until == pytest.approx(stage.now + 3600)


@pytest.mark.parametrize(
    ("attempt", "next_in", "closed_s"),
    [(1, 3.0, 3.0), (1, 20.0, 20.0), (1, 2.4, 60.0), (2, 5.0, 60.0), (2, 6.0, 6.0), (5, 40.0, 60.0)],
)
def test_P6_a_wait_that_is_not_the_hosts_own_is_the_providers(
    attempt: int, next_in: float, closed_s: float
) -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry(next_in=next_in, attempt=attempt)
    assert stage.last(effects.CloseModel).until == pytest.approx(stage.now + closed_s)


@pytest.mark.parametrize(
    ("headers", "closed_s"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "59"}, 59.0),
        ({"retry-after": "0.2"}, 1.0),
        ({"retry-after-ms": "50"}, 1.0),
        ({"retry-after": "7200"}, 7200.0),
        ({}, 60.0),
    ],
)
@pytest.mark.parametrize("cooldown", ["60s", "0s"])
def test_P6_what_the_provider_says_counts_in_place_of_the_cooldown(
    headers: dict[str, str], closed_s: float, cooldown: str
) -> None:
    stage = stage_with(cooldown=cooldown)
    stage.user()
    stage.answer("msg_2")
    stage.error(api_error(429, responseHeaders=headers))
    closed = [effect.until - stage.now for effect in stage.all(effects.CloseModel)]
    assert closed == ([] if cooldown == "0s" and not headers else [pytest.approx(closed_s)])


def test_the_hosts_own_retry_delays_do_not_lengthen_the_cooldown() -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.retry(next_in=40, attempt=5)
    stage.aborted()
    stage.accepted()
    assert stage.last(effects.CloseModel).until == pytest.approx(stage.now + 60)


def test_the_exhaustion_toast_names_each_reason_and_what_opens_first() -> None:
    stage = on_retry(stage_with(chain=("spare/a",)))
    stage.fail_over("msg_3", A)
    stage.error(api_error(401))
    said = stage.toasts[-1]
    assert said.title == "All fallbacks exhausted"
    assert [line.partition(", rests until ")[0] for line in said.message.splitlines()[:2]] == [
        "fake/primary: rate limited",
        "spare/a: refused the key (401)",
    ]
    assert "First back: fake/primary at " in said.message


def test_a_message_is_newer_than_a_turn_that_was_heard_of_late() -> None:
    """After a restart what the host has shown meanwhile comes at once, later than it was so."""
    stage = Stage()
    at = stage.now * 1000
    stage.now += 5
    stage.answer("msg_2", time={"created": at})
    stage.content("msg_2", "step-finish")
    stage.answer("msg_2", finish="stop", time={"created": at, "completed": at + 1})
    stage.user("msg_3", time={"created": at + 2000})
    stage.answer("msg_4", parent="msg_3", time={"created": at + 2001})
    assert stage.state.turn is not None
    assert stage.state.turn.message_id == "msg_3"


def cut_step(stage: Stage, message: str, model: ModelRef) -> None:
    """Let a step of a model end without a reason, after which OpenCode asks it again at once."""
    stage.began(message, model)
    stage.content(message)
    stage.answer(message, model, finish="unknown")


def test_a_step_that_ends_without_a_reason_is_said_to_be_cut_off() -> None:
    stage = stage_with(chain=("spare/a",))
    stage.user()
    cut_step(stage, "msg_2", PRIMARY)
    stage.aborted()
    assert stage.toasts[-1].message == f"{PRIMARY}: answer was cut off. Trying {A} …"


class TestCutWithNoModelLeft:
    def exhausted(self) -> Stage:
        stage = on_retry(stage_with(chain=("spare/a",)))
        stage.aborted()
        stage.accepted()
        return stage

    def test_its_run_is_ended_once(self) -> None:
        stage = self.exhausted()
        before = len(stage.all(effects.Abort))
        cut_step(stage, "msg_3", A)
        stage.answer("msg_4", A, finish="unknown")
        assert stage.toasts[-1].title == "All fallbacks exhausted"
        assert len(stage.all(effects.Abort)) == before + 1
        assert stage.asked == [A]

    def test_our_end_of_it_is_not_taken_for_the_users_stop(self) -> None:
        stage = self.exhausted()
        cut_step(stage, "msg_3", A)
        stage.error(ABORTED)
        stage.idle()
        stage.finish(stage.last(effects.Abort))
        assert "user stopped" not in [each.decision for each in stage.all(effects.Record)]

    def test_it_is_ended_also_where_the_host_had_waited_before(self) -> None:
        stage = self.exhausted()
        stage.began("msg_3", A)
        stage.retry()
        before = len(stage.all(effects.Abort))
        stage.busy()
        stage.answer("msg_3", A, finish="unknown")
        assert len(stage.all(effects.Abort)) == before + 1

    def test_a_message_that_waits_behind_it_is_what_the_run_goes_on_with(self) -> None:
        stage = self.exhausted()
        stage.began("msg_3", A)
        stage.user("msg_4")
        before = len(stage.all(effects.Abort))
        stage.answer("msg_3", A, finish="unknown")
        assert len(stage.all(effects.Abort)) == before


def test_at_most_max_attempts_advances_are_made_in_a_turn() -> None:
    chain = tuple(f"fake/m{number}" for number in range(9))
    stage = on_retry(stage_with(chain=chain, max_attempts=3))
    for number in range(3):
        stage.fail_over(f"msg_{number + 3}", ModelRef("fake", f"m{number}"))
        stage.retry()
    assert len(stage.asked) == 3
    assert stage.toasts[-1].title == "All fallbacks exhausted"


def test_a_model_that_does_not_exist_is_left_for_the_next() -> None:
    stage = on_retry(Stage())
    stage.aborted()
    stage.accepted()
    stage.user("msg_1", A)
    for text in ("Model not found: spare/a.", "ProviderModelNotFoundError: Model not found: spare/a.\n at …"):
        stage.error({"name": "UnknownError", "data": {"message": text}})
    stage.aborted()
    assert stage.asked == [A, B]


def test_an_error_before_the_host_took_the_prompt_up_is_the_old_models() -> None:
    stage = on_retry(Stage())
    stage.aborted()
    stage.accepted()
    stage.error(api_error(429))
    assert len(stage.all(effects.Abort)) == 1


def test_late_news_of_the_failed_attempt_changes_nothing() -> None:
    stage = on_retry(Stage())
    stage.aborted()
    stage.accepted()
    stage.answer("msg_2", time={"created": 1, "completed": 2})
    stage.began("msg_3", A)
    stage.answer("msg_2", error=api_error(429))
    assert stage.asked == [A]
    assert len(stage.all(effects.Abort)) == 1


def test_late_idles_of_a_run_that_failed_for_good_change_nothing() -> None:
    stage = Stage()
    stage.user()
    stage.answer("msg_2")
    stage.error(api_error(401))
    sent_after = stage.sequence
    stage.idle()
    stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))
    stage.accepted()
    stage.answer("msg_2", error=api_error(401))
    stage.idle()
    stage.user("msg_1", A)
    stage.idle()
    stage.answer("msg_3", A)
    assert not stage.engine.is_stopped(stage.session, "msg_1")
    assert len(stage.all(effects.Abort)) == 1


class TestARunThatEndsByItself:
    """Seen from outside, it is not aborted; it makes two idles (OpenCode 1.18.33)."""

    @staticmethod
    def left_to_end(idles: int) -> Stage:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.error(api_error(401))
        for _ in range(idles):
            stage.idle()
        stage.finish(stage.last(effects.Abort), Done(Receipt(aborted=False)))
        return stage

    @pytest.mark.parametrize("idles", [0, 1, 2])
    def test_its_turn_goes_on(self, idles: int) -> None:
        stage = self.left_to_end(idles)
        stage.accepted()
        for _ in range(2 - idles):
            stage.idle()
        assert stage.asked == [A]
        assert not stage.engine.is_stopped(stage.session, "msg_1")

    def test_an_idle_more_is_the_users_stop(self) -> None:
        assert self.left_to_end(3).asked == []

    def test_so_is_one_after_the_prompt_was_handed_in(self) -> None:
        stage = self.left_to_end(2)
        stage.accepted()
        stage.idle()
        assert stage.engine.is_stopped(stage.session, "msg_1")

    def test_so_is_an_abort_that_is_reported(self) -> None:
        stage = self.left_to_end(2)
        stage.accepted()
        stage.error(ABORTED)
        assert stage.engine.is_stopped(stage.session, "msg_1")


class TestTheNextMessageFailsBeforeTheSwitchIsMade:
    """Seen beside a server, which nobody asks to hold the message back: 8 of 13 were lost."""

    def test_P2_one_whose_answer_is_seen_only_when_it_has_failed_is_answered_as_well(self) -> None:
        stage = self.gone_on(
            api_error(401), seen={"error": api_error(401), "time": {"created": 1, "completed": 2}}
        )
        stage.finish(stage.last(effects.Abort), Done(Receipt(aborted=False)))
        stage.finish(stage.last(effects.Abort), Done(Receipt(aborted=False)))
        stage.accepted()
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_3"]

    @staticmethod
    def gone_on(error: Any, *, seen: Mapping[str, Any] | None = None) -> Stage:
        """Fail a turn, and the next message's with an error; ``seen``: what its answer holds at first."""
        stage = Stage()
        stage.user("msg_1")
        stage.answer("msg_2")
        stage.error(api_error(401))
        stage.idle()
        stage.idle()
        stage.user("msg_3")
        stage.answer("msg_4", parent="msg_3", **(seen or {}))
        stage.error(error)
        stage.idle()
        stage.idle()
        return stage

    def test_P2_its_own_failure_is_answered_when_the_switch_has_given_way(self) -> None:
        stage = self.gone_on(api_error(401))
        stage.finish(stage.last(effects.Abort), Done(Receipt(aborted=False)))
        first, second = stage.all(effects.Abort)
        assert stage.asked == []
        stage.finish(second, Done(Receipt(aborted=False)))
        stage.accepted()
        assert first != second
        assert stage.asked == [A]
        assert stage.last(effects.Prompt).body.message_id == "msg_3"
        assert not stage.engine.is_stopped(stage.session, "msg_3")

    @pytest.mark.parametrize("asked_again", [False, True])
    def test_P2_one_for_which_the_host_waits_is_answered_unless_the_wait_is_over(
        self, *, asked_again: bool
    ) -> None:
        stage = Stage()
        stage.user("msg_1")
        stage.answer("msg_2")
        stage.error(api_error(401))
        stage.user("msg_3")
        stage.answer("msg_4", parent="msg_3")
        stage.retry()
        if asked_again:
            stage.busy()
        stage.finish(stage.last(effects.Abort), Done(Receipt(aborted=False)))
        assert len(stage.all(effects.Abort)) == (1 if asked_again else 2)

    def test_P1_unless_it_was_stopped(self) -> None:
        stage = self.gone_on(ABORTED)
        stage.answer("msg_4", parent="msg_3", error=ABORTED)
        stage.finish(stage.last(effects.Abort), Done(Receipt(aborted=False)))
        assert len(stage.all(effects.Abort)) == 1
        assert stage.asked == []


def test_an_error_of_a_turn_that_is_over_is_ignored() -> None:
    stage = Stage()
    stage.user("msg_1")
    stage.answer("msg_2")
    stage.content("msg_2")
    stage.idle()
    stage.user("msg_5")
    stage.answer("msg_6", parent="msg_5")
    stage.answer("msg_2", error=api_error(429))
    assert stage.all(effects.Abort) == []


def test_a_user_message_published_again_is_no_new_turn() -> None:
    stage = Stage()
    stage.user("msg_1")
    first = stage.state.turn
    stage.idle()
    stage.user("msg_5")
    second = stage.state.turn
    stage.user("msg_1", time={"created": 1})
    assert first is not second
    assert stage.state.turn is second


def test_a_queued_message_that_runs_again_later_is_no_new_turn() -> None:
    stage = Stage()
    stage.user("msg_1")
    stage.answer("msg_2")
    stage.user("msg_5")
    stage.error(ABORTED)
    stage.user("msg_7")
    stage.user("msg_5", A)
    assert stage.state.queued is None
    assert stage.state.turn is not None
    assert stage.state.turn.message_id == "msg_7"


def test_a_prompt_that_came_while_the_turn_ran_is_what_gets_sent_again() -> None:
    stage = Stage()
    stage.user("msg_1")
    stage.answer("msg_2")
    stage.user("msg_5")
    stage.retry()
    stage.aborted()
    assert [prompt.message_id for prompt in stage.prompts] == ["msg_5"]


class TestAMessageBehindHalfAnAnswer:
    """It is sent to the next model; the half answer would be taken by that for its own words."""

    @staticmethod
    def half_an_answer(host_kind: HostKind = "serve") -> Stage:
        stage = Stage(Engine(settings(), host_kind=host_kind))
        stage.user("msg_1")
        stage.answer("msg_2")
        stage.content("msg_2")
        stage.user("msg_3")
        stage.answer("msg_2", finish="unknown")
        return stage

    @pytest.mark.parametrize("deletes", [True, False])
    def test_the_half_answer_alone_is_deleted_if_the_host_does_that(self, *, deletes: bool) -> None:
        stage = self.half_an_answer()
        stage.deletes = deletes
        stage.error(ABORTED)
        stage.aborted()
        assert [each.message_id for each in stage.all(effects.DeleteMessage)] == ["msg_2"]
        assert stage.all(effects.Revert) == []
        assert [(each.message_id, each.model) for each in stage.prompts] == [("msg_3", A)]

    def test_a_terminal_takes_the_message_back_after_that(self) -> None:
        stage = self.half_an_answer("tui")
        stage.error(ABORTED)
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn("msg_3"),)))
        assert [each.message_id for each in stage.all(effects.DeleteMessage)] == ["msg_2"]
        assert stage.last(effects.Revert).message_id == "msg_3"

    def test_a_cut_run_that_has_gone_on_with_the_message_is_ended_for_it(self) -> None:
        """OpenCode begins the message's step in the run that our abort ends."""
        stage = self.half_an_answer()
        stage.answer("msg_4", parent="msg_3")
        sent_after = stage.sequence
        stage.error(ABORTED)
        stage.idle()
        stage.answer("msg_4", parent="msg_3", error=ABORTED)
        stage.idle()
        stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))
        assert [each.message_id for each in stage.all(effects.DeleteMessage)] == ["msg_2"]
        assert [(each.message_id, each.model) for each in stage.prompts] == [("msg_3", A)]
        stage.accepted()
        stage.user("msg_3", A)
        stage.answer("msg_5", A, parent="msg_3")
        assert len(stage.all(effects.Abort)) == 1

    def test_a_stop_meanwhile_is_final(self) -> None:
        stage = self.half_an_answer()
        stage.answer("msg_4", parent="msg_3")
        stage.abort_requested()
        stage.error(ABORTED)
        stage.answer("msg_4", parent="msg_3", error=ABORTED)
        stage.aborted()
        assert stage.asked == []


def test_a_queued_prompt_becomes_the_turn_when_the_host_answers_it() -> None:
    stage = Stage()
    stage.user("msg_1")
    stage.answer("msg_2")
    stage.user("msg_5")
    stage.answer("msg_6", parent="msg_5")
    stage.retry()
    stage.aborted()
    assert [prompt.message_id for prompt in stage.prompts] == ["msg_5"]


def test_a_deleted_session_gets_nothing_more() -> None:
    stage = on_retry(Stage())
    stage.tell(SessionDeleted(type="session.deleted", session_id=stage.session))
    stage.finish(stage.last(effects.Abort))
    assert stage.asked == []
    assert not stage.in_flight


def test_a_childs_failure_is_left_to_its_parent() -> None:
    stage = Stage()
    stage.host("session.created", info={"id": stage.session, "parentID": "ses_0"})
    on_retry(stage)
    assert stage.all(effects.Abort) == []


def test_a_session_seen_in_the_middle_is_looked_up() -> None:
    stage = Stage()
    stage.user()
    (fetch,) = stage.all(effects.FetchSession)
    stage.finish(fetch, Fetched(session=SessionInfo(id=stage.session, parent_id="ses_0")))
    stage.answer("msg_2")
    stage.retry()
    assert stage.all(effects.Abort) == []


def test_a_session_first_seen_by_a_prompt_is_looked_up_as_well() -> None:
    stage = Stage()
    stage.choose(PRIMARY)
    stage.user()
    stage.answer("msg_2")
    assert len(stage.all(effects.FetchSession)) == 1


class TestCompaction:
    """The host's own turn on a message that only asks for compaction."""

    def compaction(self, model: ModelRef = PRIMARY) -> Stage:
        stage = Stage()
        stage.user()
        stage.answer("msg_2", model, agent="compaction", summary=True)
        return stage

    def test_a_failing_one_goes_on_in_place_on_the_next_model(self) -> None:
        stage = self.compaction()
        stage.retry()
        stage.aborted()
        (prompt,) = stage.prompts
        assert (prompt.model, prompt.message_id, prompt.parts, prompt.agent) == (A, "msg_1", (), "build")

    def test_it_is_not_taken_back_in_the_terminal(self) -> None:
        stage = self.compaction()
        stage.engine.host_kind = "tui"
        stage.retry()
        stage.aborted()
        assert stage.all(effects.Revert) == []
        assert len(stage.prompts) == 1

    def test_an_overflow_is_left_to_the_hosts_compaction(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.error({"name": "ContextOverflowError", "data": {"message": "too long"}})
        assert stage.all(effects.Abort) == []

    def test_a_model_fixed_in_the_hosts_config_is_left_alone(self) -> None:
        stage = self.compaction(B)
        stage.retry()
        assert stage.all(effects.Abort) == []

    def test_one_that_says_nothing_is_left_alone(self) -> None:
        stage = self.compaction()
        stage.content("msg_2", "step-finish")
        stage.answer("msg_2", agent="compaction", finish="stop", time={"created": 1, "completed": 2})
        stage.idle()
        stage.user()
        assert stage.prompts == []


class TestEmptyAnswer:
    """An answer that ends as if all were well, with nothing in it."""

    def empty(self, stage: Stage, message: str = "msg_2", finish: str = "stop") -> None:
        stage.content(message, "step-finish")
        stage.answer(message, finish=finish, time={"created": 1, "completed": 2})
        stage.idle()

    @pytest.fixture
    def stage(self) -> Stage:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        return stage

    @pytest.mark.parametrize("kind", [None, "reasoning"])
    def test_P2_it_is_deleted_and_the_turn_runs_again_where_it_stands(
        self, stage: Stage, kind: str | None
    ) -> None:
        """Nothing is taken back: a message that the user sends meanwhile would go with it."""
        if kind:
            stage.content("msg_2", kind)
        self.empty(stage)
        stage.user()
        assert stage.last(effects.DeleteMessage).message_id == "msg_2"
        assert [(prompt.message_id, prompt.parts) for prompt in stage.prompts] == [("msg_1", ())]
        assert stage.all(effects.Revert) == []
        assert stage.all(effects.Abort) == []

    def test_in_a_terminal_ui_it_is_taken_back_and_the_message_sent_anew(self) -> None:
        stage = Stage(Engine(settings(), host_kind="tui"))
        stage.user()
        stage.answer("msg_2")
        self.empty(stage)
        stage.user()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        assert stage.last(effects.Revert).message_id == "msg_1"
        stage.finish(stage.last(effects.Revert))
        (prompt,) = stage.prompts
        assert prompt.message_id is None
        assert [part["type"] for part in prompt.parts] == ["text", "file", "file"]
        assert stage.all(effects.Abort) == []

    @pytest.mark.parametrize("kind", [None, "reasoning"])
    @pytest.mark.parametrize("finish", ["length", "other"])
    def test_P13_an_output_limit_before_a_word_is_an_empty_answer(
        self, stage: Stage, finish: str, kind: str | None
    ) -> None:
        if kind:
            stage.content("msg_2", kind)
        self.empty(stage, finish=finish)
        stage.user()
        assert stage.last(effects.DeleteMessage).message_id == "msg_2"

    @pytest.mark.parametrize("finish", ["length", "other"])
    def test_P13_an_answer_that_reached_its_limit_stays(self, stage: Stage, finish: str) -> None:
        stage.content("msg_2")
        self.empty(stage, finish=finish)
        stage.user()
        assert stage.all(effects.Claim) == []

    @pytest.mark.parametrize("finish", ["tool-calls", "content-filter"])
    def test_P13_other_ends_are_the_hosts(self, stage: Stage, finish: str) -> None:
        self.empty(stage, finish=finish)
        stage.user()
        assert stage.all(effects.Claim) == []

    def test_nothing_is_sent_before_the_hosts_last_word_on_the_turn(self, stage: Stage) -> None:
        self.empty(stage)
        assert stage.prompts == []
        stage.user()
        assert len(stage.prompts) == 1

    def test_a_host_without_a_last_word_is_given_a_moment(self, stage: Stage) -> None:
        self.empty(stage)
        settle = stage.last(effects.StartTimer)
        stage.tell(TimerFired(settle.session_id, settle.name, settle.attempt))
        assert len(stage.prompts) == 1

    @pytest.mark.parametrize("host_kind", ["serve", "tui"])
    def test_after_a_finished_tool_only_the_empty_answer_goes(self, host_kind: HostKind) -> None:
        stage = Stage(Engine(settings(), host_kind=host_kind))
        stage.user()
        stage.answer("msg_2")
        tool = {"id": "prt_1", "sessionID": stage.session, "messageID": "msg_2", "type": "tool"}
        stage.host("message.part.updated", part={**tool, "state": {"status": "completed"}})
        stage.answer("msg_2", finish="tool-calls", time={"created": 1, "completed": 2})
        stage.answer("msg_3")
        self.empty(stage, "msg_3")
        stage.user()
        assert stage.last(effects.DeleteMessage).message_id == "msg_3"
        assert [(prompt.message_id, prompt.parts) for prompt in stage.prompts] == [("msg_1", ())]

    def test_an_answer_with_text_is_left_alone(self, stage: Stage) -> None:
        stage.content("msg_2")
        self.empty(stage)
        stage.user()
        assert stage.prompts == []
        assert not stage.in_flight

    def test_an_empty_answer_that_cannot_be_removed_is_said(self, stage: Stage) -> None:
        stage.deletes = False
        self.empty(stage)
        stage.user()
        assert stage.toasts[-1].title == "Fallback failed"
        assert not stage.in_flight

    def test_a_message_the_person_sends_meanwhile_is_the_last_word(self, stage: Stage) -> None:
        self.empty(stage)
        stage.state.turn.running = False  # type: ignore[union-attr]  # begun above
        stage.user("msg_5")
        stage.user()
        assert stage.prompts == []

    def test_a_childs_empty_answer_is_switched_since_its_parent_can_wait(self, stage: Stage) -> None:
        stage.state.parent_id = "ses_0"
        self.empty(stage)
        stage.user()
        assert len(stage.prompts) == 1

    @pytest.mark.parametrize("idles", [0, 1])
    def test_P2_a_message_taken_back_for_nothing_is_shown_again_when_the_host_lets_us(
        self, idles: int
    ) -> None:
        """The host refuses that as long as it works, and the next prompt deletes what is hidden."""
        stage = Stage(Engine(settings(), host_kind="tui"))
        stage.user()
        stage.answer("msg_2")
        self.empty(stage)
        stage.user()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.user("msg_5")
        stage.answer("msg_6", parent="msg_5")
        stage.finish(stage.last(effects.Revert))
        stage.finish(stage.last(effects.Unrevert), Failed("busy", 409))
        for _ in range(idles):
            stage.idle()
            stage.finish(stage.last(effects.Unrevert))
        stage.idle()
        assert len(stage.all(effects.Unrevert)) == 2
        assert stage.prompts == []


class TestRemovedMessage:
    """A message that left the history cannot be run again: the host would make an empty one in its place."""

    def test_P2_its_turn_is_over(self) -> None:
        stage = on_retry(Stage())
        stage.host("message.removed", messageID="msg_1")
        stage.aborted()
        assert stage.prompts == []
        assert not stage.in_flight

    def test_one_that_was_taken_back_to_be_sent_anew_is_not_missed(self) -> None:
        stage = on_retry(Stage(Engine(settings(), host_kind="tui")))
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.finish(stage.last(effects.Revert))
        stage.host("message.removed", messageID="msg_1")
        stage.accepted()
        stage.user("msg_3", A)
        assert stage.state.turn is not None
        assert not stage.state.turn.cancelled

    @pytest.mark.parametrize("accepted_first", [True, False])
    def test_nor_if_that_is_shown_after_our_prompt_was_accepted(self, *, accepted_first: bool) -> None:
        stage = on_retry(Stage(Engine(settings(), host_kind="tui")))
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.finish(stage.last(effects.Revert))
        if accepted_first:
            stage.accepted()
        stage.host("message.removed", messageID="msg_1")
        if not accepted_first:
            stage.accepted()
        assert stage.state.turn is not None
        assert not stage.state.turn.cancelled

    def test_a_message_that_waits_is_forgotten(self) -> None:
        stage = on_retry(Stage())
        stage.user("msg_5")
        stage.host("message.removed", messageID="msg_5")
        stage.aborted()
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_1"]


class TestCutStream:
    """A step that ends in ``unknown``: the host asks again at once, for ever."""

    def test_it_is_stopped_and_answered_by_the_next_model(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.content("msg_2")
        stage.answer("msg_2", finish="unknown")
        stage.answer("msg_3")
        stage.error(ABORTED)
        stage.aborted()
        assert stage.asked == [A]

    def test_every_half_answer_is_deleted_before_the_turn_runs_again(self) -> None:
        stage = Stage()
        stage.user()
        for message in ("msg_2", "msg_3"):
            stage.answer(message)
            stage.content(message)
            stage.answer(message, finish="unknown")
        stage.error(ABORTED)
        stage.aborted()
        assert [effect.message_id for effect in stage.all(effects.DeleteMessage)] == ["msg_2", "msg_3"]

    def test_a_half_answer_that_cannot_be_deleted_does_not_stop_the_switch(self) -> None:
        stage = Stage(deletes=False)
        stage.user()
        stage.answer("msg_2")
        stage.content("msg_2")
        stage.answer("msg_2", finish="unknown")
        stage.aborted()
        assert len(stage.all(effects.DeleteMessage)) == 1
        assert stage.asked == [A]

    def test_steps_that_called_a_tool_stay(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.content("msg_2")
        stage.content("msg_2", "tool")
        stage.answer("msg_3")
        stage.retry()
        stage.aborted()
        assert stage.all(effects.DeleteMessage) == []
        assert stage.asked == [A]

    def test_a_message_shown_as_finished_before_its_parts_is_not_empty(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2", finish="stop", time={"created": 1, "completed": 2})
        assert stage.all(effects.Claim) == []


class TestStall:
    """An answer that stops growing."""

    @pytest.fixture
    def stage(self) -> Stage:
        stage = stage_with(stall_timeout="60s")
        stage.user()
        stage.answer("msg_2")
        stage.content("msg_2")
        return stage

    def fire(self, stage: Stage, after_s: float) -> list[effects.Effect]:
        timer = stage.last(effects.StartTimer)
        assert timer.name == "stall"
        stage.now += after_s
        return stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))

    def test_it_is_left_for_the_next_model(self, stage: Stage) -> None:
        self.fire(stage, 65)
        stage.error(ABORTED)
        stage.aborted()
        assert stage.asked == [A]

    def test_growth_buys_time(self, stage: Stage) -> None:
        stage.now += 40
        stage.host("message.part.delta", messageID="msg_2", partID="prt_1", field="text", delta="…")
        (again,) = self.fire(stage, 25)
        assert isinstance(again, effects.StartTimer)
        assert again.after_s == pytest.approx(35 + ACTIVITY_EVERY_S)

    def test_a_running_tool_is_no_stall(self, stage: Stage) -> None:
        tool = {"id": "prt_2", "sessionID": stage.session, "messageID": "msg_2", "type": "tool"}
        stage.host("message.part.updated", part={**tool, "state": {"status": "running"}})
        (again,) = self.fire(stage, 600)
        assert isinstance(again, effects.StartTimer)
        stage.host("message.part.updated", part={**tool, "state": {"status": "completed"}})
        assert any(isinstance(effect, effects.Claim) for effect in self.fire(stage, 65))

    def test_a_finished_step_cannot_stall(self, stage: Stage) -> None:
        new = stage.answer("msg_2", finish="stop", time={"created": 1, "completed": 2})
        assert effects.StopTimer(stage.session, "stall") in new


class TestTerminal:
    """A live screen would draw a turn that runs again twice."""

    @pytest.fixture
    def stage(self) -> Stage:
        return on_retry(Stage(Engine(settings(), host_kind="tui")))

    def test_the_turn_is_taken_back_and_sent_anew(self, stage: Stage) -> None:
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.finish(stage.last(effects.Revert))
        assert [prompt.message_id for prompt in stage.prompts] == [None]

    def test_where_it_cannot_be_taken_back_it_runs_in_place(self, stage: Stage) -> None:
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.finish(stage.last(effects.Revert), Failed("busy", 409))
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_1"]

    def test_the_new_message_belongs_to_the_same_turn(self, stage: Stage) -> None:
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.finish(stage.last(effects.Revert))
        turn = stage.state.turn
        stage.user("msg_9", A)
        stage.accepted()
        stage.user("msg_1", time={"created": 9_999_999_999_999})
        stage.answer("msg_10", A, parent="msg_9")
        stage.retry()
        assert stage.state.turn is turn
        assert stage.state.queued is None
        assert stage.in_flight


class TestOtherInstances:
    """Two copies of the plugin see one failure."""

    def test_who_does_not_get_the_lease_does_nothing(self) -> None:
        stage = on_retry(Stage(grants_leases=False))
        assert stage.all(effects.Abort) == []
        assert stage.toasts == []
        assert not stage.in_flight

    def test_both_ask_for_the_same_lease(self) -> None:
        first, second = on_retry(Stage()), Stage()
        second.host("session.idle")
        on_retry(second)
        assert first.last(effects.Claim).key == second.last(effects.Claim).key

    def test_the_others_abort_is_not_the_users(self) -> None:
        stage = on_retry(Stage(grants_leases=False))
        stage.error(ABORTED)
        stage.idle()
        assert stage.state.turn is not None
        assert not stage.state.turn.cancelled

    def test_it_follows_the_others_switch_and_may_act_on_the_next_failure(self) -> None:
        stage = on_retry(Stage(grants_leases=False))
        stage.idle()
        stage.began("msg_3", A)
        stage.grants_leases = True
        stage.retry()
        stage.aborted()
        assert stage.asked == [B]


class TestSharedHealth:
    """What one session learns about a model, all know."""

    def test_a_failed_model_is_closed_for_everybody(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.accepted()
        closed = stage.last(effects.CloseModel)
        assert (closed.model, closed.reason) == (PRIMARY, "rate_limit")
        assert closed.until == pytest.approx(stage.now + 60)

    def test_an_empty_answer_says_nothing_to_others(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        TestEmptyAnswer().empty(stage)
        stage.user()
        stage.accepted()
        assert stage.all(effects.CloseModel) == []

    def test_a_new_session_starts_on_a_model_that_is_open(self) -> None:
        stage = Stage()
        stage.close(PRIMARY, stage.now + 60)
        assert stage.choose(PRIMARY) == A

    def test_so_does_one_whose_first_prompt_names_no_model(self) -> None:
        stage = Stage()
        stage.close(PRIMARY, stage.now + 60)
        request = PromptRequest(session_id="ses_1", agent="build", resolved=PRIMARY)
        assert stage.engine.choose_model(request, stage.now)[0] == A

    def test_a_candidate_closed_elsewhere_is_passed_over(self) -> None:
        stage = Stage()
        stage.close(A, stage.now + 60)
        on_retry(stage)
        stage.aborted()
        assert stage.asked == [B]

    def test_a_model_is_open_again_at_its_time(self) -> None:
        stage = Stage()
        stage.close(PRIMARY, stage.now)
        assert stage.choose(PRIMARY) is None


def test_a_stop_is_final_also_while_our_own_abort_gets_no_answer() -> None:
    stage = on_retry(Stage())
    stage.idle()
    stage.finish(stage.last(effects.Abort), Failed("no answer"))
    stage.retry(attempt=2)
    assert len(stage.all(effects.Abort)) == 1
    assert stage.asked == []


class TestUnseenTurn:
    """A retry or an error of a turn whose beginning was not seen, as after our own restart."""

    def history(self) -> tuple[StoredMessage, ...]:
        answer = AssistantMessage(
            id="msg_2", session_id="ses_1", parent_id="msg_1", model=PRIMARY, created_at=2.0, agent="build"
        )
        return (stored_turn(), StoredMessage(info=answer))

    def test_a_retry_is_judged_once_the_history_is_read(self) -> None:
        stage = Stage()
        stage.retry()
        stage.retry(attempt=2)
        (fetch,) = stage.all(effects.FetchMessages)
        stage.finish(fetch, Fetched(messages=self.history()))
        stage.aborted()
        assert [(prompt.model, prompt.message_id) for prompt in stage.prompts] == [(A, "msg_1")]

    def test_so_is_an_error(self) -> None:
        stage = Stage()
        stage.error(api_error(401))
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=self.history()))
        stage.aborted()
        assert stage.asked == [A]

    @pytest.mark.parametrize("stop", ["in a retry wait", "in a run", "that only its request shows"])
    def test_a_stop_while_the_history_is_read_is_final(self, stop: str) -> None:
        stage = Stage()
        stage.retry()
        if stop == "in a run":
            stage.error(ABORTED)
        if stop == "that only its request shows":
            stage.abort_requested()
        else:
            stage.idle()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=self.history()))
        assert stage.all(effects.Claim) == []

    def test_a_message_that_waits_behind_the_failing_turn_is_not_taken_for_it(self) -> None:
        stage = Stage()
        stage.retry()
        waiting = replace(stored_turn().info, id="msg_3", created_at=3.0)
        history = (*self.history(), StoredMessage(info=waiting, parts=stored_turn().parts))
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=history))
        assert stage.last(effects.Claim).key == "ses_1/msg_1/fake/primary"
        stage.aborted()
        assert [(prompt.model, prompt.message_id) for prompt in stage.prompts] == [(A, "msg_3")]

    def test_a_message_that_comes_while_the_history_is_read_waits_behind_the_failing_turn(self) -> None:
        stage = Stage()
        stage.retry()
        stage.user("msg_3")
        stage.retry(attempt=2)
        assert stage.all(effects.Claim) == []
        waiting = replace(stored_turn().info, id="msg_3", created_at=3.0)
        history = (*self.history(), StoredMessage(info=waiting, parts=stored_turn().parts))
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=history))
        assert stage.last(effects.Claim).key == "ses_1/msg_1/fake/primary"

    def test_an_error_of_the_turn_before_says_nothing_against_a_message_that_came_since(self) -> None:
        stage = Stage()
        stage.error(api_error(401))
        stage.user("msg_3")
        answer = self.history()[1].info
        assert isinstance(answer, AssistantMessage)
        answer = replace(answer, completed=True)
        waiting = replace(stored_turn().info, id="msg_3", created_at=3.0)
        history = (self.history()[0], StoredMessage(info=answer), StoredMessage(info=waiting))
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=history))
        assert stage.all(effects.Claim) == []
        assert stage.state.turn is not None
        assert stage.state.turn.message_id == "msg_3"

    def test_a_turn_that_somebody_has_switched_meanwhile_is_left_alone(self) -> None:
        stage = Stage()
        stage.retry()
        later = AssistantMessage(
            id="msg_3", session_id="ses_1", parent_id="msg_1", model=A, created_at=3.0, agent="build"
        )
        switched = (*self.history(), StoredMessage(info=later))
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=switched))
        assert stage.all(effects.Claim) == []

    def switched_history(self) -> tuple[StoredMessage, ...]:
        """Return a history in which A was asked after PRIMARY.

        OpenCode names A on the user's message as well, since that was sent again.
        """
        user = replace(stored_turn().info, model=A)
        refused = AssistantMessage(
            id="msg_2",
            session_id="ses_1",
            parent_id="msg_1",
            model=PRIMARY,
            created_at=2.0,
            agent="build",
            completed=True,
            error=HostError(name="APIError", message="refused", status_code=401),
        )
        asked_now = replace(refused, id="msg_3", model=A, completed=False, error=None, created_at=3.0)
        return (StoredMessage(info=user), StoredMessage(info=refused), StoredMessage(info=asked_now))

    def test_a_turn_that_had_been_switched_names_its_first_model_when_no_other_is_left(self) -> None:
        stage = stage_with(chain=("spare/a",))
        stage.close(PRIMARY, stage.now + 60)
        stage.retry()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=self.switched_history()))
        stage.retry(attempt=2)
        failed, first, _ = stage.toasts[-1].message.splitlines()
        assert failed.startswith(f"{A}: rate limited")
        assert first.startswith(f"{PRIMARY}: rate limited before, rests until ")

    def test_what_fails_in_a_turn_that_had_been_switched_is_the_model_asked_now(self) -> None:
        stage = Stage()
        stage.retry()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=self.switched_history()))
        stage.retry(attempt=2)
        stage.aborted()
        assert stage.asked == [B]
        assert [each.model for each in stage.all(effects.CloseModel)] == [A]

    def test_without_a_history_nothing_happens(self) -> None:
        stage = Stage()
        stage.retry()
        stage.finish(stage.last(effects.FetchMessages), Failed("no answer"))
        assert stage.all(effects.Abort) == []


class TestUsersStop:
    """After an abort that is not ours nothing is sent until the user's next message."""

    def test_while_the_fallback_streams(self) -> None:
        stage = on_retry(Stage())
        stage.fail_over("msg_3", A)
        stage.error(ABORTED)
        stage.idle()
        stage.answer("msg_3", A, error=ABORTED)
        stage.retry()
        assert stage.asked == [A]
        assert len(stage.all(effects.Abort)) == 1

    def test_soon_after_our_own_abort(self) -> None:
        stage = on_retry(Stage())
        stage.fail_over("msg_3", A)
        stage.now += 0.3
        stage.error(ABORTED)
        assert stage.state.turn is not None
        assert stage.state.turn.cancelled

    def test_before_our_abort_was_sent(self) -> None:
        stage = on_retry(Stage())
        stage.idle()
        sent_after = stage.sequence
        stage.idle()
        stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))
        assert stage.asked == []
        assert not stage.in_flight

    def test_while_our_abort_was_open(self) -> None:
        stage = on_retry(Stage())
        sent_after = stage.sequence
        stage.idle()
        stage.idle()
        stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))
        assert stage.asked == []

    def test_while_our_prompt_was_handed_in(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.idle()
        stage.accepted()
        assert not stage.in_flight
        assert stage.state.turn is not None
        assert stage.state.turn.cancelled
        assert len(stage.all(effects.Abort)) == 1
        stage.answer("msg_3", A)
        stage.answer("msg_3", A)
        assert len(stage.all(effects.Abort)) == 2

    def test_after_our_prompt_was_accepted_and_before_it_began(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.accepted()
        stage.idle()
        stage.user("msg_1", A)
        stage.answer("msg_3", A)
        assert len(stage.all(effects.Abort)) == 2

    def test_P1_after_the_message_was_shown_with_its_new_model(self) -> None:
        """That shows that our prompt was taken, not that its run has begun; nor do news of the old run."""
        stage = on_retry(Stage())
        stage.aborted()
        stage.accepted()
        stage.user("msg_1", A)
        stage.answer("msg_2", time={"created": 1, "completed": 2})
        stage.idle()
        assert stage.state.turn is not None
        assert stage.state.turn.cancelled

    @pytest.mark.parametrize("accepted_first", [True, False])
    def test_P1_when_its_idle_comes_after_our_prompt_was_sent(self, *, accepted_first: bool) -> None:
        """The host forgets that stop, so our prompt's run is dropped before its model is asked."""
        stage = on_retry(Stage())
        stage.aborted()
        assert not stage.engine.is_stopped(stage.session, "msg_1")
        if accepted_first:
            stage.accepted()
        stage.idle()
        stage.user("msg_1", A)
        assert stage.engine.is_stopped(stage.session, "msg_1")

    @pytest.mark.parametrize("when", ["failed", "aborted", "accepted", "shown"])
    def test_P1_that_only_its_request_shows(self, when: str) -> None:
        """The host is silent about a stop in a run that ends anyway: there is no idle to count."""
        stage = on_retry(Stage())
        if when != "failed":
            stage.aborted()
        if when in {"accepted", "shown"}:
            stage.accepted()
        if when == "shown":
            stage.user("msg_1", A)
        stage.abort_requested()
        if when == "failed":
            stage.aborted()
            assert stage.prompts == []
        assert stage.engine.is_stopped(stage.session, "msg_1")
        stage.user("msg_5")
        assert not stage.engine.is_stopped(stage.session, "msg_5")

    @pytest.mark.parametrize("status", [STOPPED, 500])
    def test_P1_one_that_the_hosts_abort_crosses_ends_the_switch(self, status: int) -> None:
        """The bridge refuses an abort that was decided on before the stop: it could hit the next message."""
        stage = on_retry(Stage())
        abort = stage.last(effects.Abort)
        assert abort.after == stage.sequence
        stage.finish(abort, Failed("refused", status))
        assert stage.prompts == []
        assert not stage.in_flight
        said = [toast for toast in stage.toasts if "did not stop" in toast.message]
        assert bool(said) == (status != STOPPED)
        stage.abort_requested()
        stage.user("msg_5")
        stage.answer("msg_6")
        stage.retry()
        stage.aborted()
        assert stage.asked == [A]

    def test_P1_a_prompt_of_ours_that_comes_after_the_next_message_may_not_begin(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.abort_requested()
        stage.accepted()
        stage.user("msg_5")
        assert stage.engine.is_stopped(stage.session, "msg_1")
        stage.answer("msg_3", A)
        assert stage.engine.is_stopped(stage.session, "msg_1")
        assert not stage.engine.is_stopped(stage.session, "msg_5")

    def test_P2_an_abort_that_a_message_crosses_gives_way_to_it(self) -> None:
        """OpenCode runs the message by itself: its failure is another one."""
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.error(api_error(401))
        stage.finish(stage.last(effects.Abort), Failed("a message has come", OUTDATED))
        stage.user("msg_5")
        stage.answer("msg_6", parent="msg_5")
        stage.error(api_error(401))
        stage.aborted()
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_5"]

    def test_P2_a_message_that_our_abort_has_hit_all_the_same_is_sent(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.refused(OUTDATED)
        stage.user("msg_5")
        timer = stage.last(effects.StartTimer)
        stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_1"]
        stage.aborted()
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_1", "msg_5"]

    def test_P2_if_no_message_comes_the_turn_goes_on_and_is_refused_no_second_time(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.error(api_error(401))
        for _ in range(2):
            stage.finish(stage.last(effects.Abort), Failed("a message has come", OUTDATED))
            timer = stage.last(effects.StartTimer)
            stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))
        assert len(stage.all(effects.Abort)) == 2
        assert stage.prompts == []
        assert not stage.in_flight

    def test_P1_one_that_our_prompt_crosses_ends_the_switch(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.refused(STOPPED)
        assert len(stage.prompts) == 1
        assert not stage.in_flight
        stage.abort_requested()
        assert stage.engine.is_stopped(stage.session, "msg_1")

    def test_P1_what_is_left_of_our_prompt_is_no_choice_of_a_model(self) -> None:
        """The host asks about its message late, when the next turn is under way."""
        stage = on_retry(stage_with(cooldown=0))
        stage.aborted()
        stage.abort_requested()
        stage.accepted()
        stage.choose(PRIMARY, "msg_5")
        stage.user("msg_5")
        assert stage.choose(A, "msg_1") is None
        assert effects.CHOSEN not in {record.decision for record in stage.all(effects.Record)}

    def test_P1_a_toast_names_the_last_event_that_it_knows_of(self) -> None:
        """The bridge keeps what a stop has made untrue since."""
        stage = on_retry(Stage())
        stage.aborted()
        stage.accepted()
        assert stage.last(effects.Toast).after == stage.sequence

    def test_P1_of_a_parent_reaches_the_turn_of_its_subagents_subagent(self) -> None:
        """A child's empty answer is replayed, whatever its parent's run does."""
        stage = Stage()
        for child, parent in (("ses_0", "ses_root"), ("ses_1", "ses_0")):
            stage.tell(SessionCreated(type="session.created", session_id=child, parent_id=parent))
        stage.user()
        stage.answer("msg_2")
        stage.tell(SessionAbortRequested(type="session.abort.requested", session_id="ses_root"))
        assert stage.state.turn is not None
        assert stage.state.turn.cancelled

    def test_of_a_subagent_leaves_its_parent_alone(self) -> None:
        stage = Stage()
        stage.tell(SessionCreated(type="session.created", session_id="ses_2", parent_id="ses_1"))
        stage.user()
        stage.tell(SessionAbortRequested(type="session.abort.requested", session_id="ses_2"))
        assert stage.state.turn is not None
        assert not stage.state.turn.cancelled

    def test_of_a_session_of_another_folder_is_not_looked_into(self) -> None:
        stage = Stage()
        assert stage.abort_requested() == []
        assert stage.engine.session(stage.session) is None

    def test_another_plugins_stop_may_be_a_failure_like_any_other(self) -> None:
        """With `on_foreign_abort = "advance"` nobody can tell whose stop it was."""
        stage = on_retry(Stage(Engine(settings(on_foreign_abort="advance"))))
        stage.abort_requested()
        stage.aborted()
        assert len(stage.prompts) == 1

    def test_P1_between_taking_back_and_sending_anew_hides_no_message(self) -> None:
        """What was taken back is shown again: the next prompt would delete it."""
        stage = on_retry(Stage(Engine(settings(), host_kind="tui")))
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.idle()
        stage.finish(stage.last(effects.Revert), Done())
        assert stage.prompts == []
        assert len(stage.all(effects.Unrevert)) == 1

    @pytest.mark.parametrize("accepted_first", [True, False])
    def test_P1_of_their_next_message_to_the_same_model_drops_our_older_prompt(
        self, *, accepted_first: bool
    ) -> None:
        """That message is no form of our prompt, which runs the older one again where it stands."""
        stage = on_retry(Stage())
        stage.aborted()
        if accepted_first:
            stage.accepted()
        stage.user("msg_5", A)
        stage.answer("msg_6", A, parent="msg_5")
        stage.error(ABORTED)
        stage.idle()
        assert stage.engine.is_stopped(stage.session, "msg_1")

    def test_P1_of_an_older_turn_holds_no_newer_prompt_up(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.idle()
        stage.user("msg_5")
        assert not stage.engine.is_stopped(stage.session, "msg_5")

    @pytest.mark.parametrize("accepted_first", [True, False])
    def test_of_a_newer_turn_while_our_prompt_for_the_older_was_handed_in(
        self, *, accepted_first: bool
    ) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.user("msg_5")
        stage.answer("msg_6", parent="msg_5")
        stage.now += 3
        stage.error(ABORTED)
        if accepted_first:
            stage.accepted()
        stage.user("msg_1", A)
        stage.answer("msg_7", A, parent="msg_1")
        if not accepted_first:
            stage.accepted()
        assert len(stage.all(effects.Abort)) == 2
        assert not stage.in_flight

    def test_between_two_steps_of_a_cut_loop(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.answer("msg_2", finish="unknown")
        sent_after = stage.sequence
        stage.answer("msg_2", finish="unknown", error=ABORTED)
        stage.idle()
        stage.idle()
        stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))
        assert stage.asked == []

    def test_idles_of_a_run_that_failed_for_good_are_not_the_users(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.error(api_error(401))
        stage.idle()
        sent_after = stage.sequence
        stage.answer("msg_2", error=api_error(401))
        stage.idle()
        stage.idle()
        stage.finish(stage.last(effects.Abort), Done(Receipt(sent_after, stage.sequence)))
        assert stage.asked == [A]

    def test_the_next_message_is_answered_again(self) -> None:
        stage = on_retry(Stage())
        stage.fail_over("msg_3", A)
        stage.error(ABORTED)
        stage.idle()
        stage.user("msg_5", A)
        stage.answer("msg_6", A, parent="msg_5")
        stage.retry()
        stage.aborted()
        assert stage.asked == [A, B]


class TestHostCalls:
    """The mark is released on every path."""

    def test_a_prompt_without_an_answer_counts_as_sent(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.finish(stage.last(effects.Prompt), Failed("no answer in 10 s"))
        assert not stage.in_flight
        assert stage.state.state is not None
        assert stage.state.state.current == A

    def test_a_refused_replay_is_sent_anew_with_fewer_parts_each_time(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.refused()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        for _ in range(2):
            stage.refused()
        sent = [[part["type"] for part in prompt.parts] for prompt in stage.prompts]
        assert sent == [[], ["text", "file", "file"], ["text", "file"], ["text"]]

    def test_what_had_to_be_left_out_is_said(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.refused()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        stage.refused()
        stage.accepted()
        assert stage.toasts[-1].title == "Message replay"
        assert "text/plain" in stage.toasts[-1].message

    def test_a_turn_sent_anew_is_the_same_turn(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.refused()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        turn = stage.state.turn
        stage.user("msg_9", A)
        stage.accepted()
        stage.answer("msg_10", A, parent="msg_9")
        stage.content("msg_10")
        assert stage.state.turn is turn
        assert stage.toasts[-1].message.startswith("Now on spare/a.")

    def test_a_model_the_host_refuses_in_every_form_is_left_for_the_next(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.refused()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        for _ in range(3):
            stage.refused()
        stage.aborted()
        assert stage.asked[-1] == B
        assert stage.state.state is not None
        assert stage.state.state.attempts == 1

    def test_a_history_that_cannot_be_read_is_said(self) -> None:
        stage = on_retry(Stage())
        stage.aborted()
        stage.refused()
        stage.finish(stage.last(effects.FetchMessages), Failed("no answer"))
        assert stage.toasts[-1].title == "Fallback failed"
        assert not stage.in_flight

    def test_a_turn_seen_only_by_its_answer_is_read_first(self) -> None:
        stage = Stage()
        stage.answer("msg_2")
        stage.retry()
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_1"]

    def test_a_message_that_waited_behind_an_unread_turn_is_sent_instead(self) -> None:
        stage = Stage()
        stage.answer("msg_2")
        stage.retry()
        stage.aborted()
        waiting = replace(stored_turn(), info=replace(stored_turn().info, id="msg_5"))
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(), waiting)))
        assert [prompt.message_id for prompt in stage.prompts] == ["msg_5"]

    def test_a_session_without_a_user_message_is_reported_and_a_late_error_consumes_nothing(self) -> None:
        stage = Stage()
        stage.answer("msg_2")
        stage.retry()
        stage.aborted()
        stage.finish(stage.last(effects.FetchMessages), Fetched())
        stage.error(api_error(429))
        assert stage.asked == []
        assert stage.toasts[-1].title == "Fallback failed"
        assert not stage.in_flight
        assert stage.state.state is not None
        assert stage.state.state.attempts == 0


class TestFirstToken:
    """A model that says nothing is a failed model."""

    @pytest.fixture
    def stage(self) -> Stage:
        stage = stage_with(first_token_timeout="30s")
        stage.user()
        stage.answer("msg_2")
        return stage

    def fire(self, stage: Stage) -> None:
        timer = stage.last(effects.StartTimer)
        stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))

    def test_silence_is_answered(self, stage: Stage) -> None:
        assert stage.last(effects.StartTimer).after_s == 30
        self.fire(stage)
        stage.error(ABORTED)
        stage.aborted()
        assert stage.asked == [A]

    @pytest.mark.parametrize("kind", ["text", "reasoning", "tool"])
    def test_any_content_is_life(self, stage: Stage, kind: str) -> None:
        new = stage.content("msg_2", kind)
        assert effects.StopTimer(stage.session, "first_token") in new
        self.fire(stage)
        assert stage.all(effects.Abort) == []

    def test_a_fallback_is_given_its_time_as_well(self, stage: Stage) -> None:
        self.fire(stage)
        stage.aborted()
        stage.accepted()
        self.fire(stage)
        stage.aborted()
        assert stage.asked == [A, B]

    def test_a_timer_of_an_earlier_attempt_is_stale(self, stage: Stage) -> None:
        timer = stage.last(effects.StartTimer)
        stage.retry()
        stage.aborted()
        stage.accepted()
        stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))
        assert len(stage.all(effects.Abort)) == 1

    def test_each_step_of_a_tool_turn_gets_its_time(self, stage: Stage) -> None:
        stage.content("msg_2", "tool")
        assert stage.answer("msg_3") == [effects.StartTimer(stage.session, "first_token", 1, 30)]

    def test_a_models_own_time_goes_before_the_general_one(self) -> None:
        made = settings(first_token_timeout="30s").model_dump()
        made["models"] = {"fake/primary": {"first_token_timeout": "5m"}}
        stage = Stage(Engine(Settings.model_validate(made)))
        stage.user()
        stage.answer("msg_2")
        assert stage.last(effects.StartTimer).after_s == 300

    def test_a_run_that_has_not_begun_to_ask_is_not_stopped(self) -> None:
        stage = stage_with(first_token_timeout="30s")
        stage.user()
        stage.busy()
        self.fire(stage)
        (again,) = stage.finish(stage.last(effects.FetchMessages), Fetched(messages=(stored_turn(),)))
        assert isinstance(again, effects.StartTimer)
        assert stage.all(effects.Abort) == []

    def test_one_that_asked_before_we_looked_is_answered(self) -> None:
        stage = stage_with(first_token_timeout="30s")
        stage.user()
        stage.busy()
        self.fire(stage)
        stage.finish(stage.last(effects.FetchMessages), Fetched(messages=TestUnseenTurn().history()))
        stage.error(ABORTED)
        stage.aborted()
        assert stage.asked == [A]

    @pytest.fixture
    def told(self) -> Stage:
        """Return a stage whose host tells when it asks a model."""
        stage = stage_with(first_token_timeout="30s")
        stage.engine.tells_requests = True
        stage.user()
        stage.answer("msg_2")
        return stage

    def test_a_model_that_was_not_asked_is_not_silent(self, told: Stage) -> None:
        for _ in range(5):
            self.fire(told)
        assert told.all(effects.Abort) == []
        assert told.requested() == [effects.StartTimer(told.session, "first_token", 1, 30)]
        self.fire(told)
        assert len(told.all(effects.Abort)) == 1

    def test_it_is_asked_in_time_or_the_turn_is_sent_again(self, told: Stage) -> None:
        for _ in range(6):  # 180 s
            self.fire(told)
        assert len(told.all(effects.Abort)) == 1

    def test_a_request_may_be_told_before_its_step(self, told: Stage) -> None:
        told.requested()
        told.content("msg_2", "tool")
        told.requested()
        told.answer("msg_3")
        self.fire(told)
        assert len(told.all(effects.Abort)) == 1

    def test_each_step_has_its_own_request(self, told: Stage) -> None:
        told.requested()
        told.content("msg_2", "tool")
        told.answer("msg_3")
        self.fire(told)
        assert told.all(effects.Abort) == []

    def test_the_request_of_a_fallback_is_waited_for_as_well(self, told: Stage) -> None:
        told.requested()
        told.retry()
        told.aborted()
        told.accepted()
        self.fire(told)
        assert len(told.all(effects.Abort)) == 1
        told.requested()
        self.fire(told)
        assert len(told.all(effects.Abort)) == 2

    def test_a_request_after_a_stop_starts_no_timer(self, told: Stage) -> None:
        told.abort_requested()
        assert told.requested() == []

    def test_zero_switches_it_off(self) -> None:
        stage = stage_with(first_token_timeout=0)
        stage.user()
        stage.answer("msg_2")
        assert stage.all(effects.StartTimer) == []


class TestPrune:
    """Quiet sessions are forgotten, but for the primary of those that were moved."""

    def test_a_quiet_session_goes(self) -> None:
        stage = Stage()
        stage.user()
        stage.engine.prune(stage.now + SESSION_LIFE_S + 1)
        assert stage.engine.session(stage.session) is None

    def test_P4_the_primary_of_a_moved_session_is_remembered(self) -> None:
        stage = stage_with(cooldown="2h")
        on_retry(stage)
        stage.fail_over("msg_3", A)
        stage.idle()
        stage.now += SESSION_LIFE_S + 1
        stage.engine.prune(stage.now)
        assert stage.engine.session(stage.session) is None
        assert stage.choose(A) is None
        stage.now += 7200
        assert stage.choose(A) == PRIMARY


def stored_turn(message: str = "msg_1") -> StoredMessage:
    def part(number: int, kind: str, **raw: str) -> Part:
        given = {"id": f"prt_{number}", "sessionID": "ses_1", "messageID": message, "type": kind, **raw}
        return Part(id=f"prt_{number}", message_id=message, session_id="ses_1", type=kind, raw=given)

    return StoredMessage(
        info=UserMessage(id=message, session_id="ses_1", model=PRIMARY, created_at=1.0, agent="build"),
        parts=(
            part(1, "text", text="Look at this"),
            part(2, "file", mime="image/png", url="data:,"),
            part(3, "file", mime="text/plain", url="data:,"),
        ),
    )
