"""The lane's decisions, each in one step. The reference's tests A1 to A8 begin here."""

from typing import Final

import pytest

from fallback_plugin.agent.dispatch.accept_sequence import AcceptSequence
from fallback_plugin.agent.dispatch.active_entry import ActiveEntry
from fallback_plugin.agent.dispatch.lane import Cancelled, Lane, LaneStatus, Waiting
from fallback_plugin.agent.records import Delivery, Run
from fallback_plugin.errors import AgentError
from tests.agent.dispatch.stage import prompt

EMPTY: Final = LaneStatus()


class Execution:
    def __init__(self) -> None:
        self.cancels = 0
        self.given_up = 0

    def cancel(self) -> None:
        self.cancels += 1

    def give_up(self) -> None:
        self.given_up += 1


def run(text: str, *, delivery: Delivery = "queue") -> Run:
    return Run(
        id=text,
        session_id="s",
        sequence=0,
        message_id=text,
        prompt=prompt(text, delivery=delivery),
        accepted_at=0.0,
    )


@pytest.fixture
def lane() -> Lane:
    lane = Lane(AcceptSequence())
    lane.ids.append("s")
    return lane


def activate(lane: Lane, text: str = "main") -> ActiveEntry:
    assert lane.enter(run(text), lane.reserve()) == "active"
    assert lane.active is not None
    return lane.active


def texts(lane: Lane) -> list[str]:
    return [waiting.run.prompt.text for waiting in lane.queue]


class TestReservations:
    def test_closing_three_times_leaves_none(self, lane: Lane) -> None:
        reservation = lane.reserve()

        for _ in range(3):
            reservation.close()

        assert lane.status == EMPTY

    def test_two_close_one_at_a_time(self, lane: Lane) -> None:
        first, second = lane.reserve(), lane.reserve()

        first.close()
        assert lane.accepted == 1
        second.close()
        assert lane.accepted == 0

    def test_numbers_go_on_after_the_greatest_of_the_store_and_over_all_sessions(self) -> None:
        sequence = AcceptSequence(41)

        numbers = [Lane(sequence).reserve().sequence for _ in range(3)]

        assert numbers == [42, 43, 44]

    def test_the_last_one_takes_the_mark_along(self, lane: Lane) -> None:
        first, second = lane.reserve(), lane.reserve()
        lane.cancel()

        first.close()
        assert lane.mark == 2
        second.close()
        assert lane.mark == 0


class TestCancel:
    def test_a1_one_cancel_hits_what_is_active_and_what_is_accepted(self, lane: Lane) -> None:
        entry = activate(lane)
        entry.execution = execution = Execution()
        reservation = lane.reserve()

        hit = lane.cancel()

        assert execution.cancels == 1
        assert reservation.is_covered
        assert hit == Cancelled(is_active=True, active=run("main"), accepted=1)
        assert lane.active is entry, "it is busy until it has unwound"

    def test_a2_a_covered_run_does_not_wait_behind_a_busy_lane(self, lane: Lane) -> None:
        activate(lane)
        reservation = lane.reserve()
        lane.cancel()

        assert lane.enter(run("late"), reservation) == "cancelled"
        assert (texts(lane), lane.accepted, lane.mark) == ([], 0, 0)

    def test_a3_a_step_takes_nothing_in_that_a_cancel_covers(self, lane: Lane) -> None:
        activate(lane)
        lane.enter(run("follow-up", delivery="steer"), lane.reserve())
        lane.mark = 2

        joining, dropped = lane.take_steering()

        assert joining == []
        assert [one.id for one in dropped] == ["follow-up"]
        assert texts(lane) == []

    def test_a4_a_turn_that_ends_clears_a_stale_mark(self, lane: Lane) -> None:
        entry = activate(lane)
        lane.mark = 1

        assert lane.hand_off(entry) == (None, [])
        assert lane.mark == 0

    def test_a6_one_cancel_covers_two_acceptances(self, lane: Lane) -> None:
        first, second = lane.reserve(), lane.reserve()
        lane.cancel()

        assert lane.mark == second.sequence
        assert [lane.enter(run("1"), first), lane.enter(run("2"), second)] == ["cancelled", "cancelled"]
        assert (lane.mark, lane.accepted, texts(lane)) == (0, 0, [])

    def test_a7_an_idle_cancel_changes_nothing(self, lane: Lane) -> None:
        lane.reserve().close()

        assert lane.cancel() == Cancelled()
        assert lane.mark == 0
        assert lane.enter(run("next"), lane.reserve()) == "active"

    def test_a8_what_is_accepted_after_a_cancel_is_not_covered(self, lane: Lane) -> None:
        first, second = lane.reserve(), lane.reserve()
        lane.cancel()
        third = lane.reserve()

        assert lane.enter(run("C"), third) == "active"
        assert lane.mark == second.sequence, "asking does not use it up"
        assert lane.enter(run("A"), first) == "cancelled"
        assert lane.enter(run("B"), second) == "cancelled"
        assert lane.mark == 0

    def test_a_second_cancel_leaves_the_same_mark(self, lane: Lane) -> None:
        lane.reserve()
        lane.cancel()
        lane.cancel()

        assert lane.mark == 1

    def test_a_later_cancel_covers_what_was_accepted_since(self, lane: Lane) -> None:
        lane.reserve()
        lane.cancel()
        later = lane.reserve()
        lane.cancel()

        assert later.is_covered

    def test_the_queue_is_dropped_and_given_back(self, lane: Lane) -> None:
        activate(lane)
        for text in "ab":
            lane.enter(run(text), lane.reserve())

        hit = lane.cancel()

        assert [one.prompt.text for one in hit.dropped] == ["a", "b"]
        assert lane.ending == 2, "the session is busy until their ends are written"

    def test_an_active_entry_is_asked_once(self, lane: Lane) -> None:
        entry = activate(lane)
        entry.execution = execution = Execution()

        lane.cancel()
        lane.cancel()

        assert execution.cancels == 1


class TestCancelOfTheCurrentRun:
    def test_leaves_the_queue_and_what_is_accepted(self, lane: Lane) -> None:
        entry = activate(lane)
        lane.enter(run("next"), lane.reserve())
        accepted = lane.reserve()

        hit = lane.cancel("current")

        assert entry.is_cancelled
        assert hit == Cancelled(is_active=True, active=run("main"))
        assert texts(lane) == ["next"]
        assert not accepted.is_covered

    def test_covers_the_one_that_would_be_active_next(self, lane: Lane) -> None:
        first, second = lane.reserve(), lane.reserve()

        hit = lane.cancel("current")

        assert hit.accepted == 1
        assert (first.is_covered, second.is_covered) == (True, False)

    def test_pressed_twice_covers_no_more(self, lane: Lane) -> None:
        lane.reserve()
        second = lane.reserve()

        lane.cancel("current")
        lane.cancel("current")

        assert not second.is_covered


def test_a_cancel_of_the_queue_leaves_the_active_run(lane: Lane) -> None:
    entry = activate(lane)
    lane.enter(run("next"), lane.reserve())

    hit = lane.cancel("queue")

    assert [one.id for one in hit.dropped] == ["next"]
    assert not hit.is_active
    assert not entry.is_cancelled


class TestHandOff:
    def test_only_the_entry_that_has_the_lane_gives_it_back(self, lane: Lane) -> None:
        first = activate(lane)
        lane.enter(run("second"), lane.reserve())
        second, _ = lane.hand_off(first)

        assert lane.hand_off(first) == (None, [])
        assert lane.active is second

    def test_first_come_first_served(self, lane: Lane) -> None:
        entry: ActiveEntry | None = activate(lane)
        for text in "abc":
            lane.enter(run(text), lane.reserve())
        order = []

        while entry is not None:
            entry, _ = lane.hand_off(entry)
            if entry is not None and entry.run is not None:
                order.append(entry.run.id)

        assert order == ["a", "b", "c"]

    def test_a_mark_stays_while_an_acceptance_is_open(self, lane: Lane) -> None:
        entry = activate(lane)
        reservation = lane.reserve()
        lane.cancel()

        lane.hand_off(entry)

        assert reservation.is_covered

    def test_what_a_cancel_covers_does_not_follow(self, lane: Lane) -> None:
        entry = activate(lane)
        lane.queue.extend([Waiting(run("covered"), 1), Waiting(run("later"), 3)])
        lane.mark = 2

        following, dropped = lane.hand_off(entry)

        assert [one.id for one in dropped] == ["covered"]
        assert following is not None
        assert following.run == run("later")


class TestSteering:
    def test_only_what_steers_joins_whatever_waits_before_it(self, lane: Lane) -> None:
        activate(lane)
        for text in ("plain", "steer-1", "other", "steer-2"):
            lane.enter(run(text, delivery="steer" if text.startswith("steer") else "queue"), lane.reserve())

        joining, dropped = lane.take_steering()

        assert [one.id for one, _ in joining] == ["steer-1", "steer-2"]
        assert dropped == []
        assert texts(lane) == ["plain", "other"]

    def test_partition_by_a_mark(self, lane: Lane) -> None:
        activate(lane)
        for sequence, delivery in ((1, "steer"), (2, "queue"), (3, "steer"), (4, "queue")):
            waiting = run(str(sequence), delivery="steer" if delivery == "steer" else "queue")
            lane.queue.append(Waiting(waiting, sequence))
        lane.mark = 2

        joining, dropped = lane.take_steering()

        assert [one.id for one, _ in joining] == ["3"]
        assert [one.id for one in dropped] == ["1", "2"]
        assert texts(lane) == ["4"]

    def test_a_cancel_reaches_what_is_about_to_join(self, lane: Lane) -> None:
        activate(lane)
        lane.enter(run("steer", delivery="steer"), lane.reserve())
        ((joining, reservation),), _ = lane.take_steering()

        lane.cancel()

        assert lane.enter(joining, reservation) == "cancelled"


class TestOperations:
    def test_a_busy_lane_refuses(self, lane: Lane) -> None:
        lane.reserve()

        with pytest.raises(AgentError, match="undo: session s is busy: stop it, or wait") as refused:
            lane.occupy("undo")

        assert refused.value.status == 409

    def test_prompts_wait_behind_one(self, lane: Lane) -> None:
        entry = lane.occupy("undo")
        assert lane.enter(run("next"), lane.reserve()) == "queued"

        following, _ = lane.hand_off(entry)

        assert following is not None
        assert following.run == run("next")

    def test_a_deletion_refuses_prompts_and_operations(self, lane: Lane) -> None:
        lane.deletions += 1

        with pytest.raises(AgentError, match="session s is being deleted"):
            lane.reserve()
        with pytest.raises(AgentError):
            lane.occupy("undo")


class TestBusyAndIdle:
    def test_w1_accepted_queued_and_ending_count_as_busy(self, lane: Lane) -> None:
        reservation = lane.reserve()
        assert lane.status == LaneStatus(0, 1, 0, is_busy=True)
        lane.enter(run("a"), reservation)
        lane.enter(run("b"), lane.reserve())
        assert lane.status == LaneStatus(1, 0, 1, is_busy=True)

    def test_each_id_is_told_once_each_way(self, lane: Lane) -> None:
        entry = activate(lane)

        assert lane.claim_busy() == ["s"]
        lane.ids.append("t")
        assert lane.claim_busy() == ["t"]
        assert lane.claim_idle() == []
        lane.hand_off(entry)
        assert lane.claim_idle() == ["s", "t"]
        assert lane.claim_idle() == []
