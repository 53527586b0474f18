"""What a client of a served host may do wrong, and what a full disk does, over real connections."""

import re
from pathlib import Path
from typing import Final

import anyio
import pytest

from fallback_plugin.agent.http.guard import Rules
from fallback_plugin.errors import StoreError
from tests.agent.whole_host import new_session, running_host, served, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream

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
