"""Our own host is stopped, killed and started again in the midst of work."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx2
import pytest

from tests.loopback.agent_server import COMMAND, AgentHome, AgentServer
from tests.loopback.event_log import Raw
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Pause, stream, tool_call

pytestmark = pytest.mark.real_host

NEVER: Final = Pause(600)
SETTINGS: Final = '[permissions]\nbash = "allow"\n'

Start: TypeAlias = Callable[[], AbstractContextManager[AgentServer]]


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    scripts = {
        "answers": [stream("The answer.")],
        "streams": [stream("Half an answer, ", NEVER)],
        "runs": [tool_call("bash", {"command": "echo $$ > pid; sleep 600 & echo $! > child; wait"})],
    }
    with ScriptedProvider(scripts) as provider:
        yield provider


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> AgentHome:
    return AgentHome(tmp_path, provider, {"fake": ["answers", "streams", "runs"]}, SETTINGS)


def post(server: AgentServer, path: str, body: Any = None, **headers: str) -> httpx2.Response:
    return httpx2.post(f"{server.url}{path}", json=body or {}, headers=headers, timeout=20)


def get(server: AgentServer, path: str) -> Any:
    return httpx2.get(f"{server.url}{path}", timeout=20).json()


def begin(server: AgentServer, session: str, model: str, text: str = "Who answers?") -> None:
    """Hand a prompt in and wait until its model has said something."""
    position = server.events.position
    server.prompt(session, text, f"fake/{model}")
    server.events.wait_for(
        lambda event: event["type"] == "message.part.delta" or "tool" in _part_kinds(event), since=position
    )


def _part_kinds(event: Raw) -> set[str]:
    return {event["properties"]["part"]["type"]} if event["type"] == "message.part.updated" else set()


def texts(server: AgentServer, session: str) -> list[str]:
    return [
        "".join(part["text"] for part in message["parts"] if part["type"] == "text")
        for message in server.messages(session)
    ]


def ended(server: AgentServer, since: int) -> Raw:
    properties: Raw = server.events.wait_for(lambda event: event["type"] == "run.ended", since=since)[
        "properties"
    ]
    return properties


def test_a_stop_returns_what_it_dropped_and_closes_the_providers_stream(
    home: AgentHome, provider: ScriptedProvider
) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        begin(server, session, "streams")
        server.prompt(session, "And then?", "fake/answers")

        hit = post(server, f"/session/{session}/cancel").json()

        assert hit["active"] is True
        assert [each["text"] for each in hit["dropped"]] == ["And then?"]
        assert not server.is_busy(session)
        assert texts(server, session) == ["Who answers?", "Half an answer, ", "And then?", ""]
        (request,) = provider.requests("streams", session=session)
        provider.wait_for(lambda: request.disconnected_at is not None)


def test_a_stop_ends_the_command_and_what_it_started(home: AgentHome) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        position = server.events.position
        server.prompt(session, "Run it.", "fake/runs")
        server.events.wait_for(
            lambda event: (
                event["type"] == "message.part.updated"
                and event["properties"]["part"].get("state", {}).get("status") == "running"
            ),
            since=position,
        )
        pids = [home.directory / "pid", home.directory / "child"]
        wait_for_files(*pids)

        server.abort(session)

        assert [alive(int(file.read_text())) for file in pids] == [False, False]
        assert ended(server, position)["outcome"] == "cancelled"


def test_H12_commands_of_a_killed_host_end_at_the_next_start_but_for_detached_ones(
    tmp_path: Path,
) -> None:
    command = (
        "set -m; echo $$ > pid; sleep 600 & echo $! > child; (trap '' TERM; sleep 601) & echo $! > stubborn; "
        "setsid sh -c 'echo $$ > detached; exec sleep 602' & wait"
    )
    with ScriptedProvider({"runs": [tool_call("bash", {"command": command})]}) as provider:
        home = AgentHome(tmp_path, provider, {"fake": ["runs"]}, SETTINGS)
        names = ["pid", "child", "stubborn", "detached"]
        with AgentServer(home) as server:
            server.prompt(server.create_session(), "Run it.", "fake/runs")
            wait_for_files(*(home.directory / name for name in names))
            pids = {name: int((home.directory / name).read_text()) for name in names}
            server.kill()
        assert [alive(pid) for pid in pids.values()] == [True] * 4

        try:
            with AgentServer(home):
                still = [name for name, pid in pids.items() if alive(pid)]
        finally:
            os.kill(pids["detached"], signal.SIGKILL)

    assert still == ["detached"]


def wait_for_files(*files: Path) -> None:
    """Wait until a command has written files; it tells nobody, so they are looked at."""

    deadline = time.monotonic() + 20
    while not all(file.exists() and file.read_text().strip() for file in files):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_report_S23_a_kill_keeps_what_was_said_and_what_was_asked(home: AgentHome) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        begin(server, session, "streams")
        server.prompt(session, "And then?", "fake/answers")
        server.kill()

    with AgentServer(home) as server:
        (held,) = get(server, "/run")
        assert (held["state"], held["text"]) == ("held", "And then?")
        assert not server.is_busy(session)
        answered = server.messages(session)[-1]
        assert answered["info"]["finish"] == "interrupted"
        assert texts(server, session) == ["Who answers?", "Half an answer, "]

        position = server.events.position
        assert post(server, f"/run/{held['id']}/send").json() is True

        assert ended(server, position)["text"] == "The answer."
        assert texts(server, session)[2:] == ["And then?", "The answer."]
        assert post(server, f"/run/{held['id']}/send").status_code == 409


def test_a_held_prompt_can_be_discarded(home: AgentHome) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        begin(server, session, "streams")
        server.prompt(session, "And then?", "fake/answers")
        server.kill()

    with AgentServer(home) as server:
        (held,) = get(server, f"/session/{session}/run")

        assert post(server, f"/run/{held['id']}/discard").json() is True

        assert get(server, "/run") == []
        assert texts(server, session) == ["Who answers?", "Half an answer, "]


def test_with_run_what_waited_begins_by_itself(home: AgentHome) -> None:
    home.settings_file.write_text(f'{home.settings_file.read_text()}\n[serve]\non_restart = "run"\n')
    with AgentServer(home) as server:
        session = server.create_session()
        begin(server, session, "streams")
        server.prompt(session, "And then?", "fake/answers")
        server.kill()

    with AgentServer(home) as server:
        ended(server, 0)
        assert texts(server, session)[2:] == ["And then?", "The answer."]


def test_an_orderly_end_waits_for_no_stream_and_holds_what_waits(home: AgentHome) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        begin(server, session, "streams")
        server.prompt(session, "And then?", "fake/answers")

        assert server.stop() == 0

    with AgentServer(home) as server:
        assert [run["text"] for run in get(server, "/run")] == ["And then?"]
        assert texts(server, session) == ["Who answers?", "Half an answer, "]


def test_report_E19_a_client_that_comes_back_goes_on_where_it_left_off(home: AgentHome) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        server.prompt(session, "Who answers?", "fake/answers")
        ended(server, 0)
        known = server.events.since(0, session=session)
        last = int(known[2]["id"].removeprefix("evt_"))
        server.kill()

    with AgentServer(home) as server:
        with httpx2.stream("GET", f"{server.url}/event", headers={"last-event-id": str(last)}) as response:
            lines = (line for line in response.iter_lines() if line.startswith("id:"))
            begins_at = next(lines)
            missed = [next(lines) for _ in known[3:-1]]

        rows = [
            event["id"].removeprefix("evt_") for event in known[3:] if not event["id"].startswith("evt_p")
        ]
        assert begins_at == f"id: {last}"
        assert [line.removeprefix("id: ") for line in missed][: len(rows)] == rows


def test_a_client_that_was_cut_off_before_it_heard_of_anything_misses_nothing(home: AgentHome) -> None:
    with AgentServer(home) as server:
        with httpx2.stream("GET", f"{server.url}/event") as response:
            first = next(line for line in response.iter_lines() if line.startswith("id: "))
        session = server.create_session()

        after = first.removeprefix("id: ")
        with httpx2.stream("GET", f"{server.url}/event", headers={"last-event-id": after}) as response:
            lines = (line for line in response.iter_lines() if line.startswith("data: "))
            created = next(event for line in lines if "session.created" in (event := line))

        assert session in created


def test_a_repeated_request_is_the_same_run(home: AgentHome, provider: ScriptedProvider) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        body = {
            "parts": [{"type": "text", "text": "Once?"}],
            "model": {"providerID": "fake", "modelID": "answers"},
        }
        path = f"/session/{session}/message"

        first = post(server, path, body, **{"idempotency-key": "one"}).json()
        again = post(server, path, body, **{"idempotency-key": "one"}).json()
        other = post(server, path, body, **{"idempotency-key": "two"}).json()

        assert first == again
        assert other["info"]["id"] != first["info"]["id"]
        assert len(provider.requests("answers", session=session)) == 2


def test_a_session_that_is_summarised_goes_on_under_another_id(
    home: AgentHome, provider: ScriptedProvider
) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        empty = post(server, f"/session/{session}/summarize")
        begin(server, session, "answers")
        ended(server, 0)
        position = server.events.position

        done = post(server, f"/session/{session}/summarize", {"providerID": "fake", "modelID": "answers"})

        compacted = server.events.wait_for(lambda event: event["type"] == "session.compacted", since=position)
        continued = compacted["properties"]["continuedBy"]
        ended(server, position)  # of the run that summarised
        position = server.events.position
        server.prompt(session, "And now?", "fake/answers")
        assert ended(server, position)["sessionID"] == continued
        assert empty.status_code == 400
        assert done.json() is True
        assert texts(server, continued) == ["", "The answer.", "And now?", "The answer."]
        assert texts(server, session)[:2] == ["Who answers?", "The answer."]
        assert [each["id"] for each in get(server, "/session")] == [continued]
        request = provider.requests("answers", session=continued)[-1]
        _, sent = request.body["messages"]
        assert sent["role"] == "user"  # the summary, and what is asked now
        assert "The answer." in str(sent["content"])
        assert "And now?" in str(sent["content"])
        assert "Who answers?" not in str(sent["content"])


def test_a_session_gets_a_title_unless_a_person_gave_one(home: AgentHome) -> None:
    with AgentServer(home) as server:
        unnamed, named = server.create_session(None), server.create_session("Mine")
        for session in (unnamed, named):
            position = server.events.position
            server.prompt(session, "Who answers?", "fake/answers")
            ended(server, position)

        server.events.wait_for(
            lambda event: (
                event["type"] == "session.updated" and event["properties"]["info"]["title"] == "The answer."
            )
        )
        titles = {each["id"]: each["title"] for each in get(server, "/session")}
        assert titles == {unnamed: "The answer.", named: "Mine"}


def test_report_E22_a_host_that_works_for_long_holds_no_more_than_at_first(home: AgentHome) -> None:
    def work(server: AgentServer, times: int) -> int:
        for _ in range(times):
            session = server.create_session()
            position = server.events.position
            server.prompt(session, "Who answers?", "fake/answers")
            ended(server, position)
        return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))

    with AgentServer(home) as server:
        first = work(server, 5)
        later = work(server, 40)

    assert later <= first + 2


def test_two_hosts_never_share_a_folder(home: AgentHome) -> None:
    with AgentServer(home):
        second = subprocess.run(
            [*COMMAND, "--port", "0", "--data-dir", home.data],
            env=home.environment,
            cwd=home.directory,
            capture_output=True,
            text=True,
            check=False,
        )

    assert second.returncode == 1
    assert str(home.data) in second.stderr
    assert "Traceback" not in second.stderr


def test_a_busy_session_can_be_deleted(home: AgentHome) -> None:
    with AgentServer(home) as server:
        session = server.create_session()
        begin(server, session, "streams")

        deleted = httpx2.delete(f"{server.url}/session/{session}", timeout=20)

        assert deleted.json() is True
        assert get(server, "/session") == []
        assert not server.is_busy(session)


def test_a_model_that_does_not_exist_is_an_error_of_the_call_that_waits(home: AgentHome) -> None:
    """As OpenCode has it: any other failed turn is an answer."""
    with AgentServer(home) as server:
        session = server.create_session()
        body = {
            "parts": [{"type": "text", "text": "Hello"}],
            "model": {"providerID": "fake", "modelID": "no-such"},
        }

        refused = post(server, f"/session/{session}/message", body)

        assert refused.status_code == 500
        assert refused.json()["name"] == "UnknownError"
        assert "Model not found: fake/no-such" in refused.json()["data"]["message"]
