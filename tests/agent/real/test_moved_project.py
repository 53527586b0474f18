"""``fallback-plugin serve`` in a project that was moved since its sessions were begun."""

from pathlib import Path

import httpx2
import pytest

from tests.loopback.agent_server import COMMAND, AgentHome
from tests.loopback.host_server import HostServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream, tool_call

pytestmark = pytest.mark.real_host

SETTINGS = '[permissions]\nbash = "allow"\n'


def serve(home: AgentHome, directory: Path) -> HostServer[AgentHome]:
    """Return a server in a folder that finds its data folder by itself."""
    home.directory = directory  # type: ignore[misc]
    return HostServer((*COMMAND, "--port", "0"), home)


def listed(server: HostServer[AgentHome]) -> list[str]:
    return [session["id"] for session in httpx2.get(f"{server.url}/session", timeout=20).json()]


def test_P18_a_moved_repository_keeps_its_sessions_and_commands_run_where_it_is(tmp_path: Path) -> None:
    replies = [tool_call("bash", {"command": "pwd > where"}), stream("Done.")]
    with ScriptedProvider({"first": replies}) as provider:
        home = AgentHome(tmp_path, provider, {"fake": ["first"]}, SETTINGS)
        root = home.directory
        (root / ".git").mkdir()
        (root / "sub").mkdir()
        with serve(home, root) as server:
            session = server.create_session()
        moved = root.rename(tmp_path / "moved")

        with serve(home, moved / "sub") as server:
            assert listed(server) == [session]
            server.prompt(session, "Where are we?", "fake/first")
            server.wait_for_answer(session, "Done.")

    assert (moved / "where").read_text() == f"{moved}\n"


def test_P18_a_renamed_folder_is_told_where_its_sessions_are(tmp_path: Path) -> None:
    with ScriptedProvider({"first": [stream("Yes.")]}) as provider:
        home = AgentHome(tmp_path, provider, {"fake": ["first"]}, SETTINGS)
        with serve(home, home.directory) as server:
            session = server.create_session()
        moved = home.directory.rename(tmp_path / "moved")

        with serve(home, moved) as server:
            assert listed(server) == []
        (line,) = [line for line in home.logs().splitlines() if "served by" in line]
        data = Path(line.rpartition("--data-dir ")[2])

        with HostServer((*COMMAND, "--port", "0", "--data-dir", data), home) as server:
            assert listed(server) == [session]
