"""What our client of OpenCode relies on, shown on the real OpenCode and on our own host."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx2
import pytest

from fallback_plugin.attach.all_folders import of_folder
from fallback_plugin.errors import HostCallError
from fallback_plugin.events import AssistantMessage, StoredMessage, UserMessage
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.opencode.http_client import OpenCodeHttpClient, connect
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.event_log import Raw
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, status, stream

pytestmark = [pytest.mark.anyio, pytest.mark.real_host]

Server: TypeAlias = OpenCodeServer | AgentServer

MODELS: Final = {"fake": ["answers", "fails", "waits"]}
ANSWERS: Final = ModelRef("fake", "answers")
PASSWORD: Final = "open sesame"  # noqa: S105 -- of a server on loopback


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="module")
def provider(gate: Gate) -> Iterator[ScriptedProvider]:
    scripts = {"answers": [stream("The answer.")], "fails": [status(400)], "waits": [stream("Half ", gate)]}
    with ScriptedProvider(scripts) as provider:
        yield provider


@pytest.fixture(scope="module", params=[pytest.param("opencode", marks=pytest.mark.thorough), "our own host"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider
) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("host")
    if request.param == "opencode":
        binary: Path = request.getfixturevalue("opencode_binary")
        with OpenCodeServer(binary, OpenCodeHome(root, provider, MODELS), password=PASSWORD) as opencode:
            opencode.warm_up("fake")
            yield opencode
    else:
        with AgentServer(AgentHome(root, provider, MODELS), password=PASSWORD) as own:
            yield own


@pytest.fixture
async def client(server: Server) -> Any:
    directory = str(server.home.directory)
    async with connect(server.url, directory=directory, password=PASSWORD) as client:
        yield client


def ask(server: Server, path: str, *, method: str = "GET", **more: Any) -> httpx2.Response:
    """Make a call of which the client has none."""
    return httpx2.request(method, f"{server.url}{path}", auth=("opencode", PASSWORD), timeout=20, **more)


def prompt(text: str = "Who answers?", model: ModelRef = ANSWERS, **more: Any) -> Prompt:
    return Prompt(model=model, parts=({"type": "text", "text": text},), agent="build", **more)


def said(message: StoredMessage) -> str:
    return "".join(part.text or "" for part in message.parts if part.type == "text")


async def test_a_server_is_well_and_says_where_it_works(client: OpenCodeHttpClient, server: Server) -> None:
    health = await client.health()

    assert health.healthy
    assert health.version
    assert Path(await client.own_directory()) == server.home.directory


async def test_nobody_comes_in_without_the_password(server: Server) -> None:
    response = httpx2.get(f"{server.url}/session")

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == 'Basic realm="Secure Area"'
    assert response.content == b""


async def test_a_wrong_password_is_said(server: Server) -> None:
    async with connect(server.url, password="wrong") as client:
        with pytest.raises(HostCallError) as refused:
            await client.health()

    assert refused.value.status == 401


async def test_the_models_that_may_be_asked_are_listed(client: OpenCodeHttpClient) -> None:
    assert set(MODELS["fake"]) <= set((await client.models()).providers["fake"])


async def test_a_session_is_found_by_its_id(client: OpenCodeHttpClient) -> None:
    parent = await client.create_session(title="Parent")
    child = await client.create_session(title="Child", parent_id=parent.id)

    assert (await client.session(child.id)).parent_id == parent.id


async def test_one_that_is_not_there_is_said(client: OpenCodeHttpClient) -> None:
    with pytest.raises(HostCallError, match="Session not found: ses_nowhere") as refused:
        await client.session("ses_nowhere")

    assert refused.value.status == 404


async def test_a_turn_is_stored_as_one_message_of_each(client: OpenCodeHttpClient) -> None:
    session = await client.create_session(title="T")

    answer = await client.run_turn(session.id, prompt(), deadline_s=20)

    asked, answered = await client.messages(session.id)
    assert isinstance(asked.info, UserMessage)
    assert asked.info.model == ANSWERS
    assert said(asked) == "Who answers?"
    assert isinstance(answered.info, AssistantMessage)
    assert answered.info.parent_id == asked.info.id
    assert (answered.info.model, answered.info.finish, answered.info.completed) == (ANSWERS, "stop", True)
    assert said(answered) == said(answer) == "The answer."


async def test_a_message_gets_the_id_it_was_sent_with(client: OpenCodeHttpClient) -> None:
    session = await client.create_session(title="T")

    await client.run_turn(session.id, prompt(message_id="msg_0123456789ab"), deadline_s=20)

    assert (await client.messages(session.id))[0].info.id == "msg_0123456789ab"


async def test_a_turn_shows_in_the_events_from_busy_to_idle(
    client: OpenCodeHttpClient, server: Server
) -> None:
    session = await client.create_session(title="T")
    position = server.events.position

    await client.prompt(session.id, prompt())

    server.wait_for_answer(session.id, "The answer.", since=position)
    events = server.events.since(position, session=session.id)
    kinds = [_kind(event) for event in events]
    wanted = ["user", "busy", "assistant", "step-start", "text", "step-finish", "idle"]
    order = [kinds.index(kind) for kind in wanted if kind != "busy"]
    assert order == sorted(order)
    assert kinds.index("busy") < kinds.index("assistant")


def _kind(event: Raw) -> str:
    properties = event["properties"]
    match event["type"]:
        case "message.updated":
            return str(properties["info"]["role"])
        case "message.part.updated" if properties["part"].get("text") != "Who answers?":
            return str(properties["part"]["type"])
        case "session.status":
            return str(properties["status"]["type"])
        case kind:
            return str(kind)


async def test_a_failed_turn_is_an_answer_with_an_error(client: OpenCodeHttpClient) -> None:
    session = await client.create_session(title="T")

    answer = await client.run_turn(session.id, prompt(model=ModelRef("fake", "fails")), deadline_s=20)

    assert isinstance(answer.info, AssistantMessage)
    assert answer.info.error is not None
    assert answer.info.error.status_code == 400


async def test_a_stop_leaves_half_an_answer_and_an_idle_session(
    client: OpenCodeHttpClient, server: Server
) -> None:
    session = await client.create_session(title="T")
    position = server.events.position
    await client.prompt(session.id, prompt(model=ModelRef("fake", "waits")))
    server.events.wait_for(
        lambda event: event["type"] == "message.part.delta" and event["properties"]["delta"] == "Half ",
        since=position,
    )
    busy = await client.status()
    with pytest.raises(HostCallError) as refused:
        await client.revert(session.id, (await client.messages(session.id))[0].info.id)

    await client.abort(session.id)

    assert session.id in busy
    assert refused.value.status == 409
    assert session.id not in await client.status()
    answered = (await client.messages(session.id))[-1]
    assert isinstance(answered.info, AssistantMessage)
    assert answered.info.error is not None
    assert answered.info.error.is_abort
    assert said(answered) == "Half "


async def test_a_stop_of_an_idle_session_is_harmless(client: OpenCodeHttpClient) -> None:
    session = await client.create_session(title="T")
    await client.abort(session.id)

    answer = await client.run_turn(session.id, prompt(), deadline_s=20)

    assert said(answer) == "The answer."


async def test_what_is_reverted_is_replaced_by_the_next_prompt(client: OpenCodeHttpClient) -> None:
    session = await client.create_session(title="T")
    await client.run_turn(session.id, prompt("First?"), deadline_s=20)
    await client.run_turn(session.id, prompt("Second?"), deadline_s=20)
    second = (await client.messages(session.id))[2].info.id

    await client.revert(session.id, second)
    await client.run_turn(session.id, prompt("Third?"), deadline_s=20)

    texts = [said(message) for message in await client.messages(session.id)]
    assert texts == ["First?", "The answer.", "Third?", "The answer."]


async def test_a_stored_message_is_answered_again_in_its_place(client: OpenCodeHttpClient) -> None:
    session = await client.create_session(title="T")
    await client.run_turn(session.id, prompt(model=ModelRef("fake", "fails")), deadline_s=20)
    asked = (await client.messages(session.id))[0].info.id

    again = Prompt(model=ANSWERS, message_id=asked, agent="build")
    answer = await client.run_turn(session.id, again, deadline_s=20)

    history = await client.messages(session.id)
    assert [message.info.id for message in history if isinstance(message.info, UserMessage)] == [asked]
    assert said(answer) == said(history[-1]) == "The answer."


async def test_a_message_is_deleted(client: OpenCodeHttpClient) -> None:
    session = await client.create_session(title="T")
    answer = await client.run_turn(session.id, prompt(), deadline_s=20)

    await client.delete_message(session.id, answer.info.id)
    await client.delete_message(session.id, answer.info.id)

    assert [said(message) for message in await client.messages(session.id)] == ["Who answers?"]


async def test_a_toast_reaches_who_listens(client: OpenCodeHttpClient, server: Server) -> None:
    position = server.events.position
    await client.toast(Toast(title="T", message="hello", variant="warning"))

    toast = server.events.wait_for_toast(since=position)

    assert toast == {"title": "T", "message": "hello", "variant": "warning", "duration": 5000}


async def test_all_folders_are_heard_in_one_stream(client: OpenCodeHttpClient, server: Server) -> None:
    async with (
        httpx2.AsyncClient(base_url=server.url, auth=("opencode", PASSWORD), timeout=20) as http,
        http.stream("GET", "/global/event") as response,
    ):
        heard = (json.loads(line[5:]) async for line in response.aiter_lines() if line.startswith("data:"))
        assert (await anext(heard))["payload"]["type"] == "server.connected"
        await client.toast(Toast(title="T", message="hello", variant="warning"))

        found = [of_folder(raw) async for raw in _until_a_toast(heard)][-1]

    assert found is not None
    assert found.directory == str(server.home.directory)
    assert found.raw["properties"]["message"] == "hello"


async def _until_a_toast(heard: AsyncIterator[Raw]) -> AsyncIterator[Raw]:
    async for raw in heard:
        yield raw
        if raw["payload"]["type"] == "tui.toast.show":
            return


async def test_history_is_read_in_pages_from_its_end(client: OpenCodeHttpClient, server: Server) -> None:
    session = await client.create_session(title="T")
    for text in ("First?", "Second?"):
        await client.run_turn(session.id, prompt(text), deadline_s=20)
    whole = [message.info.id for message in await client.messages(session.id)]

    last = ask(server, f"/session/{session.id}/message?limit=3")
    cursor = last.headers["x-next-cursor"]
    first = ask(server, f"/session/{session.id}/message", params={"limit": 3, "before": cursor})

    assert [message["info"]["id"] for message in last.json()] == whole[1:]
    assert [message["info"]["id"] for message in first.json()] == whole[:1]
    assert "x-next-cursor" not in first.headers
    assert f"before={cursor}" in last.headers["link"]


@pytest.mark.parametrize("query", ["limit=2&before=nonsense", "limit=x", "limit=1.5"])
async def test_a_page_that_makes_no_sense_is_refused(
    client: OpenCodeHttpClient, server: Server, query: str
) -> None:
    session = await client.create_session(title="T")

    assert ask(server, f"/session/{session.id}/message?{query}").status_code == 400


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, 'Missing key\n  at ["parts"]'),
        ({"parts": [], "model": {"providerID": "fake"}}, 400, 'Missing key\n  at ["model"]["modelID"]'),
    ],
)
async def test_a_prompt_that_lacks_something_is_refused_in_the_same_words(
    client: OpenCodeHttpClient, server: Server, body: dict[str, Any], status: int, words: str
) -> None:
    session = await client.create_session(title="T")

    response = ask(server, f"/session/{session.id}/prompt_async", method="POST", json=body)

    assert response.status_code == status
    assert response.json() == {"name": "BadRequest", "data": {"message": words, "kind": "Payload"}}


async def test_sessions_are_listed_renamed_forked_and_deleted(
    client: OpenCodeHttpClient, server: Server
) -> None:
    session = await client.create_session(title="T")
    await client.run_turn(session.id, prompt(), deadline_s=20)
    answer = (await client.messages(session.id))[1].info.id

    renamed = ask(server, f"/session/{session.id}", method="PATCH", json={"title": "New"}).json()
    fork = ask(server, f"/session/{session.id}/fork", method="POST", json={"messageID": answer}).json()
    listed = {each["id"]: each["title"] for each in ask(server, "/session").json()}
    deleted = ask(server, f"/session/{session.id}", method="DELETE")
    gone = ask(server, f"/session/{session.id}", method="DELETE")

    assert renamed["title"] == listed[session.id] == "New"
    assert fork["id"] in listed
    assert [said(message) for message in await client.messages(fork["id"])] == ["Who answers?"]
    assert deleted.json() is True
    assert gone.status_code == 404
    assert gone.json()["data"]["message"] == f"Session not found: {session.id}"


async def test_a_question_that_nobody_asked_is_said(server: Server) -> None:
    response = ask(server, "/permission/per_nothing/reply", method="POST", json={"reply": "once"})

    assert response.status_code == 404
