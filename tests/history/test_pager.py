"""What of the Python pager is Python's: cancellation, identity, arguments. All else is in the vectors."""

import asyncio

import pytest

from fallback_plugin.history import HistoryPager, Outcome, Page, PageRequest

pytestmark = pytest.mark.anyio


class Server:
    """Answers at once, or never while ``is_silent``."""

    def __init__(self) -> None:
        self.is_silent = False
        self.requests: list[PageRequest] = []
        self.cancelled = 0

    async def fetch(self, request: PageRequest) -> Page:
        self.requests.append(request)
        try:
            while self.is_silent:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        end = int(request.before or 100)
        numbers = range(end - request.limit, end)
        items = [{"info": {"id": f"m{number}", "sessionID": "A"}, "position": number} for number in numbers]
        return Page(items=items, next_before=str(end - request.limit))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def pager(server: Server) -> HistoryPager:
    pager = HistoryPager(server.fetch, page_rows=5, window_rows=20)
    await pager.open("A")
    return pager


async def test_an_operation_needs_no_awaiting(pager: HistoryPager) -> None:
    pager.load_older()

    await pager.idle()

    assert len(pager.messages) == 10


async def test_who_waits_no_longer_gives_the_request_up(pager: HistoryPager, server: Server) -> None:
    server.is_silent = True

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pager.load_older(), 0.01)

    assert server.cancelled == 1
    assert pager.under_way is None
    server.is_silent = False
    assert await pager.load_older() == "applied"


async def test_a_call_that_is_cancelled_before_it_ran_is_no_longer_under_way(pager: HistoryPager) -> None:
    pager.load_older().cancel()

    await pager.idle()

    assert await pager.load_older() == "applied"


async def test_the_second_of_two_jumps_may_be_cancelled_alone(pager: HistoryPager) -> None:
    first, second = pager.jump_to_start(), pager.jump_to_start()

    second.cancel()

    assert await first == "applied"


async def test_an_iteration_that_is_cancelled_frees_the_pager(pager: HistoryPager, server: Server) -> None:
    server.is_silent = True

    async def take_all() -> None:
        async for _ in pager.ensure_all(max_rows=100, max_bytes=1_000_000):
            pass

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(take_all(), 0.01)

    assert server.cancelled == 1
    assert pager.under_way is None


async def test_a_fetch_that_cancels_itself_is_a_failure() -> None:
    async def fetch(request: PageRequest) -> Page:
        del request
        raise asyncio.CancelledError

    pager = HistoryPager(fetch)

    outcome: Outcome = await pager.open("A")

    assert outcome == "failed"
    assert "cancelled" in str(pager.error)


async def test_messages_that_did_not_change_are_the_same_objects(pager: HistoryPager) -> None:
    before = pager.messages
    info = {"id": "m99", "sessionID": "A", "finish": "stop"}

    pager.handle({"type": "message.updated", "properties": {"sessionID": "A", "info": info}})
    await pager.load_older()

    assert all(old is new for old, new in zip(before[:4], pager.messages[5:9], strict=True))
    assert pager.messages[9].info == info
    assert before[4].info != info


async def test_an_event_that_says_nothing_new_is_no_change(server: Server) -> None:
    changes: list[int] = []
    pager = HistoryPager(server.fetch, page_rows=5, window_rows=20, changed=lambda: changes.append(1))
    await pager.open("A")
    seen = len(changes)

    pager.handle(
        {"type": "message.part.removed", "properties": {"sessionID": "A", "messageID": "m99", "partID": "p"}}
    )
    pager.handle({"type": "session.idle", "properties": {"sessionID": "A"}})

    assert len(changes) == seen


@pytest.mark.parametrize(("page_rows", "window_rows"), [(0, 10), (6, 11)])
def test_a_window_holds_two_pages_at_least(server: Server, page_rows: int, window_rows: int) -> None:
    with pytest.raises(ValueError, match="at least twice"):
        HistoryPager(server.fetch, page_rows=page_rows, window_rows=window_rows)
