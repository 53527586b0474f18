"""Each model of a chain that did not answer has its reason, and time heals only some of them."""

from collections.abc import Mapping

import pytest

from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.context import HEALED_BY_TIME
from fallback_plugin.fallback.effects import Record
from fallback_plugin.fallback.exhaustion import heals, unanswered
from fallback_plugin.fallback.shared_health import SessionHealth, SharedHealth
from fallback_plugin.fallback.state import FallbackState, PassedOver, Refusal, Unfit, any_model
from fallback_plugin.health.closure import Closure
from fallback_plugin.health.scope import closing_key
from fallback_plugin.health.view import HealthView
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FAILURE_KINDS, FailureKind
from tests.fallback.stage import PRIMARY, A, B, Stage, api_error

NOW = 1_000_000.0
EXHAUSTED = Refusal("exhausted")
LIMITED = Failure(kind="rate_limit", http_status=429)


def state_on(
    model: ModelRef = PRIMARY,
    closures: Mapping[ModelRef, tuple[float, FailureKind]] | None = None,
) -> FallbackState:
    records = {
        closing_key(each, "model"): Closure(until, kind, 1, NOW - 10)
        for each, (until, kind) in (closures or {}).items()
    }
    health = SessionHealth(SharedHealth(HealthView(NOW, records)), "ses_1")
    return FallbackState.on(model, health)


def rows(
    state: FallbackState,
    reasons: Mapping[ModelRef, Failure] | None = None,
    refusal: Refusal = EXHAUSTED,
    unfit: Unfit = any_model,
    closing: Mapping[ModelRef, float] | None = None,
) -> list[PassedOver]:
    reasons = {PRIMARY: LIMITED} if reasons is None else reasons
    found = unanswered(reasons, (A, B), state, NOW, refusal=refusal, unfit=unfit, closing=closing or {})
    return list(found)


def test_P9_every_entry_of_the_chain_has_a_row() -> None:
    state = state_on(closures={A: (NOW + 60, "overload")})

    def unfit(model: ModelRef) -> str | None:
        return "unknown to the host" if model == B else None

    assert rows(state, unfit=unfit) == [
        PassedOver(PRIMARY, "rate limited (429)"),
        PassedOver(A, "overloaded before", NOW + 60),
        PassedOver(B, "unknown to the host"),
    ]


def test_P9_a_primary_outside_the_chain_has_one_as_well() -> None:
    state = state_on(closures={PRIMARY: (NOW + 60, "rate_limit")})

    assert rows(state, {A: LIMITED, B: LIMITED})[-1] == PassedOver(PRIMARY, "rate limited before", NOW + 60)


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_P9_only_what_time_heals_names_a_time(kind: FailureKind) -> None:
    state = state_on(closures={A: (NOW + 60, kind)})

    primary, first, _ = rows(state, {PRIMARY: Failure(kind=kind)}, closing={PRIMARY: NOW + 30})

    assert primary.until == (NOW + 30 if heals(Failure(kind=kind)) else None)
    assert first.until == (NOW + 60 if kind in HEALED_BY_TIME else None)


def test_P9_a_quota_is_back_when_its_reset_was_told() -> None:
    assert not heals(Failure(kind="quota"))
    assert heals(Failure(kind="quota", retry_after_s=3600))


@pytest.mark.parametrize(
    ("refusal", "words"),
    [("max_attempts", "not asked, max_attempts is used up"), ("exhausted", "not asked again")],
)
def test_P9_an_open_model_that_was_not_asked_says_why(refusal: str, words: str) -> None:
    (_, first, _) = rows(state_on(), refusal=Refusal(refusal))  # type: ignore[arg-type]

    assert first == PassedOver(A, words)


def test_P9_the_turns_toast_and_its_record_hold_every_reason() -> None:
    # Given a chain whose first model rests and whose second refuses the key
    stage = Stage()
    stage.close(A, stage.now + 60)
    stage.user()
    stage.answer("msg_2")
    stage.retry()
    stage.fail_over("msg_3", B)

    # When nobody is left
    stage.error(api_error(401))

    # Then each has a line, the last names one that time heals, and so does what is kept
    *lines, last = stage.toasts[-1].message.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "fake/primary: rate limited",
        "third/b: refused the key (401)",
        "spare/a: rate limited before",
    ]
    assert "third/b" not in last
    record = stage.all(Record)[-1]
    assert record.why is not None
    assert [each.model for each in record.why.passed_over] == [PRIMARY, A]
