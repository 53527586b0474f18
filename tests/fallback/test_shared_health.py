"""What one session's failure means for the others: what is closed, and who finds out that it works again."""

import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.health import MemoryHealth
from fallback_plugin.health.scope import Scope
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.event import read_event
from tests.fallback.stage import ABORTED, PRIMARY, A, B, Stage, api_error, settings

SIBLING = ModelRef("fake", "sibling")


def sessions(count: int, chain: tuple[str, ...] = ("spare/a", "third/b"), **changes: object) -> list[Stage]:
    """Return sessions of processes of their own that share health, all on the primary."""
    health = MemoryHealth()
    return [
        Stage(Engine(settings(chain, **changes)), session=f"ses_{number}", health=health)
        for number in range(count)
    ]


def fail(stage: Stage, error: dict[str, object] | None = None, message: str = "msg_1") -> None:
    """Fail a turn's primary; the next model answers."""
    stage.user(message)
    stage.answer(f"{message}_a", parent=message)
    if error is None:
        stage.retry()
    else:
        stage.error(error)
        stage.idle()
    stage.aborted()
    stage.accepted()


def test_what_failed_in_one_session_is_not_asked_in_another() -> None:
    one, other = sessions(2)
    fail(one)
    assert other.choose(PRIMARY) == A


def test_a_refused_key_closes_all_models_of_its_provider_and_no_other() -> None:
    one, other = sessions(2, ("fake/sibling", "spare/a"))
    fail(one, api_error(401))
    assert one.asked == [A]
    assert other.choose(SIBLING) == A
    assert other.engine.health.view.closed_until(A) < other.now


def test_an_overloaded_model_closes_itself_alone() -> None:
    one, _ = sessions(2, ("fake/sibling", "spare/a"))
    fail(one, api_error(529))
    assert one.asked == [SIBLING]


def test_two_failures_of_one_model_each_never_close_their_provider() -> None:
    stage, other = sessions(2, ("fake/sibling", "fake/third", "spare/a"))
    fail(stage, api_error(404))
    stage.user("msg_1", SIBLING)
    stage.answer("msg_9", SIBLING)
    stage.error(api_error(404))
    stage.idle()
    stage.aborted()
    assert stage.asked == [SIBLING, ModelRef("fake", "third")]
    assert other.choose(ModelRef("fake", "third")) is None


def test_variants_of_a_model_are_closed_each_for_itself() -> None:
    stage = Stage(Engine(settings(("fake/primary:high", "spare/a"))))
    fail(stage)
    assert stage.asked == [ModelRef("fake", "primary", "high")]


@pytest.mark.parametrize(("text", "scope"), [("suspended due to insufficient balance", "upstream")])
def test_an_aggregators_own_trouble_with_a_vendor_closes_that_vendors_models(text: str, scope: Scope) -> None:
    kimi, other = ModelRef("openrouter", "moonshot/k2"), ModelRef("openrouter", "moonshot/k1")
    stage = Stage(Engine(settings((str(other), "openrouter/zai/glm"))))
    stage.user(model=kimi)
    stage.answer("msg_2", kimi)
    stage.error(api_error(429, text))
    stage.idle()
    stage.aborted()
    assert stage.asked == [ModelRef("openrouter", "zai/glm")]
    stage.accepted()
    assert stage.all(effects.CloseModel)[0].scope == scope


def test_a_failure_is_booked_on_the_model_that_was_called() -> None:
    stage, other = sessions(2)
    fail(stage)
    stage.user("msg_1", A)
    stage.answer("msg_3", A)
    stage.error(api_error(401))
    stage.idle()
    stage.aborted()
    stage.accepted()
    closed = [effect.model for effect in stage.all(effects.CloseModel)]
    assert closed == [PRIMARY, A]
    assert other.choose(A) == B


def test_with_every_candidate_closed_none_is_taken_and_the_first_back_is_said() -> None:
    stage = Stage()
    stage.close(A, stage.now + 30)
    stage.close(B, stage.now + 3600)
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    assert stage.all(effects.Abort) == []
    (toast,) = stage.toasts
    assert toast.title == "All fallbacks exhausted"
    assert "First back: spare/a at " in toast.message


class TestHalfOpen:
    """After its time a model is asked by one session; the others wait for what comes out."""

    def after_the_cooldown(self, count: int = 3) -> list[Stage]:
        stages = sessions(count, cooldown="60s")
        fail(stages[0])
        for stage in stages:
            stage.now += 61
        return stages

    def test_one_session_probes_and_the_others_stay_away(self) -> None:
        _, prober, other = self.after_the_cooldown()
        assert prober.choose(PRIMARY) is None
        assert other.choose(PRIMARY) == A

    def test_the_prober_itself_may_ask_again(self) -> None:
        _, prober, _ = self.after_the_cooldown()
        assert [prober.choose(PRIMARY), prober.choose(PRIMARY)] == [None, None]

    def test_its_answer_opens_the_model_for_all(self) -> None:
        _, prober, other = self.after_the_cooldown()
        prober.choose(PRIMARY)
        prober.user()
        prober.answer("msg_2")
        prober.content("msg_2")
        assert len(prober.all(effects.Reopen)) == 1
        assert other.choose(PRIMARY) is None
        assert other.engine.health.view.entries() == ()

    def test_its_failure_closes_the_model_for_longer(self) -> None:
        _, prober, other = self.after_the_cooldown()
        prober.choose(PRIMARY)
        fail(prober)
        other.now += 119
        assert other.choose(PRIMARY) == A
        other.now += 2
        assert other.choose(PRIMARY) is None

    def test_a_probe_nobody_ends_is_over_after_its_time(self) -> None:
        _, prober, other = self.after_the_cooldown()
        prober.choose(PRIMARY)
        other.now += 121
        assert other.choose(PRIMARY) is None

    def test_a_probe_the_person_stops_is_given_back(self) -> None:
        _, prober, other = self.after_the_cooldown()
        prober.choose(PRIMARY)
        prober.user()
        prober.answer("msg_2")
        prober.error(ABORTED)
        assert other.choose(PRIMARY) is None

    def test_two_copies_in_one_session_agree(self) -> None:
        stages = self.after_the_cooldown(2)
        copy = Stage(Engine(settings()), session="ses_1", health=stages[1].health, now=stages[1].now)
        assert stages[1].choose(PRIMARY) is None
        assert copy.choose(PRIMARY) is None

    def test_a_session_on_its_fallback_goes_back_only_as_the_prober(self) -> None:
        stages = self.after_the_cooldown()
        stages[0].began("msg_3", A)
        stages[0].idle()
        stages[1].choose(PRIMARY)
        assert stages[0].choose(PRIMARY) == A
        assert "Model recovered" not in [toast.title for toast in stages[0].toasts]

    def test_a_switch_passes_over_a_model_that_somebody_else_probes(self) -> None:
        one, prober, switching = sessions(3)
        one.close(A, one.now + 60)
        for stage in (prober, switching):
            stage.now += 61
        assert prober.choose(A) is None
        fail(switching)
        assert switching.asked == [B]

    @pytest.mark.parametrize(("chain", "asked"), [(("spare/a", "third/b"), [B]), (("spare/a",), [])])
    def test_a_probe_begun_between_plan_and_claim_is_seen(
        self, chain: tuple[str, ...], asked: list[ModelRef]
    ) -> None:
        stage = Stage(Engine(settings(chain)))
        stage.close(A, stage.now + 60)
        stage.now += 61
        stage.user()
        stage.answer("msg_2")
        seen_by_the_plan = stage.health.view(stage.now)
        key = seen_by_the_plan.half_open(A)
        assert key is not None
        stage.health.begin_probe(key, "ses_9", stage.now, ttl_s=120)
        stage.engine.health.view = seen_by_the_plan
        now = stage.now
        retry = {"type": "retry", "attempt": 1, "message": "Rate limit reached", "next": now * 1000 + 2000}
        raw = {"type": "session.status", "properties": {"sessionID": stage.session, "status": retry}}
        stage.take(stage.engine.handle(read_event(raw, sequence=99), now))
        if asked:
            stage.aborted()
        assert stage.asked == asked
        assert stage.in_flight is bool(asked)


class TestCleared:
    """What a session knows of a model by itself never outlives health."""

    def clear(self, stage: Stage) -> None:
        stage.health.clear([key for key, _ in stage.health.view(stage.now).entries()])

    @pytest.mark.parametrize("error", [None, api_error(401), api_error(503)])
    def test_P5_what_is_cleared_may_be_asked_by_the_session_in_which_it_failed(
        self, error: dict[str, object] | None
    ) -> None:
        one, other = sessions(2)
        fail(one, error)
        one.began("msg_3", A)
        one.idle()
        assert (one.choose(PRIMARY), other.choose(PRIMARY)) == (A, A)
        self.clear(one)
        assert (one.choose(PRIMARY), other.choose(PRIMARY)) == (None, None)

    def test_P5_what_another_sessions_answer_opens_is_open_to_the_one_in_which_it_failed(self) -> None:
        one, other = sessions(2)
        fail(one)
        one.began("msg_3", A)
        one.idle()
        other.now += 1
        other.user()
        other.answer("msg_2")
        other.content("msg_2")
        assert one.choose(PRIMARY) is None

    def test_P5_the_answer_of_a_closed_model_opens_it(self) -> None:
        (stage,) = sessions(1)
        for model in (PRIMARY, A, B):
            stage.close(model, stage.now + 3600)
        stage.now += 1
        assert stage.choose(PRIMARY) is None
        stage.user()
        stage.answer("msg_2")
        stage.content("msg_2")
        assert stage.health.view(stage.now).closed_until(PRIMARY) < stage.now
        assert stage.health.view(stage.now).closed_until(A) > stage.now

    def test_P5_an_answer_asked_for_before_the_failure_opens_nothing(self) -> None:
        (stage,) = sessions(1)
        stage.user()
        stage.answer("msg_2")
        stage.now += 1
        stage.close(PRIMARY, stage.now + 3600)
        stage.content("msg_2")
        assert stage.health.view(stage.now).closed_until(PRIMARY) > stage.now

    def test_P5_a_failure_that_closes_nothing_keeps_its_model_out_of_its_own_turn_only(self) -> None:
        stage = Stage(Engine(settings(("spare/a", "fake/primary", "third/b"))))
        stage.user()
        stage.answer("msg_2")
        stage.error(api_error(400, "This model has no word for it"))
        assert stage.asked == []
        stage.engine.settings = settings(
            ("spare/a", "fake/primary", "third/b"), policy={"bad_request": "fallback"}
        )
        stage.user("msg_3")
        stage.answer("msg_4", parent="msg_3")
        stage.error(api_error(400, "This model has no word for it"))
        stage.idle()
        stage.aborted()
        stage.accepted()
        stage.user("msg_3", A)
        stage.answer("msg_5", A, parent="msg_3")
        stage.error(api_error(400, "Nor has this"))
        stage.idle()
        stage.aborted()
        stage.accepted()
        assert stage.asked == [A, B]
        assert stage.health.view(stage.now).entries() == ()
        assert stage.choose(PRIMARY) is None

    def test_P5_what_a_failure_closes_stays_out_of_its_turn_whatever_health_says(self) -> None:
        stage = Stage(Engine(settings(("spare/a", "fake/sibling", "third/b"), cooldown="0s")))
        fail(stage, api_error(401))
        assert stage.asked == [A]
        stage.user("msg_1", A)
        stage.answer("msg_3", A)
        stage.error(api_error(503))
        stage.idle()
        stage.aborted()
        assert stage.asked == [A, B]


def test_P6_a_providers_word_that_does_not_hold_is_doubled_up_to_the_cooldown() -> None:
    (stage,) = sessions(1)
    waits = []
    for number in range(8):
        stage.user(f"msg_{number}")
        stage.answer(f"msg_{number}_a", parent=f"msg_{number}")
        stage.error(api_error(429, responseHeaders={"retry-after": "3"}))
        until = stage.health.view(stage.now).closed_until(PRIMARY)
        waits.append(round(until - stage.now))
        stage.idle()
        stage.aborted()
        stage.accepted()
        stage.now = until
    assert waits == [3, 6, 12, 24, 48, 60, 60, 60]
