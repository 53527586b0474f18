"""What a turn writes: parts that grow, and nothing after its end."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fallback_plugin.agent.journal import StoredTurn
from fallback_plugin.agent.records import PassingEvent, Run
from fallback_plugin.agent.store import segments
from fallback_plugin.errors import AgentError, FencedError, StoreError
from tests.agent.persisted import Host, answer_info, completed, in_file, text_part, texts, tool_part

pytestmark = pytest.mark.anyio


class Timers:
    """Calls that come when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], object]]] = []

    def __call__(self, delay: float, call: Callable[[], object]) -> "Timers":
        self.waiting.append((delay, call))
        return self

    def cancel(self) -> None:
        self.waiting.clear()

    def fire(self) -> Any:
        (_, call) = self.waiting.pop()
        return call()


@pytest.fixture
def timers() -> Timers:
    return Timers()


async def begun(host: Host, timers: Timers, **given: Any) -> tuple[Run, StoredTurn]:
    """Begin a turn with one open text."""
    run = await host.active((await host.session()).id)
    turn = StoredTurn(host.store, run, host.defaults, call_later=timers, **given)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    return run, turn


def deltas(host: Host) -> list[PassingEvent]:
    return [event for event in host.published if isinstance(event, PassingEvent)]


def chunks(host: Host) -> list[str]:
    return [text for (text,) in in_file(host.folder, "SELECT text FROM part_chunk ORDER BY k")]


async def test_b07_text_is_written_soon_after_it_came(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    for text in ("Hel", "lo ", "you"):
        await turn.append("prt_t", "text", text)
    ((delay, _),) = timers.waiting

    await timers.fire()

    assert delay <= 0.1
    assert chunks(host) == ["Hello you"]
    (delta,) = deltas(host)
    assert delta.properties == {
        "sessionID": run.session_id,
        "messageID": "msg_a",
        "partID": "prt_t",
        "field": "text",
        "delta": "Hello you",
        "end": 9,
    }
    assert texts(await host.history(run.session_id))[-1] == ("assistant", "Hello you")


async def test_b08_nothing_is_written_when_nothing_came(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)
    before = len(host.published)

    assert turn.flush() is None

    assert timers.waiting == []
    assert len(host.published) == before


async def test_b09_the_end_of_a_turn_takes_its_timer_back(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "Hello")

    await turn.finish(None, "completed")

    assert timers.waiting == []


async def test_much_text_is_written_at_once(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)

    await turn.append("prt_t", "text", "x" * 4096)

    assert chunks(host) == ["x" * 4096]
    assert timers.waiting == []


async def test_text_is_written_before_whatever_follows_it(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "first")

    await turn.put_part(tool_part("msg_a"))

    kinds = [event.type for event in host.published][-2:]
    assert kinds == ["message.part.delta", "message.part.updated"]


async def test_growing_text_is_no_event_in_the_log(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "Hello")
    await timers.fire()

    assert in_file(host.folder, "SELECT count(*) FROM event WHERE type LIKE '%delta'") == [(0,)]


async def test_a_finished_text_is_one_row(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "Hel")
    await timers.fire()
    await turn.append("prt_t", "text", "lo")

    await turn.put_part(text_part("msg_a", text="Hello", end=True))

    assert chunks(host) == []
    assert texts(await host.history(run.session_id))[-1] == ("assistant", "Hello")


async def test_a_part_put_without_its_text_keeps_it(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "Hello")
    ended = text_part("msg_a", end=True)
    del ended["text"]

    await turn.put_part(ended)

    assert texts(await host.history(run.session_id))[-1] == ("assistant", "Hello")
    assert host.told("message.part.updated")[-1]["part"]["text"] == "Hello"


async def test_each_growth_says_how_long_the_text_is_with_it(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)
    for text in ("Hello", " you"):
        await turn.append("prt_t", "text", text)
        await timers.fire()

    assert [(delta.part_id, delta.end) for delta in deltas(host)] == [("prt_t", 5), ("prt_t", 9)]


async def test_only_an_open_part_grows(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)
    await turn.put_part(text_part("msg_a", text="done", end=True))

    with pytest.raises(AgentError, match="part prt_t is not open"):
        await turn.append("prt_t", "text", "more")


async def test_only_text_grows(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)

    with pytest.raises(AgentError, match="only its text grows, not its state"):
        await turn.append("prt_t", "state", "more")


async def test_halves_of_a_character_are_stored(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "a\ud83d\ude00b\ud83d")
    await turn.put_part(text_part("msg_a", "prt_2", "c\ud83d", end=True))

    await turn.finish(None, "completed")

    _, answer = await host.history(run.session_id)
    assert [part["text"] for part in answer["parts"]] == ["a😀b\N{REPLACEMENT CHARACTER}", "c\ud83d"]


async def test_the_end_is_one_transaction(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers, memory_owner="digest")
    await turn.append("prt_t", "text", "Hello")
    before = len(host.published)

    await turn.finish(completed(answer_info(run)), "completed")

    assert [event.type for event in host.published[before:]] == [
        "message.part.delta",
        "message.updated",
        "message.part.updated",
        "session.updated",
        "run.ended",
    ]
    (end,) = host.told("run.ended")
    assert (end["outcome"], end["text"], end["messageID"]) == ("completed", "Hello", "msg_a")
    found = (await host.store.read(lambda rows: segments.load(rows, run.session_id))).segments
    assert [(one.start, one.end, one.owner_key, one.state) for one in found] == [(1, 1, "digest", "dirty")]


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
async def test_d14_memory_is_owed_for_completed_turns_only(host: Host, timers: Timers, outcome: Any) -> None:
    run, turn = await begun(host, timers, memory_owner="digest")

    await turn.finish(None, outcome)

    assert (await host.store.read(lambda rows: segments.load(rows, run.session_id))).segments == ()


async def test_turns_of_one_owner_are_one_segment(host: Host) -> None:
    session = await host.session()
    for owner in ("a", "a", "b"):
        run = await host.active(session.id)
        await host.runs.turn(run, memory_owner=owner).finish(None, "completed")

    found = (await host.store.read(lambda rows: segments.load(rows, session.id))).segments

    assert [(one.start, one.end, one.owner_key) for one in found] == [(1, 2, "a"), (3, 3, "b")]


async def test_g4_an_ended_run_writes_nothing(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    await host.runs.end(run, "cancelled")
    before = await host.history(run.session_id)

    for call in (
        turn.put_message(answer_info(run)),
        turn.put_message(answer_info(run, "msg_new")),
        turn.remove_message("msg_a"),
        turn.put_part(text_part("msg_a", text="late", end=True)),
        turn.finish(None, "completed"),
    ):
        with pytest.raises(FencedError):
            await call

    assert await host.history(run.session_id) == before
    assert host.ends() == [(run.id, "cancelled")]


async def test_g4_late_text_is_refused_at_the_next_call(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    await host.runs.end(run, "cancelled")
    await turn.append("prt_t", "text", "late")
    with pytest.raises(FencedError):
        await timers.fire()
    await asyncio.sleep(0)

    with pytest.raises(FencedError):
        await turn.append("prt_t", "text", "later")

    assert texts(await host.history(run.session_id))[-1] == ("assistant", "")


async def test_text_that_comes_when_the_host_stops_disturbs_nobody(host: Host, timers: Timers) -> None:
    _, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "late")
    host.close()

    with pytest.raises(StoreError, match="the host is stopping"):
        await timers.fire()


async def test_report_E16_a_late_worker_does_not_overwrite_the_next_turn(host: Host, timers: Timers) -> None:
    first, late = await begun(host, timers)
    await host.runs.end(first, "cancelled")
    second, turn = await host.turn(first.session_id)
    await turn.put_message(answer_info(second, "msg_b"))

    with pytest.raises(FencedError):
        await late.put_message(answer_info(second, "msg_b", finish="stop"))
    await turn.finish(completed(answer_info(second, "msg_b")), "completed")
    with pytest.raises(FencedError):
        await late.finish(answer_info(second, "msg_b"), "failed")

    assert host.ends() == [(first.id, "cancelled"), (second.id, "completed")]
    assert "error" not in (await host.history(first.session_id))[-1]["info"]


async def test_a_run_writes_to_its_own_messages_only(host: Host) -> None:
    first = await host.answered((await host.session()).id)
    run, turn = await host.turn(first.session_id)

    with pytest.raises(AgentError, match="is not one of run"):
        await turn.put_message(answer_info(run, f"{first.message_id}-answer"))
    with pytest.raises(AgentError, match="Message not found: msg_none"):
        await turn.put_part(text_part("msg_none"))


async def test_what_a_failed_attempt_said_is_taken_away(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    await turn.append("prt_t", "text", "half")

    await turn.remove_message("msg_a")
    await turn.put_message(answer_info(run, "msg_b"))

    assert [entry["info"]["id"] for entry in await host.history(run.session_id)] == [run.message_id, "msg_b"]
    assert host.told("message.removed") == [{"sessionID": run.session_id, "messageID": "msg_a"}]


async def test_b11_a_checkpoint_counts_as_a_change_of_the_session(host: Host, timers: Timers) -> None:
    run, turn = await begun(host, timers)
    host.clock.now += 5

    await turn.put_part(tool_part("msg_a", status="completed"))

    assert in_file(host.folder, "SELECT updated FROM session WHERE id = ?", run.session_id) == [
        (host.clock.now,)
    ]


async def test_b14_a_turn_that_said_nothing_ends_with_its_error_once(host: Host) -> None:
    session = await host.session()
    run, turn = await host.turn(session.id)
    error = {"name": "UnknownError", "data": {"message": "the model answered nothing"}}

    await turn.finish(completed(answer_info(run), error=error), "failed", error)

    _, answer = await host.history(session.id)
    assert (answer["info"]["error"], answer["parts"]) == (error, [])
    assert len(host.told("session.error")) == 1
    assert host.ends() == [(run.id, "failed")]
