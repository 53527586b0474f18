"""Our own host on a disk that is really full: a small file system of its own, which only root can mount."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root"),
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder],  # noqa: S607 -- wherever it is
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S607 -- wherever it is


def fill(disk: Path) -> Path:
    """Take all the room there is; return the file to delete again."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


def waiting(server: AgentServer, session: str) -> list[str]:
    runs = httpx2.get(f"{server.url}/session/{session}/run", timeout=20).json()
    return [run["text"] for run in runs]


def test_H6_what_a_full_disk_cut_off_ends_and_what_waited_runs_in_order(
    small_disk: Path, tmp_path: Path
) -> None:
    gate = Gate()
    replies = [stream("Half", gate, " an answer" * 500), *[stream(f"Yes {n}.") for n in range(4)]]
    with ScriptedProvider({"answers": replies}) as provider:
        home = AgentHome(tmp_path / "home", provider, {"fake": ["answers"]})
        home.data = small_disk / "data"  # type: ignore[misc]
        with AgentServer(home) as server:
            session = server.create_session()
            server.prompt(session, "cut off", "fake/answers")
            server.events.wait_for(lambda event: event["type"] == "message.part.delta")
            for number in range(3):
                server.prompt(session, f"waits {number}")
            filler = fill(small_disk)
            gate.open()
            told = server.events.wait_for(lambda event: event["type"] == "session.error")
            assert "the disk is full" in told["properties"]["error"]["data"]["message"]
            assert server.is_busy(session)
            assert server.events.since(type="run.ended") == []

            filler.unlink()
            server.prompt(session, "after that")
            server.events.wait_for(lambda event: event["type"] == "session.idle")

            ended = server.events.since(type="run.ended")
            assert [event["properties"]["outcome"] for event in ended] == ["failed", *["completed"] * 4]
            assert waiting(server, session) == []
            said = [
                part["text"]
                for message in server.messages(session)
                if message["info"]["role"] == "user"
                for part in message["parts"]
            ]
            assert said == ["cut off", "waits 0", "waits 1", "waits 2", "after that"]
