"""What a client of a served host may do wrong, and what a full disk does, over real connections."""

import re
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from fallback_plugin.agent.http.guard import Rules
from fallback_plugin.errors import StoreError
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.health import MemoryHealth
from tests.agent.whole_host import new_session, running_host, served, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, Reply, status, stream, tool_call

pytestmark = pytest.mark.anyio

OPENCODE: Final = {
    "GET /global/health",
    "GET /path",
    "GET /config",
    "GET /config/providers",
    "GET /agent",
    "GET /event",
    "GET /global/event",
    "GET /doc",
    "GET /permission",
    "POST /permission/{requestID}/reply",
    "GET /session",
    "POST /session",
    "GET /session/status",
    "GET /session/{sessionID}",
    "PATCH /session/{sessionID}",
    "DELETE /session/{sessionID}",
    "GET /session/{sessionID}/children",
    "POST /session/{sessionID}/fork",
    "POST /session/{sessionID}/summarize",
    "POST /session/{sessionID}/revert",
    "POST /session/{sessionID}/unrevert",
    "POST /session/{sessionID}/abort",
    "POST /session/{sessionID}/prompt_async",
    "POST /session/{sessionID}/message",
    "GET /session/{sessionID}/message",
    "GET /session/{sessionID}/message/{messageID}",
    "DELETE /session/{sessionID}/message/{messageID}",
    "POST /tui/show-toast",
    "POST /tui/publish",
}
"""Calls of OpenCode 1.18.33 that its clients make of us."""


@contextmanager
def listening_client(port: int, path: str) -> Iterator[socket.socket]:
    """Ask for an event stream on a connection whose bytes the test reads itself."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        yield client


def read_until(client: socket.socket, word: bytes) -> None:
    heard = b""
    while word not in heard:
        heard += client.recv(1 << 16)


def heard_by_now(client: socket.socket) -> bytes:
    """Return what has arrived at this end, without waiting for more."""
    heard = bytearray()
    with suppress(BlockingIOError):
        while piece := client.recv(1 << 16, socket.MSG_DONTWAIT):
            heard += piece
    return bytes(heard)


async def test_who_may_not_call_reaches_nothing(provider: ScriptedProvider, tmp_path: Path) -> None:
    rules = Rules(password="open sesame", largest_body=1_000)
    async with (
        running_host(tmp_path, settings_for(provider)) as host,
        served(host, rules) as http,
    ):
        http.auth = ("opencode", "open sesame")
        for path in ("/", "/session", "/doc", "/event", "/nowhere"):
            assert (await http.get(path, auth=("opencode", "wrong"))).status_code == 401, path
            assert (await http.get(path, headers={"host": "evil.example"})).status_code == 421, path
            assert (await http.get(path, headers={"origin": "http://evil.example"})).status_code == 403, path
        assert (await http.post("/session", content=b"x" * 1_001)).status_code == 413
        assert (await http.get("/session")).json() == []


async def test_the_description_holds_every_call_and_each_is_there(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        document = (await http.get("/doc")).json()
        described = {f"{method.upper()} {path}" for path, of in document["paths"].items() for method in of}

        assert document["openapi"].startswith("3.1")
        assert described >= OPENCODE
        for call in sorted(described - {"GET /event", "GET /global/event"}):  # those do not end
            method, _, path = call.partition(" ")
            answer = await http.request(method, re.sub(r"{\w+}", "nowhere", path), json={})
            assert "Not Found" not in answer.text, call
            assert answer.status_code < 500, call


async def test_H3_the_end_of_an_answer_is_on_every_event_stream_before_the_call_returns(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    body = {"parts": [{"type": "text", "text": "hello"}]}
    settings = settings_for(provider, permissions={"bash": "allow"})
    provider.script("first", stream("Yes."), tool_call("bash", {"command": "echo x"}), stream("Done."))
    async with running_host(tmp_path, settings) as host, served(host, Rules()) as http:
        port = http.base_url.port
        assert port is not None
        with listening_client(port, "/event") as one, listening_client(port, "/global/event") as other:
            await anyio.to_thread.run_sync(read_until, one, b"connected")
            await anyio.to_thread.run_sync(read_until, other, b"connected")
            for number in range(20):
                session = await new_session(host)
                answer = await http.post(f"/session/{session}/message", json=body)
                assert answer.status_code == 200
                for client in (one, other):
                    heard = heard_by_now(client)
                    assert (
                        heard.count(f'"type":"session.idle","properties":{{"sessionID":"{session}"'.encode())
                        == 1
                    ), number
                    assert answer.json()["info"]["id"].encode() in heard


async def test_H3_a_client_that_does_not_read_holds_an_answer_up_once(
    provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"parts": [{"type": "text", "text": "hello"}]}
    provider.script("first", stream("Yes."))
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        port = http.base_url.port
        assert port is not None
        with listening_client(port, "/event") as slow, listening_client(port, "/event") as quick:
            await anyio.to_thread.run_sync(read_until, quick, b"connected")
            await anyio.to_thread.run_sync(read_until, slow, b"connected")
            session = await new_session(host)

            async def read_on() -> None:
                while True:
                    await anyio.wait_readable(quick)
                    quick.recv(1 << 20)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_on)
                for _ in range(200):  # more than the buffers of a connection hold
                    host.toast({"message": "x" * 100_000, "variant": "info"})
                    await anyio.lowlevel.checkpoint()
                await anyio.wait_all_tasks_blocked()
                monkeypatch.setattr("fallback_plugin.agent.host.SENT_WITHIN_S", 0.05)
                assert (await http.post(f"/session/{session}/message", json=body)).status_code == 200
                assert len(host.bus._lagging) == 1
                monkeypatch.setattr("fallback_plugin.agent.host.SENT_WITHIN_S", 3600)
                assert (await http.post(f"/session/{session}/message", json=body)).status_code == 200
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("call", ["message", "prompt_async"])
async def test_H12_what_would_be_passed_over_is_refused_with_words_and_leaves_nothing(
    provider: ScriptedProvider, tmp_path: Path, call: str
) -> None:
    words = [{"type": "text", "text": "hello"}]
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"parts": [{"type": "text", "text": "  "}]}, "The prompt is empty"),
        ({"parts": [], "noReply": True}, "the prompt is empty"),
        ({"parts": words, "format": {"type": "json_schema", "schema": {}}}, "json_schema"),
        ({"parts": words, "agent": "nobody"}, "Available agents: build"),
    )
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        session = await new_session(host)
        for body, said in refused:
            answer = await http.post(f"/session/{session}/{call}", json=body)
            assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")
            assert said in answer.json()["data"]["message"]
        for body in (
            {"agent": "nobody"},
            {"model": {"providerID": "fake", "id": "nothing"}},
            {"permission": [{"permission": "bash", "pattern": "*", "action": "allow"}]},
        ):
            assert (await http.post("/session", json=body)).status_code == 400
        assert [each["id"] for each in (await http.get("/session")).json()] == [session]
        change = {"title": "Mine", "time": {"archived": 1}}
        assert (await http.patch(f"/session/{session}", json=change)).status_code == 400
        assert (await http.get(f"/session/{session}")).json()["title"] != "Mine"
        assert (await http.get(f"/session/{session}/message")).json() == []
    assert provider.requests("first") == []


@pytest.mark.parametrize("last", [stream("Both."), status(400, "Nothing goes.")])
async def test_a_prompt_that_joins_a_turn_is_answered_with_that_turns_answer(
    provider: ScriptedProvider, tmp_path: Path, last: Reply
) -> None:
    gate = Gate()
    settings = settings_for(provider, permissions={"bash": "allow"})
    provider.script("first", (gate, *tool_call("bash", {"command": "true"})), last)
    answers: dict[str, Any] = {}
    async with running_host(tmp_path, settings) as host, served(host, Rules()) as http:
        session = await new_session(host)

        async def ask(text: str, **more: str) -> None:
            body = {"parts": [{"type": "text", "text": text}], **more}
            answers[text] = await http.post(f"/session/{session}/message", json=body)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "one")
            await anyio.to_thread.run_sync(provider.wait_for, lambda: bool(provider.requests("first")))
            tasks.start_soon(partial(ask, "two", delivery="steer"))
            while not await host.waiting_runs(session):
                await anyio.lowlevel.checkpoint()
            gate.open()

    assert [answer.status_code for answer in answers.values()] == [200, 200]
    assert answers["two"].json() == answers["one"].json()
    assert "two" in str(provider.requests("first")[1])


@pytest.mark.parametrize("path", ["/event", "/global/event"])
async def test_the_head_of_an_event_stream_is_answered_at_once(
    provider: ScriptedProvider, tmp_path: Path, path: str
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        answer = await http.head(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
        assert (await http.head("/event?after=never")).status_code == 400
        assert (await http.get("/session")).json() == []  # on the same connection
        assert host.bus.listeners == 0


async def test_a_cursor_that_is_nested_too_deep_is_refused_with_words(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        session = await new_session(host)
        cursor = urlsafe_b64encode(b"[" * 6000).decode()
        answer = await http.get(f"/session/{session}/message", params={"limit": 1, "before": cursor})
        assert (answer.status_code, "is no cursor" in answer.text) == (400, True)


async def test_H12_an_unknown_model_does_not_stick_to_its_session(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", stream("Yes."))
    provider.script("second", stream("Yes."))
    words = {"parts": [{"type": "text", "text": "hello"}]}
    known, unknown = ({"model": {"providerID": "fake", "modelID": name}} for name in ("second", "nothing"))
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        session = await new_session(host)
        asked = []
        for more in (unknown, {}, known, unknown, {}):
            answer = await http.post(f"/session/{session}/message", json={**words, **more})
            asked.append(
                answer.json()["info"]["modelID"] if answer.status_code == 200 else answer.status_code
            )
    assert asked == [500, "first", "second", 500, "second"]


async def test_an_unknown_model_is_left_for_the_sessions_own_with_the_fallback_plugin(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    for name in ("first", "second", "third"):
        provider.script(name, stream("Yes."))
    fake = {"base_url": provider.url, "models": ["first", "second", "third"]}
    chain = {"fallback_models": ["fake/third"], "notify": False}
    settings = settings_for(provider, providers={"fake": fake}, fallback=chain)
    words = {"parts": [{"type": "text", "text": "hello"}]}
    named = {"model": {"providerID": "fake", "modelID": "second"}}
    unknown = {"model": {"providerID": "zz", "modelID": "nope"}}
    now = 1_000.0
    plugin = FallbackPlugin(clock=lambda: now, health=MemoryHealth())
    answers: list[tuple[str, list[str]]] = []
    async with running_host(tmp_path, settings, {"fallback": plugin}) as host, served(host, Rules()) as http:
        await host.plugins.settings_changed(settings)
        for prompts in ([named, unknown, {}, {}], [unknown, unknown, {}, {}]):
            session = await new_session(host)
            for more in prompts:
                answer = await http.post(f"/session/{session}/message", json={**words, **more})
                info = answer.json()["info"]
                failed = [each["failed"]["modelID"] for each in info.get("fallbacks", [])]
                answers.append((info["modelID"], failed))
                now += 0 if more is unknown else 3_600
    assert answers == [
        *[("second", []), ("third", ["nope"]), ("second", []), ("second", [])],
        *[("third", ["nope"]), ("third", ["nope"]), ("first", []), ("first", [])],
    ]


async def test_H12_a_conflict_says_by_its_tag_whether_the_session_is_busy(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    gate = Gate()
    provider.script("first", stream("Yes."), stream("Yes.", gate))
    words = [{"type": "text", "text": "hello"}]
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        session = await new_session(host)
        asked = {"parts": words, "messageID": "msg_one"}
        assert (await http.post(f"/session/{session}/message", json=asked)).status_code == 200
        run = (await http.post(f"/session/{session}/prompt_async", json={"parts": words})).headers["x-run-id"]
        await anyio.to_thread.run_sync(provider.wait_for, lambda: len(provider.requests("first")) == 2)

        busy = await http.post(f"/session/{session}/revert", json={"messageID": "msg_one"})
        not_held = await http.post(f"/run/{run}/send")

        gate.open()
        assert (busy.status_code, not_held.status_code) == (409, 409)
        assert busy.json() == {
            "_tag": "SessionBusyError",
            "sessionID": session,
            "message": f"an undo: session {session} is busy: stop it, or wait until it is idle",
        }
        assert not_held.json()["_tag"] == "ConflictError"
        assert f"run {run} is not held but" in not_held.json()["message"]


async def test_a_mistake_of_ours_is_told_with_a_reference_to_the_log(
    provider: ScriptedProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host, served(host, Rules()) as http:
        monkeypatch.setattr(host, "waiting_runs", None)
        answer = await http.get("/run")

    error = answer.json()
    assert (answer.status_code, error["name"]) == (500, "UnknownError")
    assert error["data"]["ref"] in caplog.text


async def test_g9_a_disk_that_fills_up_ends_the_turn_and_gives_prompts_back(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    gate = Gate()
    provider.script("first", stream("Half", gate, "x" * 500_000), stream("There is room."))
    async with (
        running_host(tmp_path, settings_for(provider)) as host,
        served(host, Rules()) as http,
    ):
        session = await new_session(host)
        body = {"parts": [{"type": "text", "text": "hello"}]}
        accepted = await http.post(f"/session/{session}/prompt_async", json=body)
        await anyio.to_thread.run_sync(provider.wait_for, lambda: bool(provider.requests("first")))
        await host.store.write(lambda tx: tx.rows.execute("PRAGMA max_page_count = 1").fetchone())
        gate.open()
        with pytest.raises(StoreError, match="the disk is full"):
            await host.dispatcher.wait(accepted.headers["x-run-id"])

        assert host.dispatcher.status(session).is_busy
        refused = await http.post(f"/session/{session}/message", json=body)
        assert (refused.status_code, "the disk is full" in refused.text) == (507, True)
        said = (await http.get(f"/session/{session}/message")).json()
        assert [part["text"] for part in said[0]["parts"]] == ["hello"]

        await host.store.write(lambda tx: tx.rows.execute("PRAGMA max_page_count = 100000").fetchone())
        answer = (await http.post(f"/session/{session}/message", json=body)).json()
        assert [part["text"] for part in answer["parts"] if part["type"] == "text"] == ["There is room."]
