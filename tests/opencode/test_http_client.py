"""The shape of every HTTP request we make, and what becomes of each kind of answer."""

import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import httpx2
import pytest
import respx
from anyio import sleep_forever

from fallback_plugin.errors import HostCallError, HostCallTimeoutError
from fallback_plugin.events import SessionStatus
from fallback_plugin.host_client import OUTDATED, HostCalls, Receipt, SessionInfo
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.network import trusted_certificates
from fallback_plugin.opencode.http_client import Deadlines, Health, OpenCodeHttpClient, connect
from fallback_plugin.wire.message import read_history
from fallback_plugin.wire.model_catalog import ModelCatalog, ModelFacts
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast

pytestmark = pytest.mark.anyio

URL: Final = "http://127.0.0.1:4096"
SESSION: Final = {"id": "ses_1", "parentID": "ses_0", "agent": "build", "title": "T"}

PROMPT: Final = Prompt(
    model=ModelRef("openai", "gpt-5.1", "high"),
    message_id="msg_1",
    agent="build",
    system="be brief",
    tools={"bash": False},
    format={"type": "text"},
)
BODY: Final = {
    "parts": [],
    "model": {"providerID": "openai", "modelID": "gpt-5.1"},
    "messageID": "msg_1",
    "agent": "build",
    "variant": "high",
    "system": "be brief",
    "tools": {"bash": False},
    "format": {"type": "text"},
}
STORED: Final = {
    "info": {
        "id": "msg_2",
        "sessionID": "ses_1",
        "role": "assistant",
        "parentID": "msg_1",
        "providerID": "openai",
        "modelID": "gpt-5.1",
        "time": {"created": 1},
    },
    "parts": [],
}


@dataclass(frozen=True)
class Exchange:
    """A call, the request it must make, and the host's answer with what the call makes of it."""

    call: Callable[[OpenCodeHttpClient], Awaitable[object]]
    method: str
    path: str
    body: object
    answer: object
    returns: object
    status: int = 200


EXCHANGES: Final = {
    "health": Exchange(
        lambda client: client.health(),
        "GET",
        "/global/health",
        None,
        {"healthy": True, "version": "1.18.33"},
        Health(healthy=True, version="1.18.33"),
    ),
    "own_directory": Exchange(
        lambda client: client.own_directory(),
        "GET",
        "/path",
        None,
        {"home": "/home", "worktree": "/", "directory": "/project"},
        "/project",
    ),
    "config": Exchange(lambda client: client.config(), "GET", "/config", None, {"agent": {}}, {"agent": {}}),
    "create_session_bare": Exchange(
        lambda client: client.create_session(),
        "POST",
        "/session",
        {},
        {"id": "ses_2"},
        SessionInfo(id="ses_2"),
    ),
    "create_session_full": Exchange(
        lambda client: client.create_session(
            title="T", parent_id="ses_0", agent="build", model=ModelRef("openai", "gpt-5.1", "high")
        ),
        "POST",
        "/session",
        {
            "title": "T",
            "parentID": "ses_0",
            "agent": "build",
            "model": {"id": "gpt-5.1", "providerID": "openai", "variant": "high"},
        },
        SESSION,
        SessionInfo(id="ses_1", parent_id="ses_0", agent="build"),
    ),
    "session": Exchange(
        lambda client: client.session("ses_1"),
        "GET",
        "/session/ses_1",
        None,
        SESSION,
        SessionInfo(id="ses_1", parent_id="ses_0", agent="build"),
    ),
    "newest_messages": Exchange(
        lambda client: client.newest_messages("ses_1", 2),
        "GET",
        "/session/ses_1/message?limit=2",
        None,
        [STORED],
        read_history([STORED]),
    ),
    "status": Exchange(
        lambda client: client.status(),
        "GET",
        "/session/status",
        None,
        {
            "ses_1": {"type": "busy"},
            "ses_2": {"type": "retry", "attempt": 2, "message": "slow down", "next": 5000},
            "ses_3": {"type": "a word of tomorrow"},
            "ses_4": None,
        },
        {
            "ses_1": SessionStatus(type="session.status", session_id="ses_1", status="busy"),
            "ses_2": SessionStatus(
                type="session.status",
                session_id="ses_2",
                status="retry",
                attempt=2,
                message="slow down",
                next_at=5.0,
            ),
        },
    ),
    "messages": Exchange(
        lambda client: client.messages("ses_1"), "GET", "/session/ses_1/message", None, [], []
    ),
    "stored_messages": Exchange(
        lambda client: client.stored_messages("ses_1"),
        "GET",
        "/session/ses_1/message",
        None,
        [{"info": {}, "parts": []}],
        [{"info": {}, "parts": []}],
    ),
    "models": Exchange(
        lambda client: client.models(),
        "GET",
        "/config/providers",
        None,
        {
            "providers": [
                {
                    "id": "openai",
                    "key": "sk-1",
                    "options": {"apiKey": "sk-2"},
                    "models": {"gpt-5.1": {"limit": {"context": 400_000, "output": 0}, "status": "active"}},
                }
            ],
            "default": {"openai": "gpt-5.1"},
        },
        ModelCatalog({"openai": {"gpt-5.1": ModelFacts(context_tokens=400_000)}}),
    ),
    "abort": Exchange(
        lambda client: client.abort("ses_1"),
        "POST",
        "/session/ses_1/abort",
        None,
        answer=True,
        returns=Receipt(),
    ),
    "prompt": Exchange(
        lambda client: client.prompt("ses_1", PROMPT),
        "POST",
        "/session/ses_1/prompt_async",
        BODY,
        None,
        Receipt(),
        status=204,
    ),
    "run_turn": Exchange(
        lambda client: client.run_turn("ses_1", PROMPT, deadline_s=5),
        "POST",
        "/session/ses_1/message",
        BODY,
        STORED,
        read_history([STORED])[0],
    ),
    "revert": Exchange(
        lambda client: client.revert("ses_1", "msg_1"),
        "POST",
        "/session/ses_1/revert",
        {"messageID": "msg_1"},
        SESSION,
        None,
    ),
    "unrevert": Exchange(
        lambda client: client.unrevert("ses_1"),
        "POST",
        "/session/ses_1/unrevert",
        None,
        SESSION,
        None,
    ),
    "delete_message": Exchange(
        lambda client: client.delete_message("ses_1", "msg_1"),
        "DELETE",
        "/session/ses_1/message/msg_1",
        None,
        answer=True,
        returns=None,
    ),
    "reply_to_permission": Exchange(
        lambda client: client.reply_to_permission("per/1", "reject", "Not here."),
        "POST",
        "/permission/per%2F1/reply",
        {"reply": "reject", "message": "Not here."},
        answer=True,
        returns=None,
    ),
    "reply_to_permission_bare": Exchange(
        lambda client: client.reply_to_permission("per_1", "once"),
        "POST",
        "/permission/per_1/reply",
        {"reply": "once"},
        answer=True,
        returns=None,
    ),
    "toast": Exchange(
        lambda client: client.toast(Toast(title="T", message="M", variant="warning", duration_s=2.5)),
        "POST",
        "/tui/show-toast",
        {"title": "T", "message": "M", "variant": "warning", "duration": 2500},
        answer=True,
        returns=None,
    ),
}

each_exchange = pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES.keys())


@pytest.fixture
async def client() -> AsyncIterator[OpenCodeHttpClient]:
    async with connect(URL, directory="/project") as opened:
        yield opened


def serve(router: respx.MockRouter, exchange: Exchange) -> respx.Route:
    """Answer every request the way the host answers this one."""
    text = None if exchange.status == 204 else json.dumps(exchange.answer)
    return router.route().respond(exchange.status, text=text)


async def test_the_client_offers_what_plugins_call(client: OpenCodeHttpClient) -> None:
    calls: HostCalls = client

    assert (calls.kind, calls.directory) == ("attach", "/project")


def test_every_call_has_its_shape_tested() -> None:
    public = {name for name in vars(OpenCodeHttpClient) if not name.startswith("_")}

    tested = {name.removesuffix("_bare").removesuffix("_full") for name in EXCHANGES}

    assert public - tested == {"kind", "directory", "at", "events", "all_events", "give_up"}


@each_exchange
async def test_a_call_sends_this_request(
    exchange: Exchange, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    route = serve(httpx2_mock, exchange)

    await exchange.call(client)

    after = ["/session/status"] if exchange.path.endswith("/abort") else []
    before = ["/session/ses_1/message"] if exchange.path.endswith("/prompt_async") else after
    request = route.calls[len(before)].request
    sent = json.loads(request.content) if request.content else None
    assert (request.method, str(request.url), sent) == (
        exchange.method,
        URL + exchange.path,
        exchange.body,
    )
    paths = [call.request.url.path for call in route.calls]
    assert paths == [*before, request.url.path, *after]


@each_exchange
async def test_a_call_says_which_folder_and_what_it_sends(
    exchange: Exchange, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    route = serve(httpx2_mock, exchange)

    await exchange.call(client)

    headers = route.calls.last.request.headers
    assert headers["x-opencode-directory"] == "/project"
    assert headers.get("content-type") == (None if exchange.body is None else "application/json")
    assert "authorization" not in headers


@each_exchange
async def test_a_call_returns_what_the_host_answered(
    exchange: Exchange, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    serve(httpx2_mock, exchange)

    assert await exchange.call(client) == exchange.returns


@each_exchange
async def test_a_refused_call_carries_status_and_the_hosts_words(
    exchange: Exchange, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    body = {"name": "NotFoundError", "data": {"message": "Session not found: ses_1"}}
    httpx2_mock.route().respond(404, json=body)

    with pytest.raises(HostCallError, match="Session not found: ses_1") as caught:
        await exchange.call(client)

    assert caught.value.status == 404


@pytest.mark.parametrize(
    "exchange",
    [
        replace(exchange, call=lambda client: client.run_turn("ses_1", PROMPT, deadline_s=0))
        if name == "run_turn"
        else exchange
        for name, exchange in EXCHANGES.items()
    ],
    ids=EXCHANGES.keys(),
)
async def test_a_call_without_answer_ends_at_its_deadline(exchange: Exchange) -> None:
    async def never(_: httpx2.Request) -> NoReturn:
        await sleep_forever()
        raise AssertionError

    at_once = Deadlines(change_s=0, abort_s=0, history_s=0, lookup_s=0, toast_s=0, boot_s=0)
    # Such a deadline may pass before the request is made, which the fixture would not forgive.
    with respx.mock(using="httpcore2", assert_all_called=False) as router:
        router.route().mock(side_effect=never)

        async with connect(URL, directory="/project", deadlines=at_once) as client:
            with pytest.raises(HostCallTimeoutError, match="within 0 s"):
                await exchange.call(client)


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (400, {"name": "BadRequest", "data": {"message": "Missing key", "kind": "Payload"}}, "Missing key"),
        (409, {"_tag": "SessionBusyError", "message": "Session is busy: ses_1"}, "Session is busy: ses_1"),
        (500, {"name": "UnknownError", "data": {}}, "UnknownError"),
        (500, [], "refused by OpenCode"),
    ],
)
async def test_the_hosts_own_words_are_found(
    status: int, content: object, words: str, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.route().respond(status, json=content)

    with pytest.raises(HostCallError, match=words):
        await client.abort("ses_1")


async def test_an_abort_tells_that_another_ends_the_run(
    client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.post("/session/ses_1/abort").respond(200, json=True)
    httpx2_mock.get("/session/status").respond(200, json={"ses_1": {"type": "retry"}})

    assert await client.abort("ses_1") == Receipt(ended=False)


async def test_a_run_that_ends_by_itself_is_not_aborted(
    client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.get("/session/status").respond(200, json={})
    httpx2_mock.post("/session/ses_1/revert").respond(200, json={"id": "ses_1"})
    httpx2_mock.get("/session/ses_1/message").respond(200, json=[])

    assert await client.abort("ses_1") == Receipt(aborted=False)


async def test_P2_a_session_at_work_whose_run_was_over_works_for_the_next_message(
    client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    route = httpx2_mock.route().respond(200, json={"ses_1": {"type": "busy"}})

    with pytest.raises(HostCallError) as refused:
        await client.abort("ses_1", run_over=True)
    assert refused.value.status == OUTDATED
    assert {call.request.method for call in route.calls} == {"GET"}


@pytest.mark.parametrize(("newest", "sent"), [("msg_1", True), ("msg_3", False)])
async def test_P2_a_message_is_not_run_again_behind_the_next_one(
    newest: str, *, sent: bool, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    user = {"sessionID": "ses_1", "role": "user", "agent": "build", "time": {"created": 1}}
    user["model"] = {"providerID": "openai", "modelID": "gpt-5.1"}
    history = [{"info": {**user, "id": each}, "parts": []} for each in dict.fromkeys(("msg_1", newest))]
    route = httpx2_mock.route().respond(200, json=history)

    with nullcontext() if sent else pytest.raises(HostCallError, match="another message"):
        await client.prompt("ses_1", PROMPT)
    assert [call.request.method for call in route.calls] == (["GET", "POST"] if sent else ["GET"])


async def test_one_whose_end_cannot_be_seen_is_aborted(
    client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.get("/session/status").respond(200, json={})
    httpx2_mock.post("/session/ses_1/revert").respond(500, json={})
    abort = httpx2_mock.post("/session/ses_1/abort").respond(200, json=True)

    assert await client.abort("ses_1") == Receipt()
    assert abort.called


async def test_one_that_does_not_end_is_aborted_at_the_deadline(httpx2_mock: respx.MockRouter) -> None:
    httpx2_mock.get("/session/status").respond(200, json={})
    httpx2_mock.post("/session/ses_1/revert").respond(409, json={})
    abort = httpx2_mock.post("/session/ses_1/abort").respond(200, json=True)

    async with connect(URL, deadlines=Deadlines(change_s=0.3)) as client:
        assert await client.abort("ses_1") == Receipt()
    assert abort.called


async def test_a_missing_password_is_named(client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter) -> None:
    httpx2_mock.route().respond(401, headers={"www-authenticate": 'Basic realm="Secure Area"'})

    with pytest.raises(HostCallError, match="OPENCODE_SERVER_PASSWORD"):
        await client.health()


async def test_a_web_page_is_no_answer(client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter) -> None:
    httpx2_mock.route().respond(200, html="<!doctype html>")

    with pytest.raises(HostCallError, match="not JSON"):
        await client.health()


@pytest.mark.parametrize("content", [[], "text", 1])
async def test_an_answer_of_another_type_is_refused(
    content: object, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.route().respond(200, text=json.dumps(content))

    with pytest.raises(HostCallError, match="expected an object"):
        await client.session("ses_1")


async def test_a_session_without_an_id_is_refused(
    client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.route().respond(200, json={"title": "T"})

    with pytest.raises(HostCallError, match="no session"):
        await client.session("ses_1")


async def test_a_refused_connection_names_the_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"

        async with connect(url, directory="/project") as client:
            with pytest.raises(HostCallError, match=url) as caught:
                await client.health()

    assert caught.value.status is None
    assert not isinstance(caught.value, HostCallTimeoutError)


@pytest.mark.parametrize("error", [httpx2.ReadError("gone"), httpx2.RemoteProtocolError("")])
async def test_a_lost_connection_is_a_failed_call(
    error: httpx2.HTTPError, client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.route().mock(side_effect=error)

    with pytest.raises(HostCallError, match=str(error) or type(error).__name__):
        await client.abort("ses_1")


async def test_a_connection_that_cannot_be_made_in_time_is_a_missed_deadline(
    client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    httpx2_mock.route().mock(side_effect=httpx2.ConnectTimeout("slow"))

    with pytest.raises(HostCallTimeoutError):
        await client.abort("ses_1")


@pytest.mark.parametrize(
    ("directory", "header"),
    [
        ("/home/jürgen/日本", "/home/j%C3%BCrgen/%E6%97%A5%E6%9C%AC"),
        ("/home/a b", "/home/a%20b"),
        ("/home/100%25", "/home/100%2525"),
        ("/home/a\nx: y", "/home/a%0Ax%3A%20y"),
    ],
)
async def test_a_folder_is_encoded_once(directory: str, header: str, httpx2_mock: respx.MockRouter) -> None:
    route = httpx2_mock.route().respond(200, json={})

    async with connect(URL, directory=directory) as client:
        await client.status()

    assert route.calls.last.request.headers["x-opencode-directory"] == header


async def test_without_a_folder_the_server_takes_its_own(httpx2_mock: respx.MockRouter) -> None:
    route = httpx2_mock.route().respond(200, json={"directory": "/project"})

    async with connect(URL) as client:
        assert await client.own_directory() == "/project"

    assert "x-opencode-directory" not in route.calls.last.request.headers


async def test_one_connection_serves_several_folders(httpx2_mock: respx.MockRouter) -> None:
    route = httpx2_mock.route().respond(200, json={})

    async with connect(URL) as client:
        for directory in ("/one", "/two"):
            assert client.at(directory).directory == directory
            await client.at(directory).status()

    asked = [call.request.headers["x-opencode-directory"] for call in route.calls]
    assert asked == ["/one", "/two"]


async def test_a_server_that_names_no_folder_is_refused(httpx2_mock: respx.MockRouter) -> None:
    httpx2_mock.route().respond(200, json={"directory": None})

    async with connect(URL) as client:
        with pytest.raises(HostCallError, match="names no folder"):
            await client.own_directory()


async def test_a_session_id_cannot_leave_its_path(
    client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter
) -> None:
    route = httpx2_mock.route().respond(200, json=SESSION)

    await client.session("../global?x=1#y")

    assert route.calls.last.request.url.raw_path == b"/session/..%2Fglobal%3Fx%3D1%23y"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (URL, {"password": "pass word"}),
        ("http://opencode:pass%20word@127.0.0.1:4096", {}),
        ("http://:pass%20word@127.0.0.1:4096", {}),
        ("http://other:wrong@127.0.0.1:4096", {"password": "pass word"}),
    ],
)
async def test_a_password_is_sent_as_basic_authentication(
    url: str, options: dict[str, Any], httpx2_mock: respx.MockRouter
) -> None:
    route = httpx2_mock.route().respond(200, json={})

    async with connect(url, directory="/project", **options) as client:
        await client.status()

    request = route.calls.last.request
    assert request.headers["authorization"] == "Basic b3BlbmNvZGU6cGFzcyB3b3Jk"
    assert str(request.url) == f"{URL}/session/status"


async def test_another_user_may_be_named(httpx2_mock: respx.MockRouter) -> None:
    route = httpx2_mock.route().respond(200, json={})

    async with connect(URL, directory="/project", user="me", password="p") as client:
        await client.status()

    assert route.calls.last.request.headers["authorization"] == "Basic bWU6cA=="


async def test_a_server_may_stand_below_a_path(httpx2_mock: respx.MockRouter) -> None:
    route = httpx2_mock.route().respond(200, json={})

    async with connect("https://example.org/opencode/", directory="/project") as client:
        await client.status()

    assert str(route.calls.last.request.url) == "https://example.org/opencode/session/status"


async def test_a_redirect_is_not_followed(client: OpenCodeHttpClient, httpx2_mock: respx.MockRouter) -> None:
    route = httpx2_mock.route().respond(302, headers={"location": "http://elsewhere.example/"}, html="moved")

    with pytest.raises(HostCallError):
        await client.status()

    assert route.call_count == 1


@pytest.mark.parametrize("url", ["ftp://host/", "file:///etc/passwd", "127.0.0.1:4096", "http://", ""])
async def test_only_http_servers_are_accepted(url: str) -> None:
    with pytest.raises(HostCallError, match="URL"):
        async with connect(url, directory="/project"):
            raise AssertionError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
async def test_a_proxy_is_never_used_for_this_machine(
    host: str, httpx2_mock: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks9://no-such-proxy.example")
    httpx2_mock.route().respond(200, json={})

    async with connect(f"http://{host}:4096", directory="/project") as client:
        assert await client.status() == {}


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "socks4://127.0.0.1:9", "http://proxy:port"])
async def test_P16_a_proxy_that_cannot_be_used_is_said(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", proxy)

    with pytest.raises(HostCallError, match=r"^ALL_PROXY ") as refused:
        async with connect("https://server.example", directory="/project"):
            raise AssertionError

    assert "127.0.0.1" not in str(refused.value)


async def test_P17_certificates_that_cannot_be_read_are_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    trusted_certificates.cache_clear()

    with pytest.raises(HostCallError, match="cannot be set up"):
        async with connect("https://server.example", directory="/project"):
            raise AssertionError


async def test_neither_prompt_nor_password_reaches_a_log(
    httpx2_mock: respx.MockRouter, caplog: pytest.LogCaptureFixture
) -> None:
    httpx2_mock.route().respond(204)
    prompt = Prompt(model=ModelRef("a", "b"), parts=({"type": "text", "text": "secret text"},))

    with caplog.at_level(logging.INFO):
        async with connect("http://me:secret%20word@127.0.0.1:4096", directory="/project") as client:
            await client.prompt("ses_1", prompt)

    assert "secret" not in caplog.text


async def test_a_request_of_a_server_is_out_of_reach(client: OpenCodeHttpClient) -> None:
    with pytest.raises(HostCallError) as refused:
        await client.give_up("ses_1", "build")
    assert refused.value.status == 404
