"""Commands of a host that was killed: found by their mark, ended, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fallback_plugin.agent.turns.tools.leftover_commands import end_leftovers, host_name, leftovers, marked

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells environments"),
]

READY = "echo ready; exec sleep 600"


@contextmanager
def command(host: str, script: str = READY, *, start_new_session: bool = True) -> Iterator[int]:
    """Start a command of a host and wait until it has said a line."""
    with subprocess.Popen(
        marked(["/bin/sh", "-c", script], host),
        stdout=subprocess.PIPE,
        start_new_session=start_new_session,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.anyio
async def test_H12_a_hosts_commands_are_ended_and_no_others(tmp_path: Path) -> None:
    mine, other = host_name(tmp_path / "mine"), host_name(tmp_path / "other")
    with command(mine) as first, command(mine) as second, command(other) as foreign:
        assert sorted(leftovers(mine)) == sorted([first, second])

        assert await end_leftovers(mine) == 2

        assert leftovers(mine) == []
        assert leftovers(other) == [foreign]
        assert await end_leftovers(mine) == 0


@pytest.mark.anyio
async def test_H12_what_is_in_a_session_of_its_own_stays(tmp_path: Path) -> None:
    host = host_name(tmp_path)
    with command(host, start_new_session=False) as detached:
        assert os.getsid(detached) != detached

        assert await end_leftovers(host) == 0
        os.kill(detached, 0)


def test_H12_a_host_started_by_such_a_command_does_not_end_itself(tmp_path: Path) -> None:
    host = host_name(tmp_path)
    script = (
        "import anyio; from fallback_plugin.agent.turns.tools.leftover_commands import end_leftovers; "
        f"print(anyio.run(end_leftovers, {host!r}))"
    )
    done = subprocess.run(
        marked(["/bin/sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, script], host),
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )

    assert done.stdout == "0\n"
