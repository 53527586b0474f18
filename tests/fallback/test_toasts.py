"""What the person at the screen reads."""

from datetime import datetime

import pytest

from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.classify import Failure
from fallback_plugin.fallback.state import PassedOver
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import FAILURE_KINDS, FailureKind
from fallback_plugin.wire.toast import Toast

FAILED = ModelRef("anthropic", "opus")
NEXT = ModelRef("openai", "gpt", "high")
LIMITED = Failure(kind="rate_limit", http_status=429)
HALF_PAST_TWO = datetime(2026, 11, 27, 14, 30).astimezone().timestamp()


def test_every_kind_of_failure_has_its_words() -> None:
    assert set(toasts.KIND_WORDS) == set(FAILURE_KINDS)


def test_no_two_kinds_share_their_words() -> None:
    assert len(set(toasts.KIND_WORDS.values())) == len(FAILURE_KINDS)


def test_a_failure_is_told_with_its_status() -> None:
    assert toasts.describe(LIMITED) == "rate limited (429)"


def test_a_failure_of_the_connection_does_not_claim_that_nobody_was_reached() -> None:
    assert toasts.describe(Failure(kind="transport")) == "connection failed"


@pytest.mark.parametrize(
    ("kind", "words"), [("auth", "no key is set"), ("model_not_found", "unknown to the host")]
)
def test_of_a_request_that_was_never_sent_no_provider_is_blamed(kind: FailureKind, words: str) -> None:
    assert toasts.describe(Failure(kind=kind, local=True)) == words


def test_an_answer_that_was_cut_off_is_said_to_be() -> None:
    assert toasts.describe(Failure(kind="transport", cut_off=True)) == "answer was cut off"


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_a_failure_without_a_status_is_told_in_words_alone(kind: FailureKind) -> None:
    assert toasts.describe(Failure(kind=kind)) == toasts.KIND_WORDS[kind]


def test_a_dispatch_says_what_failed_why_and_what_is_tried() -> None:
    toast = toasts.switching(FAILED, LIMITED, NEXT)

    assert toast.message == "anthropic/opus: rate limited (429). Trying openai/gpt:high …"


def test_a_dispatch_does_not_claim_that_the_switch_is_made() -> None:
    toast = toasts.switching(FAILED, LIMITED, NEXT)

    assert (toast.variant, "now on" in toast.message.lower()) == ("warning", False)


def test_success_names_the_model_that_answers() -> None:
    assert toasts.switched(NEXT) == Toast(
        title="Model fallback", message="Now on openai/gpt:high.", variant="success", duration_s=5
    )


def test_P19_success_says_why_and_until_when_the_other_rests() -> None:
    left = PassedOver(FAILED, toasts.describe(LIMITED), HALF_PAST_TWO)

    assert toasts.switched(NEXT, left).message == (
        "Now on openai/gpt:high. anthropic/opus: rate limited (429), rests until 14:30."
    )


def test_P19_success_names_no_time_where_waiting_does_not_help() -> None:
    left = PassedOver(FAILED, "refused the key (401)")

    assert toasts.switched(NEXT, left).message == (
        "Now on openai/gpt:high. anthropic/opus: refused the key (401)."
    )


def test_a_reduced_turn_names_what_the_model_did_not_get() -> None:
    toast = toasts.degraded(NEXT, frozenset({"file", "agent"}))

    assert toast.message == "openai/gpt:high got the turn without: agent, file."


def test_the_way_back_names_the_primary() -> None:
    assert toasts.recovered(FAILED).message == "Back on anthropic/opus."


def test_P9_exhaustion_gives_every_model_a_line_with_its_reason() -> None:
    toast = toasts.exhausted(
        [PassedOver(FAILED, "rate limited (429)"), PassedOver(NEXT, "unknown to the host")]
    )

    assert toast.message.splitlines() == [
        "anthropic/opus: rate limited (429)",
        "openai/gpt:high: unknown to the host",
    ]


def test_P9_exhaustion_names_the_model_that_is_back_first_and_when_by_the_clock_on_the_wall() -> None:
    toast = toasts.exhausted(
        [
            PassedOver(FAILED, "rate limited", HALF_PAST_TWO + 3600),
            PassedOver(NEXT, "overloaded", HALF_PAST_TWO),
            PassedOver(ModelRef("a", "b"), "refused the key"),
        ]
    )

    assert toast.message.splitlines() == [
        "anthropic/opus: rate limited, rests until 15:30",
        "openai/gpt:high: overloaded, rests until 14:30",
        "a/b: refused the key",
        "First back: openai/gpt:high at 14:30.",
    ]


def test_exhaustion_is_an_error_and_stays_longest() -> None:
    toast = toasts.exhausted([PassedOver(FAILED, "rate limited")])

    assert (toast.variant, toast.duration_s) == ("error", 8)


def test_without_a_chain_the_toast_says_which_setting_is_missing() -> None:
    toast = toasts.no_chain(FAILED, LIMITED, "Set fallback_models in fallback.toml.")

    assert "anthropic/opus: rate limited (429)" in toast.message
    assert "fallback_models" in toast.message


def test_a_switch_that_could_not_be_made_says_why() -> None:
    toast = toasts.stuck(FAILED, "the host did not stop its run")

    assert toast.message == "anthropic/opus failed, and the host did not stop its run."


def test_no_toast_repeats_what_the_provider_sent() -> None:
    failure = Failure(kind="auth", http_status=401, provider_code="sk-secret", evidence="phrase:sk-secret")

    shown = [
        toasts.switching(FAILED, failure, NEXT),
        toasts.exhausted([PassedOver(FAILED, toasts.describe(failure))]),
        toasts.switched(NEXT, PassedOver(FAILED, toasts.describe(failure))),
        toasts.no_chain(FAILED, failure, "Set fallback_models."),
    ]

    assert not any("sk-secret" in toast.title + toast.message for toast in shown)


def test_P12_a_wait_says_why_nobody_else_answers() -> None:
    said = [toasts.waiting(FAILED, advice).message for advice in (None, "Set them in /f.toml.")]

    assert said == [
        "anthropic/opus is silent. Still waiting: no other model can take over.",
        "anthropic/opus is silent. Still waiting: no fallback_models are in force. Set them in /f.toml.",
    ]
