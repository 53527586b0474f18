"""Failed requests that are answered before the host hears of them."""

from dataclasses import replace
from typing import Any, Final

import pytest

from fallback_plugin.events import Ending, HostError
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.hookspecs import ModelAttempt, NextModel
from fallback_plugin.host_client import HostKind
from fallback_plugin.model_ref import ModelRef
from tests.fallback.stage import PRIMARY, A, B, Stage, settings

LIMITED: Final = HostError(name="", status_code=429, message="Rate limit reached")
REFUSED: Final = HostError(name="", status_code=400, message="Invalid value for 'messages'.")
EVERYONE: Final = frozenset({PRIMARY, A, B})


TITLE: Final = ModelAttempt(
    session_id="ses_1",
    message_id="msg_1",
    agent="title",
    host_model=PRIMARY,
    model=PRIMARY,
    tried=(),
    error=HostError(name=""),
)


def begin(switching: str = "inline", chain: tuple[Any, ...] = ("spare/a", "third/b"), **more: Any) -> Stage:
    """Return a stage with a turn whose first request is under way."""
    stage = Stage(Engine(settings(chain, switching=switching, **more)))
    stage.user()
    stage.answer("msg_2")
    return stage


def failed(
    stage: Stage,
    *tried: ModelRef,
    error: HostError = LIMITED,
    ending: Ending = "refused",
    agent: str | None = "build",
    reachable: frozenset[ModelRef] = EVERYONE,
    message: str = "msg_1",
    host_model: ModelRef = PRIMARY,
) -> NextModel | None:
    """Tell that the request failed at the last of ``tried``, and return who is to be asked."""
    tried = tried or (host_model,)
    request = ModelAttempt(
        session_id=stage.session,
        message_id=message,
        agent=agent,
        host_model=host_model,
        model=tried[-1],
        tried=tried,
        error=error if ending == "refused" else HostError(name=""),
        ending=ending,
        reachable=reachable,
    )
    stage.look()
    answer, todo = stage.engine.attempt_failed(request, stage.now)
    stage.take(todo)
    return answer


def redirected(stage: Stage, model: ModelRef, reachable: frozenset[ModelRef] = EVERYONE) -> ModelRef | None:
    """Tell that the host is about to ask a model for a title, and return who is to be asked instead."""
    request = replace(TITLE, host_model=model, model=model, reachable=reachable)
    stage.look()
    answer, todo = stage.engine.background_model(request, stage.now)
    stage.take(todo)
    return answer


def test_a_failed_request_is_answered_by_the_next_model() -> None:
    stage = begin()
    assert failed(stage) == A
    assert stage.all(effects.Abort) == []
    assert stage.prompts == []
    assert [toast.variant for toast in stage.toasts] == ["warning"]
    assert stage.health.view(stage.now).closed_until(PRIMARY) > stage.now


@pytest.mark.parametrize("kind", ["run", "acp", "serve", "agent"])
def test_complaint_53_without_a_chain_the_first_failed_request_says_so_once(kind: HostKind) -> None:
    stage = begin(chain=())
    stage.engine.host_kind = kind
    assert [failed(stage), failed(stage)] == [None, None]
    stage.retry()
    (toast,) = stage.toasts
    assert toast.title == "No fallback configured"
    assert toast.message == f"{PRIMARY}: rate limited (429). Set fallback_models in fallback.toml."


def test_without_a_chain_a_failure_that_no_other_model_is_asked_after_says_nothing() -> None:
    stage = begin(chain=())
    assert failed(stage, error=REFUSED) is None
    assert stage.toasts == []


def test_the_chain_is_walked_request_by_request() -> None:
    stage = begin()
    assert [failed(stage), failed(stage, PRIMARY, A), failed(stage, PRIMARY, A, B)] == [A, B, None]


def test_the_new_model_is_said_to_answer_once_it_does() -> None:
    stage = begin()
    failed(stage)
    stage.content("msg_2")
    assert [toast.variant for toast in stage.toasts] == ["warning", "success"]
    assert str(A) in stage.toasts[-1].message


def test_what_the_host_still_reports_of_the_first_model_is_the_new_ones_doing() -> None:
    """The host names the first model on an answer that another gives: its failure is that one's."""
    stage = begin()
    failed(stage)
    stage.content("msg_2")
    stage.error({"name": "APIError", "data": {"statusCode": 503, "message": "overloaded"}})
    stage.idle()
    stage.aborted()
    assert stage.asked == [B]


def test_a_request_sent_to_a_model_the_turn_has_left_goes_to_the_one_it_is_on() -> None:
    stage = begin()
    failed(stage)
    assert failed(stage) == A
    assert len(stage.toasts) == 1


def test_a_request_that_a_process_before_this_one_had_moved_on_is_followed() -> None:
    stage = begin()
    assert failed(stage, A, reachable=frozenset({PRIMARY, B})) == B
    assert failed(stage, A, B, reachable=frozenset({PRIMARY, B})) is None


def test_the_next_prompt_stays_on_the_model_that_answered() -> None:
    stage = begin()
    failed(stage)
    stage.content("msg_2")
    stage.answer("msg_2", finish="stop", completed=True)
    stage.idle()
    assert stage.choose(PRIMARY) == A


@pytest.mark.parametrize("ending", ["empty", "cut", "silent"])
def test_an_answer_with_nothing_in_it_is_a_failure(ending: Ending) -> None:
    assert failed(begin(), ending=ending) == A


@pytest.mark.parametrize(
    ("ending", "words"),
    [("empty", "answered nothing"), ("cut", "answer was cut off"), ("silent", "does not answer")],
)
def test_what_became_of_the_answer_is_said(ending: Ending, words: str) -> None:
    stage = begin()
    failed(stage, ending=ending)
    assert stage.toasts[0].message == f"{PRIMARY}: {words}. Trying {A} …"


def test_an_answer_that_has_begun_is_no_other_models_to_finish() -> None:
    assert failed(begin(), ending="broken") is None


def test_a_bad_request_is_left_to_the_host() -> None:
    stage = begin()
    assert failed(stage, error=REFUSED) is None
    assert stage.toasts == []


def test_a_model_out_of_reach_is_left_to_a_replay() -> None:
    stage = begin()
    assert failed(stage, reachable=frozenset({PRIMARY, B})) is None
    stage.retry()
    stage.aborted()
    assert stage.asked == [A]


def test_a_model_with_a_variant_is_out_of_reach_and_that_is_said() -> None:
    stage = begin(chain=("spare/a:high", "third/b"))
    assert failed(stage) is None
    (record,) = stage.all(effects.Record)
    assert (record.decision, record.reason) == ("not inline", "spare/a:high: a variant needs another request")


def test_an_answer_that_had_begun_is_the_reason_to_replay() -> None:
    stage = begin()
    failed(stage, ending="broken")
    assert stage.last(effects.Record).reason == "spare/a: the answer had begun"


@pytest.mark.parametrize("switching", ["auto", "replay"])
def test_a_persons_turn_is_replayed_unless_inline_is_asked_for(switching: str) -> None:
    assert failed(begin(switching)) is None


def test_nothing_is_sent_after_the_persons_stop() -> None:
    stage = begin()
    stage.error({"name": "MessageAbortedError", "data": {"message": "Aborted"}})
    assert failed(stage) is None


def test_nothing_is_sent_while_the_turn_is_being_replayed() -> None:
    stage = begin()
    stage.retry()
    assert failed(stage) is None
    stage.aborted()
    assert stage.asked == [A]
    assert failed(stage, A, host_model=A) is None


def test_a_closed_candidate_is_passed_over() -> None:
    stage = begin()
    stage.close(A, stage.now + 600)
    assert failed(stage) == B


def test_a_candidate_that_somebody_else_probes_is_passed_over() -> None:
    stage = begin()
    stage.close(A, stage.now + 60)
    stage.now += 61
    stage.look()
    key = stage.engine.health.half_open(A)
    assert key is not None
    stage.health.begin_probe(key, "another", stage.now, ttl_s=60)
    assert failed(stage) == B


def test_an_unknown_failure_is_asked_once_more_and_then_left() -> None:
    stage = begin()
    nothing_known = HostError(name="", message="it did not work")
    assert failed(stage, error=nothing_known) == PRIMARY
    assert failed(stage, PRIMARY, PRIMARY, error=nothing_known) == A


def test_at_most_max_attempts_models_are_taken() -> None:
    stage = begin(max_attempts=1)
    assert [failed(stage), failed(stage, PRIMARY, A)] == [A, None]


def test_a_turn_whose_beginning_was_not_seen_is_replayed_by_its_history() -> None:
    stage = Stage(Engine(settings(switching="inline")))
    assert failed(stage) is None
    stage.retry()
    assert len(stage.all(effects.FetchMessages)) == 1


def test_a_message_that_waits_behind_the_turn_moves_nothing() -> None:
    assert failed(begin(), message="msg_9") is None


class TestChildren:
    def test_a_subagents_request_is_answered_inline_by_default(self) -> None:
        stage = self.child()
        assert failed(stage, message="msg_1") == A

    def test_a_subagent_goes_past_whom_its_request_cannot_reach(self) -> None:
        assert failed(self.child(), reachable=frozenset({PRIMARY, B})) == B

    def test_a_subagents_silence_is_told_and_not_taken_for_a_stop(self) -> None:
        assert failed(self.child(), ending="silent", reachable=frozenset()) == "final"

    def test_half_an_answer_of_a_subagent_is_shown_as_a_failure(self) -> None:
        assert failed(self.child(), ending="broken") == "final"

    @staticmethod
    def child() -> Stage:
        stage = Stage(Engine(settings(switching="auto")))
        stage.host("session.created", info={"id": "ses_1", "parentID": "ses_0"})
        stage.user()
        stage.answer("msg_2")
        return stage


@pytest.mark.parametrize(("switching", "answer"), [("auto", A), ("replay", None)])
def test_a_compaction_is_answered_inline_by_default(switching: str, answer: ModelRef | None) -> None:
    stage = Stage(Engine(settings(switching=switching)))
    stage.user()
    stage.answer("msg_2", agent="compaction", mode="compaction")
    assert failed(stage, agent="compaction") == answer


class TestTitles:
    def test_a_title_is_answered_by_a_model_of_the_turns_chain_and_moves_nothing(self) -> None:
        stage = begin("auto")
        small = ModelRef("fake", "small")
        assert failed(stage, host_model=small, agent="title") == A
        assert failed(stage, small, A, host_model=small, agent="title") == B
        assert failed(stage, small, A, B, host_model=small, agent="title") is None
        assert stage.toasts == []
        assert stage.choose(PRIMARY) is None

    def test_P1_after_a_stop_nobody_else_is_asked_for_one(self) -> None:
        """The host stops the turn alone, and goes on with the title beside it."""
        stage = begin("auto")
        stage.abort_requested()
        assert failed(stage, host_model=ModelRef("fake", "small"), agent="title") is None

    def test_P5_a_model_that_rests_is_not_asked_for_a_title(self) -> None:
        stage = begin("auto")
        assert redirected(stage, PRIMARY) is None
        failed(stage, agent="title")
        assert redirected(stage, PRIMARY) == A
        assert redirected(stage, PRIMARY, frozenset({B})) == B
        assert redirected(stage, PRIMARY, frozenset()) is None
        assert redirected(stage, A) is None
        stage.now = stage.health.view(stage.now).closed_until(PRIMARY)
        assert redirected(stage, PRIMARY) is None

    def test_P5_nobody_else_makes_one_after_a_stop_or_where_all_is_left_to_a_replay(self) -> None:
        stopped = begin("auto")
        failed(stopped, agent="title")
        stopped.abort_requested()
        assert redirected(stopped, PRIMARY) is None
        replayed = begin("replay")
        replayed.retry()
        assert redirected(replayed, PRIMARY) is None

    def test_replay_alone_leaves_titles_to_the_host(self) -> None:
        assert failed(begin("replay"), host_model=ModelRef("fake", "small"), agent="title") is None


class TestSilence:
    def test_a_silent_request_is_left_and_not_the_run(self) -> None:
        stage = begin(first_token_timeout=5)
        (timer,) = [each for each in stage.all(effects.StartTimer) if each.name == "first_token"][-1:]
        stage.tell(effects.TimerFired(stage.session, "first_token", timer.attempt))
        (given_up,) = stage.all(effects.GiveUp)
        assert stage.all(effects.Abort) == []
        stage.finish(given_up)
        assert failed(stage, ending="silent") == A

    def test_where_there_is_no_such_request_the_turn_is_replayed(self) -> None:
        stage = begin(first_token_timeout=5)
        (timer,) = [each for each in stage.all(effects.StartTimer) if each.name == "first_token"][-1:]
        stage.tell(effects.TimerFired(stage.session, "first_token", timer.attempt))
        (given_up,) = stage.all(effects.GiveUp)
        stage.finish(given_up, effects.Failed("no such request", 404))
        assert len(stage.all(effects.Abort)) == 1
