"""The engine in our own agent host, which asks about every failed request and never replays."""

from typing import Any

import pytest

from fallback_plugin.events import Ending, HostError
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, Failed, TimerFired, TimerName
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.hookspecs import ModelAttempt, NextModel
from fallback_plugin.model_ref import ModelRef
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error, settings

EVERYONE = frozenset({PRIMARY, A, B})


def begin(chain: tuple[Any, ...] = ("spare/a", "third/b"), **more: Any) -> Stage:
    """Return a stage with a turn whose first model is being asked."""
    stage = Stage(Engine(settings(chain, **more), host_kind="agent"))
    stage.user()
    stage.answer("msg_2")
    return stage


def failed(
    stage: Stage,
    *tried: ModelRef,
    status: int = 429,
    ending: Ending = "refused",
    reachable: frozenset[ModelRef] = EVERYONE,
    message: str = "msg_1",
) -> NextModel | None:
    """Tell that the last of ``tried`` failed, and return who is to be asked."""
    model = tried[-1]
    request = ModelAttempt(
        session_id=stage.session,
        message_id=message,
        agent="build",
        host_model=model,
        model=model,
        tried=tried,
        error=HostError(name="APIError", status_code=status) if ending == "refused" else HostError(name=""),
        ending=ending,
        reachable=reachable,
        is_fixed=False,
    )
    stage.look()
    answer, todo = stage.engine.attempt_failed(request, stage.now)
    stage.take(todo)
    return answer


def end_in_failure(stage: Stage, message: str, model: ModelRef, status: int = 429) -> None:
    """Let the host report the turn as failed, the way it does when nobody answered."""
    error = api_error(status)
    stage.answer(message, model, error=error, time={"created": 1, "completed": 2})
    stage.error(error)
    stage.idle()


@pytest.mark.parametrize("switching", ["auto", "replay", "inline"])
def test_a_failed_request_is_answered_whatever_the_way_of_switching(switching: str) -> None:
    stage = begin(switching=switching)

    assert failed(stage, PRIMARY) == A
    assert [toast.variant for toast in stage.toasts] == ["warning"]


def test_the_new_models_own_message_shows_that_it_answers() -> None:
    stage = begin()
    failed(stage, PRIMARY)
    stage.answer("msg_3", A)
    stage.content("msg_3")

    assert [toast.variant for toast in stage.toasts] == ["warning", "success"]
    assert str(A) in stage.toasts[-1].message


def test_the_chain_is_walked_to_its_end_and_the_end_said_once() -> None:
    stage = begin()
    walked: list[NextModel | None] = [failed(stage, PRIMARY)]
    stage.answer("msg_3", A)
    walked.append(failed(stage, PRIMARY, A))
    stage.answer("msg_4", B)
    walked.append(failed(stage, PRIMARY, A, B))
    end_in_failure(stage, "msg_4", B)

    assert walked == [A, B, None]
    assert [toast.variant for toast in stage.toasts] == ["warning", "warning", "error"]


@pytest.mark.parametrize(
    ("ending", "words"), [("refused", "rate limited (429)"), ("empty", "answered nothing")]
)
def test_the_last_model_is_judged_by_its_request_and_not_by_the_reasons_of_all(
    ending: Ending, words: str
) -> None:
    """The error that ends a turn holds the reasons of other models; the last one did not fail of those."""
    stage = begin()
    stage.close(A, stage.now + 600)
    stage.close(B, stage.now + 600)
    assert failed(stage, PRIMARY, ending=ending) is None

    error = api_error(429, "No model could answer.\nspare/a: not asked, overloaded and closed")
    stage.answer("msg_2", error=error, time={"created": 1, "completed": 2})
    stage.error(error)
    stage.idle()

    (toast,) = stage.toasts
    assert toast.message.startswith(f"{PRIMARY}: {words}")
    assert {close.reason for close in stage.all(effects.CloseModel)} <= {"rate_limit"}


def test_nothing_is_ever_stopped_or_sent_again() -> None:
    """Also where a model is left that the host could not ask, and where the policy would ask again."""
    for reachable, status in ((frozenset({PRIMARY}), 429), (EVERYONE, 418)):
        stage = begin()
        failed(stage, PRIMARY, status=status, reachable=reachable)
        end_in_failure(stage, "msg_2", PRIMARY, status)

        assert stage.all(effects.Abort) == []
        assert stage.prompts == []
        assert not stage.in_flight


def test_a_variant_of_the_chain_can_be_asked() -> None:
    stage = begin(chain=({"model": "spare/a", "variant": "high"},))

    assert failed(stage, PRIMARY) == ModelRef("spare", "a", "high")


def test_a_model_that_says_nothing_is_left_by_its_request() -> None:
    stage = begin(first_token_timeout=5)
    number = stage.last(effects.StartTimer).attempt
    stage.now += 5
    stage.tell(TimerFired(stage.session, "first_token", number))
    left = stage.last(effects.GiveUp)
    stage.finish(left, Done())

    assert left.flowing
    assert failed(stage, PRIMARY, ending="silent") == A


def test_so_is_one_that_falls_silent_in_the_midst_of_its_answer() -> None:
    stage = begin(stall_timeout=5)
    stage.content("msg_2")
    number = stage.last(effects.StartTimer).attempt
    stage.now += 7  # its growth is seen once a second only
    stage.tell(TimerFired(stage.session, "stall", number))
    stage.finish(stage.last(effects.GiveUp), Done())

    assert stage.all(effects.Abort) == []
    assert failed(stage, PRIMARY, ending="silent") == A


def test_H12_a_stall_is_seen_within_a_second_of_its_time() -> None:
    stage = begin(stall_timeout=3)
    stage.content("msg_2")
    timer = stage.last(effects.StartTimer)
    stage.now += timer.after_s
    stage.tell(TimerFired(stage.session, "stall", timer.attempt))

    assert 3 < timer.after_s <= 4
    assert stage.last(effects.GiveUp).flowing


def test_a_silence_that_ended_by_itself_is_nobodys_failure() -> None:
    stage = begin(first_token_timeout=5)
    number = stage.last(effects.StartTimer).attempt
    stage.now += 5
    stage.tell(TimerFired(stage.session, "first_token", number))
    stage.content("msg_2")
    stage.finish(stage.last(effects.GiveUp), Failed("no such request", 404))

    assert stage.all(effects.Abort) == []
    assert stage.prompts == []


def test_a_stopped_turn_is_nobodys_to_answer() -> None:
    stage = begin()
    stage.answer("msg_2", error=ABORTED, time={"created": 1, "completed": 2})

    assert failed(stage, PRIMARY) is None


class TestLaterPrompts:
    """H1: the chain answers a later prompt's failure as the first one's, in any order of events."""

    @staticmethod
    def well_answered(stage: Stage, message: str, step: str, *, busy_first: bool) -> None:
        """Run one turn to its good end."""
        TestLaterPrompts.begun(stage, message, step, busy_first=busy_first)
        stage.content(step)
        stage.answer(step, parent=message, finish="stop", time={"created": 1, "completed": 2})
        stage.idle()

    @staticmethod
    def begun(stage: Stage, message: str, step: str, *, busy_first: bool, **info: Any) -> None:
        """Let the host show that it works on a new message."""
        if busy_first:
            stage.busy()
        stage.user(message, **info)
        if not busy_first:
            stage.busy()
        stage.answer(step, parent=message)

    @pytest.mark.parametrize("busy_first", [True, False])
    @pytest.mark.parametrize("number", [2, 5, 20])
    def test_H1_the_nth_prompts_failure_is_answered(self, number: int, *, busy_first: bool) -> None:
        """Also where later messages have smaller ids: they may be any words."""
        stage = Stage(Engine(settings(), host_kind="agent"))
        for turn in range(1, number):
            self.well_answered(stage, f"msg_{100 - turn}", f"msg_step_{turn}", busy_first=busy_first)
        self.begun(stage, "msg_000", "msg_last", busy_first=busy_first)

        assert failed(stage, PRIMARY, message="msg_000") == A

    def test_H1_a_host_clock_that_was_set_back_hides_no_turn(self) -> None:
        stage = Stage(Engine(settings(), host_kind="agent"))
        self.well_answered(stage, "msg_1", "msg_2", busy_first=True)
        self.begun(stage, "msg_3", "msg_4", busy_first=True, time={"created": (stage.now - 3600) * 1000})

        assert failed(stage, PRIMARY, message="msg_3") == A

    def test_H1_a_turn_whose_message_was_never_seen_is_followed(self) -> None:
        stage = Stage(Engine(settings(), host_kind="agent"))
        self.well_answered(stage, "msg_1", "msg_2", busy_first=True)
        stage.answer("msg_4", parent="msg_3")

        assert failed(stage, PRIMARY, message="msg_3") == A

    @pytest.mark.parametrize("after_a_turn", [True, False])
    def test_H1_a_request_names_its_turn_before_any_event_does(self, *, after_a_turn: bool) -> None:
        stage = Stage(Engine(settings(), host_kind="agent"))
        if after_a_turn:
            self.well_answered(stage, "msg_1", "msg_2", busy_first=True)

        assert failed(stage, PRIMARY, message="msg_3") == A

    def test_H1_a_request_of_a_stopped_turn_is_not_answered(self) -> None:
        """Nor is one of a turn that another message has replaced."""
        stage = Stage(Engine(settings(), host_kind="agent"))
        self.begun(stage, "msg_1", "msg_2", busy_first=True)
        stage.answer("msg_2", error=ABORTED, time={"created": 1, "completed": 2})
        assert failed(stage, PRIMARY, message="msg_1") is None

        self.begun(stage, "msg_3", "msg_4", busy_first=True)
        assert failed(stage, PRIMARY, message="msg_1") is None
        assert failed(stage, PRIMARY, message="msg_3") == A


def silence(stage: Stage, timer: TimerName = "first_token", after_s: float = 5) -> list[effects.Effect]:
    number = stage.last(effects.StartTimer).attempt
    stage.now += after_s
    return stage.tell(TimerFired(stage.session, timer, number))


@pytest.mark.parametrize(
    "more",
    [
        {"chain": ()},
        {"chain": (str(PRIMARY),)},
        {"max_attempts": 1, "chain": ({"model": "spare/a", "paid": True},)},
        {"chain": (), "policy": {"timeout": {"retry": 1}}},
        {"policy": {"timeout": "ignore"}},
        {"policy": {"timeout": "stop"}},
    ],
    ids=["no chain", "itself", "paid", "retry without a chain", "ignore", "stop"],
)
@pytest.mark.parametrize("timer", ["first_token", "stall"])
def test_P12_a_slow_model_is_waited_for_where_nobody_else_can_answer(
    more: dict[str, Any], timer: TimerName
) -> None:
    stage = begin(first_token_timeout=5, stall_timeout=5, **more)
    if timer == "stall":
        stage.content("msg_2")
    done = silence(stage, timer, after_s=20)

    assert [type(effect) for effect in done] == [effects.Toast, effects.Record]
    assert stage.toasts[-1].title == "Slow model"
    assert stage.all(effects.GiveUp) == []


def test_P12_the_last_model_of_the_chain_is_waited_for() -> None:
    stage = begin(first_token_timeout=5)
    assert failed(stage, PRIMARY) == A
    stage.answer("msg_3", A)
    stage.close(B, until=stage.now + 600)
    silence(stage)

    assert stage.all(effects.GiveUp) == []
    assert str(A) in stage.toasts[-1].message


def test_P12_a_failure_after_the_wait_is_judged_as_ever() -> None:
    stage = begin(first_token_timeout=5)
    stage.close(A, until=stage.now + 6)
    stage.close(B, until=stage.now + 600)
    silence(stage)
    stage.now += 10

    assert failed(stage, PRIMARY) == A


def test_P12_a_model_that_is_to_be_asked_once_more_is_left() -> None:
    stage = begin(chain=(str(PRIMARY),), first_token_timeout=5, policy={"timeout": {"retry": 1}})
    silence(stage)
    stage.finish(stage.last(effects.GiveUp), Done())

    assert failed(stage, PRIMARY, ending="silent") == PRIMARY


def test_P12_opencode_run_waits_too() -> None:
    stage = Stage(Engine(settings((str(PRIMARY),), first_token_timeout=5), host_kind="run"))
    stage.user()
    stage.answer("msg_2")
    silence(stage)

    assert stage.all(effects.GiveUp) == []
    assert stage.toasts[-1].title == "Slow model"
