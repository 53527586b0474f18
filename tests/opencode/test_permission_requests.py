"""Which reply becomes of a plugin's verdict, and when none is sent."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import pytest

from fallback_plugin import hookimpl
from fallback_plugin.errors import HostCallError, WireError
from fallback_plugin.hookspecs import PermissionRequest
from fallback_plugin.opencode.permission_requests import (
    ASKED,
    DENIED,
    EVENTS,
    PermissionRequests,
    read_request,
)
from tests.plugins.fake_calls import host_of, running

pytestmark = pytest.mark.anyio

PROPERTIES: Final = {
    "id": "per_1",
    "sessionID": "ses_1",
    "permission": "bash",
    "patterns": ["echo hello"],
    "metadata": {"command": "echo hello"},
    "always": ["echo *"],
    "tool": {"messageID": "msg_1", "callID": "call_1"},
}
"""What OpenCode 1.18.33 publishes."""


def asked(**changed: object) -> dict[str, Any]:
    return {"type": ASKED, "properties": {**PROPERTIES, **changed}}


def replied(request_id: str = "per_1") -> dict[str, Any]:
    return {"type": "permission.replied", "properties": {"sessionID": "ses_1", "requestID": request_id}}


class Deciding:
    """A plugin that answers with what it is given, once it is let."""

    def __init__(self, verdict: object = None, *, waits: bool = False) -> None:
        self._verdict = verdict
        self.asked: list[PermissionRequest] = []
        self.was_asked = anyio.Event()
        self.goes_on = anyio.Event()
        if not waits:
            self.goes_on.set()

    @hookimpl
    async def permission_ask(self, request: PermissionRequest) -> object:
        self.asked.append(request)
        self.was_asked.set()
        await self.goes_on.wait()
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


class Listening:
    """A plugin that has no verdict on anything."""

    @hookimpl
    async def session_idle(self, event: object) -> None: ...


class Replies:
    """Keeps what was replied; ``error`` is raised instead of taking it."""

    def __init__(self, error: HostCallError | None = None) -> None:
        self.error = error
        self.sent: list[tuple[str, str, str | None]] = []

    async def reply_to_permission(self, request_id: str, reply: str, message: str | None = None) -> None:
        self.sent.append((request_id, reply, message))
        if self.error:
            raise self.error


@asynccontextmanager
async def taking(plugin: object, replies: Replies) -> AsyncIterator[Callable[[dict[str, Any]], None]]:
    """Take events; what they begin has ended when this does."""
    async with running(host_of(plugin)) as host:
        requests = PermissionRequests(host, replies, host_kind="serve")
        async with anyio.create_task_group() as tasks:
            yield lambda raw: requests.take(raw, tasks)


@pytest.mark.parametrize(
    ("verdict", "sent"),
    [
        ("allow", [("per_1", "once", None)]),
        ("deny", [("per_1", "reject", DENIED)]),
        ("ask", []),
        (None, []),
        ("perhaps", []),
        (RuntimeError("no idea"), []),
    ],
)
async def test_P8_a_verdict_becomes_a_reply(
    verdict: object, sent: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    plugin, replies = Deciding(verdict), Replies()

    async with taking(plugin, replies) as take:
        take(asked())

    assert plugin.asked == [
        PermissionRequest(id="per_1", session_id="ses_1", type="bash", pattern=("echo hello",))
    ]
    assert replies.sent == sent
    assert len(caplog.records) == (verdict == "perhaps" or isinstance(verdict, Exception))


async def test_P8_a_verdict_after_the_users_answer_is_not_sent() -> None:
    plugin, replies = Deciding("deny", waits=True), Replies()

    async with taking(plugin, replies) as take:
        take(asked())
        await plugin.was_asked.wait()
        take(replied())
        plugin.goes_on.set()

    assert replies.sent == []


async def test_P8_another_requests_answer_changes_nothing() -> None:
    plugin, replies = Deciding("allow", waits=True), Replies()

    async with taking(plugin, replies) as take:
        take(asked())
        await plugin.was_asked.wait()
        take(replied("per_2"))
        plugin.goes_on.set()

    assert replies.sent == [("per_1", "once", None)]


async def test_P8_a_host_that_refuses_the_reply_is_no_error() -> None:
    replies = Replies(HostCallError("permission.reply: not found (HTTP 404)", status=404))

    async with taking(Deciding("allow"), replies) as take:
        take(asked())
        take(asked(id="per_2"))

    assert {request for request, *_ in replies.sent} == {"per_1", "per_2"}


@pytest.mark.parametrize(
    "raw", [{"type": ASKED}, {"type": ASKED, "properties": {}}, asked(id=3), {"type": 7}]
)
async def test_P8_an_event_of_another_shape_is_ignored(raw: dict[str, Any]) -> None:
    plugin = Deciding("allow")

    async with taking(plugin, Replies()) as take:
        take(raw)

    assert plugin.asked == []


async def test_P8_without_a_plugin_that_answers_nothing_is_listened_to() -> None:
    replies = Replies()
    async with running(host_of(Listening())) as host, anyio.create_task_group() as tasks:
        requests = PermissionRequests(host, replies, host_kind="serve")
        assert requests.events == frozenset()
        requests.take(asked(), tasks)
    assert replies.sent == []


async def test_P8_in_opencode_run_no_verdict_can_count() -> None:
    async with running(host_of(Deciding())) as host:
        assert PermissionRequests(host, Replies(), host_kind="run").events == frozenset()
        assert PermissionRequests(host, Replies(), host_kind="tui").events == EVENTS


def test_P8_a_title_is_read_where_a_host_sends_one() -> None:
    assert read_request({**PROPERTIES, "metadata": {"title": "Run it"}}).title == "Run it"
    assert read_request({**PROPERTIES, "patterns": ["a", 3, "b"]}).pattern == ("a", "b")
    assert read_request({**PROPERTIES, "patterns": None}).pattern == ()
    with pytest.raises(WireError):
        read_request({**PROPERTIES, "permission": ""})
