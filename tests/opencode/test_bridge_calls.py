from collections.abc import Callable
from typing import Any, cast

import pytest

from fallback_plugin.errors import HostCallError, HostCallTimeoutError
from fallback_plugin.host_client import Receipt, SessionInfo
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.opencode.bridge_calls import DEADLINES_S, BridgeCalls
from fallback_plugin.opencode.json_rpc import METHOD_NOT_FOUND, Params, Peer, RemoteError
from fallback_plugin.wire.model_catalog import ModelCatalog, ModelFacts
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast

pytestmark = pytest.mark.anyio

MODEL = {"providerID": "p", "modelID": "m"}


class ScriptedPeer:
    """Answers every request alike and keeps what was asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Params, float]] = []

    async def request(self, method: str, params: Params, *, deadline_s: float) -> object:
        self.asked.append((method, params, deadline_s))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def calls(answer: object) -> tuple[BridgeCalls, ScriptedPeer]:
    peer = ScriptedPeer(answer)
    return BridgeCalls(cast("Peer", peer), kind="tui", directory="/project"), peer


def done(data: object = None) -> dict[str, object]:
    return {"status": 200, "data": data, "sentAfter": 4, "answeredAfter": 9}


async def test_an_abort_says_between_which_events_it_happened() -> None:
    host, peer = calls(done())
    assert await host.abort("ses_1", after=3) == Receipt(4, 9)
    assert peer.asked == [
        (
            "host/call",
            {"call": "session.abort", "arguments": {"sessionID": "ses_1", "after": 3, "runIsOver": False}},
            DEADLINES_S["session.abort"],
        )
    ]


async def test_a_prompt_is_handed_in_as_the_host_spells_it() -> None:
    host, peer = calls(done())
    prompt = Prompt(model=ModelRef("p", "m", "high"), message_id="msg_1", agent="build")
    assert await host.prompt("ses_1", prompt) == Receipt(4, 9)
    assert peer.asked[0][1]["arguments"]["body"] == {
        "parts": [],
        "model": {"providerID": "p", "modelID": "m"},
        "messageID": "msg_1",
        "agent": "build",
        "variant": "high",
    }


async def test_a_session_is_read() -> None:
    host, _ = calls(done({"id": "ses_2", "parentID": "ses_1", "title": "t"}))
    assert await host.session("ses_2") == SessionInfo(id="ses_2", parent_id="ses_1")


async def test_a_history_is_read_oldest_first() -> None:
    info = {"id": "msg_1", "sessionID": "ses_1", "role": "user", "agent": "build", "model": MODEL}
    host, _ = calls(done([{"info": info, "parts": []}]))
    assert [message.info.id for message in await host.messages("ses_1")] == ["msg_1"]


async def test_the_models_are_asked_for_without_arguments_and_read() -> None:
    model = {"limit": {"context": 8000}, "capabilities": {"toolcall": False}}
    host, peer = calls(done({"providers": [{"id": "p", "models": {"m": model}}]}))
    assert await host.models() == ModelCatalog({"p": {"m": ModelFacts(context_tokens=8000, tools=False)}})
    assert peer.asked[0][1] == {"call": "config.providers", "arguments": {}}


async def test_a_revert_names_its_message_in_the_body() -> None:
    host, peer = calls(done({"id": "ses_1"}))
    await host.revert("ses_1", "msg_1")
    assert peer.asked[0][1] == {
        "call": "session.revert",
        "arguments": {"sessionID": "ses_1", "body": {"messageID": "msg_1"}},
    }


async def test_what_was_reverted_is_shown_again_by_its_session() -> None:
    host, peer = calls(done({"id": "ses_1"}))
    await host.unrevert("ses_1")
    assert peer.asked[0][1] == {"call": "session.unrevert", "arguments": {"sessionID": "ses_1"}}


async def test_a_message_is_deleted_by_its_session_and_its_id() -> None:
    host, peer = calls(done(data=True))
    await host.delete_message("ses_1", "msg_1")
    assert peer.asked[0][1] == {
        "call": "session.deleteMessage",
        "arguments": {"sessionID": "ses_1", "messageID": "msg_1"},
    }


async def test_a_running_session_refuses_to_delete_a_message() -> None:
    host, _ = calls({"status": 409, "data": {"name": "SessionBusyError", "data": {}}})
    with pytest.raises(HostCallError) as raised:
        await host.delete_message("ses_1", "msg_1")
    assert raised.value.status == 409


async def test_a_turn_is_run_with_the_callers_deadline_and_its_answer_read() -> None:
    info: dict[str, object] = {"id": "msg_2", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_1"}
    info |= {"providerID": "p", "modelID": "m", "time": {"created": 1}}
    host, peer = calls(done({"info": info, "parts": []}))
    answer = await host.run_turn("ses_1", Prompt(model=ModelRef("p", "m"), message_id="msg_1"), deadline_s=77)
    assert answer.info.id == "msg_2"
    method, params, deadline_s = peer.asked[0]
    assert (method, params["call"], deadline_s) == ("host/call", "session.prompt", 77)


async def test_a_turn_that_is_answered_with_no_message_is_an_error() -> None:
    host, _ = calls(done({"nothing": True}))
    with pytest.raises(HostCallError, match="without a message"):
        await host.run_turn("ses_1", Prompt(model=ModelRef("p", "m")), deadline_s=1)


@pytest.mark.parametrize(("message", "more"), [(None, {}), ("Not here.", {"message": "Not here."})])
async def test_P8_a_permission_is_replied_to_by_its_request(
    message: str | None, more: dict[str, str]
) -> None:
    host, peer = calls(done(data=True))
    await host.reply_to_permission("per_1", "reject", message)
    assert peer.asked[0][1] == {
        "call": "permission.reply",
        "arguments": {"requestID": "per_1", "body": {"reply": "reject", **more}},
    }


async def test_a_request_is_given_up_by_session_and_agent() -> None:
    host, peer = calls(done())
    await host.give_up("ses_1", "build", flowing=True)
    assert peer.asked[0][1] == {
        "call": "model.giveUp",
        "arguments": {"sessionID": "ses_1", "agent": "build", "flowing": True},
    }


async def test_a_toast_counts_milliseconds_for_the_host() -> None:
    host, peer = calls(done())
    await host.toast(Toast(title="T", message="M", variant="warning", duration_s=2))
    assert peer.asked[0][1]["arguments"] == {
        "body": {"title": "T", "message": "M", "variant": "warning", "duration": 2000}
    }


@pytest.mark.parametrize("call", [BridgeCalls.abort, BridgeCalls.session, BridgeCalls.messages])
async def test_no_answer_in_time_is_an_error_of_its_own(call: Callable[..., Any]) -> None:
    host, _ = calls(TimeoutError())
    with pytest.raises(HostCallTimeoutError, match="no answer from OpenCode within"):
        await call(host, "ses_1")


async def test_a_refusal_carries_the_status_and_the_words_of_the_host() -> None:
    host, _ = calls(
        {"status": 404, "data": {"name": "NotFoundError", "data": {"message": "Session not found"}}}
    )
    with pytest.raises(HostCallError, match=r"session\.abort: Session not found \(HTTP 404\)") as raised:
        await host.abort("ses_1")
    assert raised.value.status == 404


@pytest.mark.parametrize(
    "answer", [RemoteError(METHOD_NOT_FOUND, "not allowed"), None, {}, {"status": "200"}]
)
async def test_an_answer_that_is_none_is_an_error_without_a_status(answer: object) -> None:
    host, _ = calls(answer)
    with pytest.raises(HostCallError) as raised:
        await host.abort("ses_1")
    assert raised.value.status is None


async def test_a_session_without_an_id_is_an_error() -> None:
    host, _ = calls(done({}))
    with pytest.raises(HostCallError, match="id"):
        await host.session("ses_1")
