"""Where a session stands on its chain: cooldowns, the next candidate, plan and commit, and the way back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallback_plugin.fallback.shared_health import SessionHealth, SharedHealth
from fallback_plugin.fallback.state import FallbackState, Plan, Refusal
from fallback_plugin.health import HealthView
from fallback_plugin.health.closure import Closure
from fallback_plugin.health.scope import closing_key
from fallback_plugin.model_ref import ModelRef

PRIMARY = ModelRef("anthropic", "opus")
FIRST = ModelRef("openai", "gpt")
SECOND = ModelRef("google", "gemini")
THIRD = ModelRef("ollama", "qwen")
CHAIN = (FIRST, SECOND, THIRD)

NOW = 1_000.0
COOLDOWN_S = 60.0
USABLE_AT = NOW + COOLDOWN_S


def close(state: FallbackState, model: ModelRef, until: float = USABLE_AT) -> None:
    """Close a model in the health that the state sees."""
    shared = state.health.shared
    closures = {**shared.view.closures, closing_key(model, "model"): Closure(until, "rate_limit", 1, NOW)}
    shared.view = HealthView(shared.view.now, closures)


def look(state: FallbackState, now: float) -> None:
    """Let the state see health as it is at ``now``."""
    state.health.shared.view = HealthView(now, state.health.shared.view.closures)


def on(model: ModelRef) -> FallbackState:
    """Return a state on a primary, with a health of its own in which all is open."""
    return FallbackState.on(model, SessionHealth(SharedHealth(HealthView(NOW)), "ses_1"))


def step(state: FallbackState, now: float = NOW, chain: tuple[ModelRef, ...] = CHAIN) -> Plan:
    """Take one step along the chain, the failed model cooling for a minute."""
    plan = state.plan(chain, now, max_attempts=10)
    assert isinstance(plan, Plan)
    assert state.commit(plan)
    close(state, plan.failed, now + COOLDOWN_S)
    return plan


def on_first_fallback() -> FallbackState:
    state = on(PRIMARY)
    step(state)
    return state


def on_last_fallback() -> FallbackState:
    state = on(PRIMARY)
    for _ in CHAIN:
        step(state)
    return state


def test_a_new_state_runs_on_its_primary_before_the_chain() -> None:
    state = on(PRIMARY)

    assert (state.original, state.current, state.index) == (PRIMARY, PRIMARY, -1)


def test_a_new_state_has_no_failures_attempts_or_pending_model() -> None:
    state = on(PRIMARY)

    assert (state.attempts, state.pending) == (0, None)


def test_a_model_that_never_failed_does_not_cool() -> None:
    assert not on(PRIMARY).cooling(FIRST, NOW)


@pytest.mark.parametrize(
    ("now", "cooling"),
    [(NOW, True), (USABLE_AT - 0.001, True), (USABLE_AT, False), (USABLE_AT + 1, False)],
    ids=["at the failure", "just before the end", "at the very end", "after it"],
)
def test_a_failed_model_cools_until_the_end_of_its_cooldown(*, now: float, cooling: bool) -> None:
    state = on(PRIMARY)
    close(state, PRIMARY)

    look(state, now)

    assert state.cooling(PRIMARY, now) is cooling


def test_variants_of_one_model_cool_apart() -> None:
    high, low = ModelRef("openai", "gpt", "high"), ModelRef("openai", "gpt", "low")
    state = on(high)

    close(state, high)

    assert not state.cooling(low, NOW)


def test_an_empty_chain_has_no_candidate() -> None:
    assert on(PRIMARY).next_candidate((), NOW) is None


def test_the_first_candidate_is_the_head_of_the_chain() -> None:
    assert on(PRIMARY).next_candidate(CHAIN, NOW) == 0


def test_the_search_goes_on_after_the_present_place() -> None:
    assert on_first_fallback().next_candidate(CHAIN, NOW) == 1


def test_a_cooling_candidate_is_skipped() -> None:
    state = on(PRIMARY)
    close(state, FIRST)

    assert state.next_candidate(CHAIN, NOW) == 1


def test_a_candidate_whose_cooldown_ended_is_offered_again() -> None:
    state = on(PRIMARY)
    close(state, FIRST)

    assert state.next_candidate(CHAIN, USABLE_AT) == 0


def test_no_candidate_is_left_while_all_cool() -> None:
    state = on(PRIMARY)
    for model in CHAIN:
        close(state, model)

    assert state.next_candidate(CHAIN, NOW) is None


def test_no_candidate_is_left_at_the_end_of_the_chain() -> None:
    assert on_last_fallback().next_candidate(CHAIN, NOW) is None


def test_the_search_does_not_wrap_around_once_cooldowns_end() -> None:
    assert on_last_fallback().next_candidate(CHAIN, USABLE_AT + 3600) is None


def test_the_current_model_is_no_candidate() -> None:
    assert on(FIRST).next_candidate(CHAIN, NOW) == 1


def test_a_chain_of_the_current_model_alone_has_no_candidate() -> None:
    assert on(FIRST).next_candidate((FIRST,), NOW) is None


def test_every_repetition_of_the_current_model_is_skipped() -> None:
    assert on(FIRST).next_candidate((FIRST, FIRST, SECOND, FIRST), NOW) == 2


def test_a_plan_names_what_is_left_what_comes_and_its_place() -> None:
    assert on(PRIMARY).plan(CHAIN, NOW, max_attempts=10) == Plan(PRIMARY, FIRST, 0)


def test_planning_changes_nothing() -> None:
    state = on_first_fallback()
    before = state.snapshot()

    state.plan(CHAIN, NOW, max_attempts=10)

    assert state.snapshot() == before


def test_planning_twice_gives_the_same_plan() -> None:
    state = on(PRIMARY)

    assert state.plan(CHAIN, NOW, max_attempts=10) == state.plan(CHAIN, NOW, max_attempts=10)


def test_a_chain_of_the_current_model_alone_is_refused_as_exhausted() -> None:
    assert on(FIRST).plan((FIRST,), NOW, max_attempts=10) == Refusal("exhausted")


def test_a_plan_is_refused_when_no_candidate_is_left() -> None:
    assert on_last_fallback().plan(CHAIN, NOW, max_attempts=10) == Refusal("exhausted")


@pytest.mark.parametrize("attempts", [2, 3], ids=["at the cap", "above it"])
def test_a_plan_is_refused_when_the_advances_are_used_up(attempts: int) -> None:
    state = FallbackState(original=PRIMARY, current=PRIMARY, attempts=attempts)

    assert state.plan(CHAIN, NOW, max_attempts=2) == Refusal("max_attempts")


def test_one_advance_below_the_cap_is_allowed() -> None:
    state = FallbackState(original=PRIMARY, current=PRIMARY, attempts=1)

    assert isinstance(state.plan(CHAIN, NOW, max_attempts=2), Plan)


def test_a_commit_moves_the_session_to_the_planned_model() -> None:
    state = on(PRIMARY)

    step(state)

    assert (state.current, state.index, state.attempts) == (FIRST, 0, 1)


def test_a_commit_confirms_the_pending_model() -> None:
    state = on(PRIMARY)
    plan = state.plan(CHAIN, NOW, max_attempts=10)
    assert isinstance(plan, Plan)
    state.pending = FIRST

    state.commit(plan)

    assert state.pending is None


def test_a_plan_is_carried_out_once() -> None:
    state = on(PRIMARY)
    plan = step(state)
    after_the_first = state.snapshot()

    second = state.commit(plan)

    assert (second, state.snapshot()) == (False, after_the_first)


def test_a_plan_older_than_another_change_is_refused() -> None:
    state = on(PRIMARY)
    old = state.plan(CHAIN, NOW, max_attempts=10)
    assert isinstance(old, Plan)
    step(state)
    step(state)
    before = state.snapshot()

    accepted = state.commit(old)

    assert (accepted, state.snapshot()) == (False, before)


def test_plan_and_commit_walk_the_chain_to_its_end() -> None:
    state = on(PRIMARY)

    walked = [step(state).model for _ in CHAIN]

    assert tuple(walked) == CHAIN


def test_preparing_moves_the_session_and_leaves_the_new_model_pending() -> None:
    state = on(PRIMARY)

    planned = state.prepare(CHAIN, NOW, max_attempts=10)

    assert (planned, state.current, state.pending) == (Plan(PRIMARY, FIRST, 0), FIRST, FIRST)


def test_preparing_again_and_again_advances_step_by_step() -> None:
    state = on(PRIMARY)

    for _ in range(2):
        state.prepare(CHAIN, NOW, max_attempts=10)

    assert (state.current, state.index, state.attempts) == (SECOND, 1, 2)


def test_preparing_succeeds_one_advance_below_the_cap() -> None:
    state = FallbackState(original=PRIMARY, current=PRIMARY, attempts=9)

    state.prepare(CHAIN, NOW, max_attempts=10)

    assert (state.current, state.attempts) == (FIRST, 10)


@pytest.mark.parametrize(
    ("chain", "max_attempts", "reason"),
    [(CHAIN, 1, "max_attempts"), ((FIRST,), 10, "exhausted"), ((), 10, "exhausted")],
    ids=["advances used up", "no candidate left", "no chain"],
)
def test_a_refused_preparation_leaves_the_state_alone(
    chain: tuple[ModelRef, ...], max_attempts: int, reason: str
) -> None:
    state = on_first_fallback()
    before = state.snapshot()

    planned = state.prepare(chain, NOW, max_attempts=max_attempts)

    assert isinstance(planned, Refusal)
    assert (planned.reason, state.snapshot()) == (reason, before)


def test_a_new_turn_gets_all_its_advances() -> None:
    state = FallbackState(original=PRIMARY, current=PRIMARY, attempts=10)

    state.begin_turn()

    assert isinstance(state.plan(CHAIN, NOW, max_attempts=10), Plan)


def test_a_new_turn_waits_for_nothing() -> None:
    state = FallbackState(original=PRIMARY, current=PRIMARY, pending=FIRST)

    state.begin_turn()

    assert state.pending is None


def test_a_new_turn_stays_on_the_fallback_and_keeps_the_cooldowns() -> None:
    state = on_first_fallback()

    state.begin_turn()

    assert (state.current, state.index) == (FIRST, 0)
    assert state.cooling(PRIMARY, NOW)


def test_there_is_nothing_to_recover_on_the_primary() -> None:
    assert not on(PRIMARY).recover(NOW)


def test_recovery_is_refused_while_the_primary_cools() -> None:
    assert not on_first_fallback().recover(USABLE_AT - 1)


def test_a_refused_recovery_changes_nothing() -> None:
    state = on_first_fallback()
    before = state.snapshot()

    state.recover(USABLE_AT - 1)

    assert state.snapshot() == before


def test_the_primary_comes_back_at_the_end_of_its_cooldown() -> None:
    state = on_first_fallback()

    assert state.recover(USABLE_AT)
    assert state.current == PRIMARY


@pytest.mark.parametrize(("field", "value"), [("index", -1), ("attempts", 0), ("pending", None)])
def test_recovery_resets(field: str, value: object) -> None:
    state = on_first_fallback()
    state.pending = FIRST

    state.recover(USABLE_AT)

    assert getattr(state, field) == value


def test_after_recovery_the_chain_begins_anew() -> None:
    state = on_last_fallback()

    state.recover(NOW + 3600)

    assert state.plan(CHAIN, NOW + 3600, max_attempts=10) == Plan(PRIMARY, FIRST, 0)


def test_restoring_undoes_a_commit() -> None:
    state = on_first_fallback()
    before = state.snapshot()
    step(state)

    state.restore(before)

    assert state.snapshot() == before


def test_restoring_leaves_the_primary_alone() -> None:
    state = on(PRIMARY)
    before = state.snapshot()
    state.original = SECOND

    state.restore(before)

    assert state.original == SECOND


@settings(deadline=None)
@given(
    chain=st.lists(st.sampled_from([PRIMARY, *CHAIN]), max_size=6).map(tuple),
    max_attempts=st.integers(0, 8),
    cooldowns=st.lists(st.floats(-10, 100), max_size=20),
)
def test_one_turn_never_takes_more_steps_than_chain_or_cap_allow(
    chain: tuple[ModelRef, ...], max_attempts: int, cooldowns: list[float]
) -> None:
    state = on(PRIMARY)

    places = []
    for cooldown_s in cooldowns:
        planned = state.prepare(chain, NOW, max_attempts=max_attempts)
        close(state, state.current, NOW + cooldown_s)
        if isinstance(planned, Plan):
            places.append(planned.index)

    assert len(places) <= min(len(chain), max_attempts)
    assert places == sorted(set(places))
