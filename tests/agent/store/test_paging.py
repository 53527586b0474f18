"""A session's messages by pages, newest first asked for, in the one order there is."""

import base64

import pytest

from fallback_plugin.agent.store import messages
from fallback_plugin.agent.store.cursors import cursor, position
from fallback_plugin.agent.store.messages import Page
from fallback_plugin.errors import AgentError
from tests.agent.persisted import Host

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session_id(host: Host) -> str:
    """A session of seven messages."""
    session = await host.session()
    await host.store.write(
        lambda tx: [
            messages.put(tx.rows, session.id, {"id": f"m{n}", "role": "user"}, run_id=None) for n in range(7)
        ]
    )
    return session.id


async def page(host: Host, session_id: str, limit: int | None = 3, before: str | None = None) -> Page:
    return await host.store.read(lambda rows: messages.page(rows, session_id, limit=limit, before=before))


async def page_from(host: Host, session_id: str, limit: int = 3, after: str | None = None) -> Page:
    return await host.store.read(lambda rows: messages.page_from(rows, session_id, limit=limit, after=after))


def ids(found: Page) -> list[str]:
    return [item["info"]["id"] for item in found.items]


async def test_pages_lead_from_the_end_to_the_start(host: Host, session_id: str) -> None:
    found, before = [], None
    for _ in range(3):
        one = await page(host, session_id, before=before)
        found.append(ids(one))
        before = one.next_cursor

    assert found == [["m4", "m5", "m6"], ["m1", "m2", "m3"], ["m0"]]
    assert before is None


async def test_pages_lead_from_the_start_to_the_end(host: Host, session_id: str) -> None:
    found, after = [], None
    for _ in range(3):
        one = await page_from(host, session_id, after=after)
        found.append(ids(one))
        after = one.next_cursor

    assert found == [["m0", "m1", "m2"], ["m3", "m4", "m5"], ["m6"]]
    assert after is None


async def test_what_comes_before_a_cursor_and_what_comes_after_it_are_everything(
    host: Host, session_id: str
) -> None:
    one = await page_from(host, session_id, limit=4)

    before = await page(host, session_id, limit=None, before=one.next_cursor)
    after = await page_from(host, session_id, limit=9, after=one.next_cursor)

    assert [*ids(before), *ids(after)] == [f"m{n}" for n in range(7)]
    assert (*before.positions, *after.positions) == tuple(range(7))


async def test_without_a_limit_it_is_all_of_them(host: Host, session_id: str) -> None:
    whole = await page(host, session_id, limit=None)

    assert (len(whole.items), whole.next_cursor) == (7, None)


async def test_a_page_that_ends_at_the_start_has_no_cursor(host: Host, session_id: str) -> None:
    assert (await page(host, session_id, limit=7)).next_cursor is None


async def test_a_cursor_stays_good_while_messages_come_and_go(host: Host, session_id: str) -> None:
    newest = await page(host, session_id)
    await host.store.write(
        lambda tx: messages.put(tx.rows, session_id, {"id": "m7", "role": "user"}, run_id=None)
    )
    await host.sessions.delete_message(session_id, "m4")

    older = await page(host, session_id, before=newest.next_cursor)

    assert ids(older) == ["m1", "m2", "m3"]
    assert older.revision == newest.revision + 1


async def test_a_position_is_given_once(host: Host, session_id: str) -> None:
    await host.sessions.delete_message(session_id, "m6")

    row = await host.store.write(
        lambda tx: messages.put(tx.rows, session_id, {"id": "m7", "role": "user"}, run_id=None)
    )

    assert row.position == 7


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "m4",
        "%%%",
        "é",
        base64.urlsafe_b64encode(b"[1, 2]").decode(),
        base64.urlsafe_b64encode(b'["ses_1", true]').decode(),
        base64.urlsafe_b64encode(b'["ses_1", 1e400]').decode(),
        base64.urlsafe_b64encode(b"\xff").decode(),
        cursor("ses_other", 3),
    ],
)
async def test_a_cursor_that_is_none_is_refused(host: Host, session_id: str, bad: str) -> None:
    with pytest.raises(AgentError, match="is no cursor of session ses_1") as caught:
        await page(host, session_id, before=bad)

    assert caught.value.status == 400


def test_a_cursor_holds_a_place_of_one_session() -> None:
    made = cursor("ses_1", 12)

    assert position(made, "ses_1") == 12
    assert "ses_1" not in made


async def test_a_limit_that_is_none_is_refused(host: Host, session_id: str) -> None:
    with pytest.raises(AgentError, match="limit is 0; it should be 1 or more") as caught:
        await page(host, session_id, limit=0)

    assert caught.value.status == 400


async def test_an_unknown_session_has_no_page(host: Host) -> None:
    with pytest.raises(AgentError, match="Session not found: ses_none") as caught:
        await page(host, "ses_none")

    assert caught.value.status == 404


async def test_one_message_is_read_with_its_parts(host: Host) -> None:
    run = await host.answered((await host.session()).id, "hello")

    found = await host.store.read(lambda rows: messages.one(rows, run.session_id, run.message_id))

    assert [part["text"] for part in found["parts"]] == ["hello"]
