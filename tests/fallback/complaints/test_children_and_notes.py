"""What users report about subagents, notes and costs; rows are those of ``docs/reports.md``."""

from typing import Any

import anyio
import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.health import MemoryHealth
from tests.fallback.stage import PRIMARY, A, B, Stage, api_error, settings
from tests.fallback.stuck_host import StuckHost, refuse_key
from tests.fallback.turns import answered, answering, rate_limited, running


def child() -> Stage:
    stage = Stage(session="ses_child")
    stage.host("session.created", info={"id": stage.session, "parentID": "ses_1"})
    stage.user()
    stage.answer("msg_2")
    return stage


def test_complaint_68_a_failing_child_is_never_aborted_under_its_parents_wait() -> None:
    stage = child()
    for attempt in range(1, 6):
        stage.retry(attempt=attempt)
    assert stage.all(effects.Abort) == []
    assert stage.prompts == []


def test_complaint_71_a_child_that_failed_for_good_ends_its_work_and_its_parents_wait() -> None:
    stage = child()
    stage.error(api_error(429))
    stage.idle()
    stage.answer("msg_2", error=api_error(429))
    stage.idle()
    assert not stage.engine.busy(stage.session)


def test_complaint_72_a_late_error_does_not_wake_a_finished_child() -> None:
    stage = child()
    stage.content("msg_2")
    stage.idle()
    stage.answer("msg_2", error=api_error(429))
    stage.error(api_error(429))
    assert stage.all(effects.Abort) == []
    assert stage.prompts == []


def test_complaint_73_the_session_goes_back_to_the_primary_by_itself() -> None:
    stage = answered()
    stage.now += 60
    assert stage.choose(None) == PRIMARY
    assert [toast.message for toast in stage.toasts] == ["Back on fake/primary."]


@pytest.mark.anyio
async def test_complaint_77_of_two_copies_one_acts() -> None:
    health = MemoryHealth()
    async with anyio.create_task_group() as tasks:
        host: Any = StuckHost(tasks)
        for _ in range(2):
            plugin = FallbackPlugin(clock=lambda: 1_000.0, health=health)
            plugin.settings_changed(settings(), host)
            refuse_key(plugin, host)
        await anyio.wait_all_tasks_blocked()
        assert host.calls.count("abort") == 1
        tasks.cancel_scope.cancel()


def test_complaint_77_the_copy_that_may_not_act_sends_nothing_and_asks_once() -> None:
    stage = running()
    stage.grants_leases = False
    stage.retry()
    stage.retry(attempt=2)
    assert len(stage.all(effects.Claim)) == 1
    assert stage.all(effects.Abort) == []
    assert not stage.in_flight


def test_complaint_77_the_copy_that_may_not_act_follows_the_one_that_does() -> None:
    stage = running()
    stage.grants_leases = False
    stage.retry()
    stage.idle()
    stage.began("msg_3", A)
    stage.grants_leases = True
    stage.retry()
    stage.aborted()
    assert stage.asked == [B]


def test_complaint_78_the_users_pick_at_run_time_stays() -> None:
    stage = answered()
    stage.choose(B)
    stage.user("msg_5", B)
    assert stage.choose(B) is None
    assert stage.state.state is not None
    assert stage.state.state.current == B


def test_complaint_78_the_turn_itself_names_the_model_in_use() -> None:
    stage = rate_limited()
    stage.aborted()
    assert [prompt.model for prompt in stage.prompts] == [A]
    assert stage.prompts[0].message_id == "msg_1"


@pytest.mark.parametrize(
    "header", [{"retry-after": "7200"}, {"retry-after-ms": "7200000"}], ids=["seconds", "milliseconds"]
)
def test_complaint_81_the_primary_comes_back_when_its_own_limit_says_so(header: dict[str, str]) -> None:
    stage = running()
    stage.error(api_error(429, responseHeaders=header))
    stage.fail_over("msg_3", A)
    stage.idle()
    stage.now += 7_190
    assert stage.choose(PRIMARY) == A
    stage.now += 11
    assert stage.choose(PRIMARY) is None


LIMIT = "[1308] Usage limit reached for 5 hour. Your limit will reset at 2026-01-10 10:00:00"


@pytest.mark.parametrize("error", [api_error(429, LIMIT), api_error(402, "Insufficient balance")])
def test_complaint_82_a_plan_limit_and_missing_money_lead_to_another_provider(error: dict[str, Any]) -> None:
    stage = running(chain=("other/model",))
    stage.error(error)
    stage.aborted()
    assert [str(model) for model in stage.asked] == ["other/model"]


def test_complaint_83_a_failing_turn_goes_on_with_the_next_model() -> None:
    stage = answering()
    assert stage.asked == [A]
    assert stage.toasts[-1].message.startswith("Now on spare/a.")
