"""Who listens hears every row once, in order, whenever it came and however slow it is."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from fallback_plugin.agent.bus import Bus
from fallback_plugin.agent.journal import StoredTurn
from fallback_plugin.agent.records import HostEvent, PassingEvent, StoredEvent
from fallback_plugin.agent.store import Store, events, messages
from fallback_plugin.agent.store.store import READERS
from fallback_plugin.agent.subscription import EVENTS_LOST, Subscription
from fallback_plugin.errors import AgentError
from tests.agent.persisted import Host, answer_info, in_file, text_part, texts

pytestmark = pytest.mark.anyio

DAY_S = 24 * 3600.0


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "data")
    yield host
    host.close()


@pytest.fixture
async def bus(host: Host) -> Bus:
    return Bus(host.store)


async def heard(subscription: Subscription) -> list[HostEvent]:
    """Return everything there is to hear by now."""
    with anyio.fail_after(5):
        subscription.end()
        return [event async for event in subscription]


def types(found: list[HostEvent]) -> list[str]:
    return [event.type for event in found]


def sequences(found: list[HostEvent]) -> list[int]:
    return [event.sequence for event in found if isinstance(event, StoredEvent)]


async def grow(turn: StoredTurn, text: str) -> None:
    await turn.append("prt_t", "text", text)
    if (job := turn.flush()) is not None:
        await job


async def open_text(host: Host, session_id: str, text: str = "") -> StoredTurn:
    run, turn = await host.turn(session_id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    if text:
        await grow(turn, text)
    return turn


async def test_a_listener_hears_what_is_committed_from_then_on(host: Host, bus: Bus) -> None:
    await host.session()
    subscription = bus.subscribe()

    session = await host.session()

    (event,) = await heard(subscription)
    assert (event.type, event.session_id) == ("session.created", session.id)


async def test_a_listener_hears_only_what_it_wants(host: Host, bus: Bus) -> None:
    one, other = await host.session(), await host.session()
    subscription = bus.subscribe(wanted=lambda event: event.session_id == one.id)

    await host.accepted(other.id)
    await host.accepted(one.id)

    assert [event.session_id for event in await heard(subscription)] == [one.id]


async def test_a_listener_that_left_is_forgotten(bus: Bus) -> None:
    with bus.subscribe():
        assert bus.listeners == 1

    assert bus.listeners == 0


async def test_a_closed_bus_lets_its_listeners_go(host: Host, bus: Bus) -> None:
    subscription = bus.subscribe()
    await host.session()

    bus.close()

    assert types([event async for event in subscription]) == ["session.created"]


async def test_H3_a_listener_has_taken_what_came_before_the_event_it_asks_for(host: Host, bus: Bus) -> None:
    with bus.subscribe() as subscription:
        await host.session()
        async with anyio.create_task_group() as tasks:
            waiting = anyio.Event()

            async def wait() -> None:
                await bus.until_taken(within_s=60)
                waiting.set()

            tasks.start_soon(wait)
            assert (await anext(subscription)).type == "session.created"
            await anyio.wait_all_tasks_blocked()
            assert not waiting.is_set()  # it may be on its way to the client still

            await host.session()
            await anext(subscription)
            with anyio.fail_after(5):
                await waiting.wait()


async def test_H3_what_is_published_later_is_not_waited_for(host: Host, bus: Bus) -> None:
    with bus.subscribe() as subscription:
        await host.session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(bus.until_taken, within_s=60))
            await anyio.wait_all_tasks_blocked()
            await host.session()
            for _ in range(2):  # the second is never dealt with
                await anext(subscription)


async def test_H3_who_hears_nothing_new_holds_nothing_up(host: Host, bus: Bus) -> None:
    await host.session()
    with bus.subscribe(), bus.subscribe(wanted=lambda event: event.type == "nothing"):
        bus.publish(PassingEvent(session_id=None, type="tui.toast.show", properties={}))
        await bus.until_taken(within_s=60)


async def test_H3_a_listener_that_leaves_is_waited_for_no_longer(host: Host, bus: Bus) -> None:
    subscription = bus.subscribe()
    await host.session()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bus.until_taken, within_s=60))
        await anyio.wait_all_tasks_blocked()
        subscription.close()


async def test_H3_a_listener_that_lags_is_waited_for_once_until_it_has_caught_up(
    host: Host, bus: Bus
) -> None:
    with bus.subscribe() as slow:
        await host.session()
        await bus.until_taken(within_s=0)  # in vain
        await host.session()
        await bus.until_taken(within_s=60)  # not waited for

        for _ in range(2):
            await anext(slow)
        await host.session()  # the first one has been dealt with: it is waited for again
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(bus.until_taken, within_s=60))
                await anyio.wait_all_tasks_blocked()
                assert slow.taken < slow.offered
                for _ in range(2):
                    tasks.start_soon(anext, slow)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
        assert slow.taken == slow.offered


async def test_H3_a_listener_that_reads_the_log_has_taken_a_page_when_it_asks_for_what_follows(
    host: Host, bus: Bus
) -> None:
    for _ in range(3):
        await host.session()
    with bus.subscribe(after=0) as subscription:
        for number in range(3):
            assert subscription.taken == 0, number
            await anext(subscription)
        with anyio.move_on_after(0):
            await anext(subscription)
        await bus.until_taken(within_s=60)
        assert subscription.taken == subscription.offered


async def test_a_toast_is_heard_by_those_who_are_there(bus: Bus) -> None:
    toast = PassingEvent(session_id=None, type="tui.toast.show", properties={"message": "hi"})
    subscription = bus.subscribe()

    bus.publish(toast)

    assert await heard(subscription) == [toast]
    assert await heard(bus.subscribe(after=0)) == []


async def test_a_listener_that_comes_back_hears_what_it_missed(host: Host, bus: Bus) -> None:
    session = await host.session()
    await host.answered(session.id)
    missed = host.store.last_event - 3
    subscription = bus.subscribe(after=missed)
    await host.accepted(session.id)

    found = await heard(subscription)

    assert sequences(found) == list(range(missed + 1, host.store.last_event + 1))
    assert {event.type for event in found} == {
        "message.updated",
        "session.updated",
        "run.ended",
        "run.updated",
    }


async def test_a_long_absence_is_read_in_pages(host: Host, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    after = events.after
    monkeypatch.setattr(events, "after", lambda rows, sequence: after(rows, sequence, limit=2))
    session = await host.session()
    for _ in range(3):
        await host.answered(session.id)

    found = await heard(bus.subscribe(after=0))

    assert sequences(found) == list(range(1, host.store.last_event + 1))


async def test_a_listener_that_falls_behind_loses_no_row(host: Host) -> None:
    bus = Bus(host.store, capacity=3)
    session = await host.session()
    slow = bus.subscribe()
    first = host.store.last_event
    turn = await open_text(host, session.id)
    for text in "abcdefgh":
        await grow(turn, text)
    await turn.finish(None, "completed")

    found = await heard(slow)

    assert sequences(found) == list(range(first + 1, host.store.last_event + 1))
    assert "message.part.delta" not in types(found)


async def test_one_that_falls_behind_gets_open_text_whole_so_that_the_rest_fits(host: Host) -> None:
    bus = Bus(host.store, capacity=2)
    session = await host.session()
    slow = bus.subscribe()
    turn = await open_text(host, session.id, "Hel")
    await grow(turn, "lo")
    # Its first event is read after it fell behind; what comes from then on is live again.
    first = await anext(slow)
    await grow(turn, " you")

    found = [first, *await heard(slow)]

    assert assembled(found) == {"prt_t": "Hello you"}


def assembled(found: list[HostEvent]) -> dict[str, str]:
    """Return the texts that a client has after some events, as any client puts them together."""
    shown: dict[str, str] = {}
    for event in found:
        if event.type == "message.part.updated":
            part = event.properties["part"]
            shown[part["id"]] = part.get("text", "")
        elif event.type == "message.part.delta":
            shown[event.properties["partID"]] += event.properties["delta"]
    return {part_id: text for part_id, text in shown.items() if part_id == "prt_t"}


async def test_report_S16_a_refresh_shows_all_text_there_is_and_goes_on(host: Host, bus: Bus) -> None:
    session = await host.session()
    turn = await open_text(host, session.id, "before ")

    page, subscription = await bus.snapshot(lambda rows: messages.page(rows, session.id))
    await grow(turn, "after")

    assert texts(page.items)[-1] == ("assistant", "before ")
    assert [event.properties["delta"] for event in await heard(subscription)] == ["after"]


class BusyReaders:
    """Keep the store's readers from the next question until they are let go."""

    def __init__(self, store: Store) -> None:
        self._go_on = threading.Event()
        self._held = [
            asyncio.ensure_future(store.read(lambda _: self._go_on.wait(5))) for _ in range(READERS)
        ]

    async def let_go(self) -> None:
        self._go_on.set()
        await asyncio.gather(*self._held)


@pytest.mark.parametrize("is_closed_before", [False, True])
@pytest.mark.parametrize("count", range(4))
async def test_a_snapshot_while_text_grows_neither_repeats_nor_misses_any(
    host: Host, bus: Bus, count: int, *, is_closed_before: bool
) -> None:
    """Whatever is committed between the subscription and the read is in one of them, not in both."""
    session = await host.session()
    turn = await open_text(host, session.id, "0 ")
    readers = BusyReaders(host.store)
    reading = asyncio.create_task(bus.snapshot(lambda rows: messages.page(rows, session.id)))
    await asyncio.sleep(0)
    for number in range(1, count + 1):
        await grow(turn, f"{number} ")
    if is_closed_before:
        await turn.put_part(text_part("msg_a", text="the end", end=True))
    await readers.let_go()
    page, subscription = await reading
    if not is_closed_before:
        for number in range(count + 1, 5):
            await grow(turn, f"{number} ")
    shown = [
        PassingEvent(session_id=None, type="message.part.updated", properties={"part": part})
        for part in page.items[-1]["parts"]
    ]

    found = assembled([*shown, *await heard(subscription)])

    assert found == {"prt_t": "the end" if is_closed_before else "0 1 2 3 4 "}


async def test_a_snapshot_that_fails_leaves_no_listener(bus: Bus) -> None:
    with pytest.raises(AgentError, match="Session not found"):
        await bus.snapshot(lambda rows: messages.page(rows, "ses_none"))

    assert bus.listeners == 0


async def test_one_who_gives_up_waiting_misses_nothing(host: Host, bus: Bus) -> None:
    session = await host.session()
    subscription = bus.subscribe(after=0)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(subscription)

    assert scope.cancelled_caught
    assert [event.session_id for event in await heard(subscription)] == [session.id]


async def test_one_who_comes_back_too_late_is_told(host: Host, bus: Bus) -> None:
    session = await host.session()
    await host.answered(session.id)
    host.clock.now += DAY_S + 1
    await host.store.write(lambda tx: events.fold(tx.rows, tx.now))
    await host.session()

    found = await heard(bus.subscribe(after=2))

    assert types(found) == [EVENTS_LOST, "session.created"]
    assert found[0].properties == {"after": 2}


async def test_one_who_missed_nothing_of_what_is_gone_is_not_told(host: Host, bus: Bus) -> None:
    await host.answered((await host.session()).id)
    known = host.store.last_event
    host.clock.now += DAY_S + 1
    await host.store.write(lambda tx: events.fold(tx.rows, tx.now))

    assert await heard(bus.subscribe(after=known)) == []


async def test_one_who_knows_more_than_there_is_is_told(host: Host, bus: Bus) -> None:
    """A backup was put in place of the database."""
    await host.session()

    assert types(await heard(bus.subscribe(after=99))) == [EVENTS_LOST]


async def test_events_of_a_busy_or_young_session_are_kept(host: Host) -> None:
    old, busy, young = [await host.session() for _ in range(3)]
    await host.answered(old.id)
    await host.active(busy.id)
    host.clock.now += DAY_S + 1
    await host.answered(young.id)

    await host.store.write(lambda tx: events.fold(tx.rows, tx.now))

    kept = {session for (session,) in in_file(host.folder, "SELECT DISTINCT session FROM event")}
    assert kept == {busy.id, young.id}


async def test_a_restart_goes_on_with_the_sequence(host: Host, tmp_path: Path) -> None:
    await host.session()
    last = host.store.last_event
    host.close()

    again = Host(tmp_path / "data", start="b")
    subscription = Bus(again.store).subscribe(after=last)
    await again.session()

    assert sequences(await heard(subscription)) == [last + 1]
    again.close()
