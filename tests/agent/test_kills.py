"""``kill -9`` at any instant: what was acknowledged is there, and nothing is half.

``KILL_ROUNDS`` sets how many processes are killed, 25 by default.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.agent.store.folder import DATABASE
from tests.agent.persisted import Host, answer_info, text_part
from tests.agent.workload import Acknowledgement, check, work

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = int(os.environ.get("KILL_ROUNDS", "25"))
SESSIONS: Final = 4
MOST_ACKNOWLEDGED: Final = 150


def acknowledged_until_killed(folder: Path, count: int) -> list[Acknowledgement]:
    """Let a process work until it acknowledged so much, kill it, and return all it acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.agent.workload", folder, str(SESSIONS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        acknowledged = [json.loads(process.stdout.readline()) for _ in range(count)]
        process.kill()
        # What it printed before it died counts as well; a line that is cut off was not acknowledged.
        return acknowledged + [json.loads(line) for line in process.stdout if line.endswith("\n")]


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_g1_a_process_killed_at_a_random_instant(tmp_path: Path, seed: int) -> None:
    count = random.Random(seed).randrange(1, MOST_ACKNOWLEDGED)  # noqa: S311 -- where it falls, not a secret

    acknowledged = acknowledged_until_killed(tmp_path / "data", count)

    host = Host(tmp_path / "data", start="next-")
    await check(host, acknowledged)
    host.close()


class Images:
    """Copies of a host's files, as a kill would leave them before and after each commit."""

    def __init__(self, host: Host, into: Path) -> None:
        self._host = host
        self._into = into
        self.acknowledged: list[Acknowledgement] = []
        self.taken: list[tuple[Path, int]] = []

    def take(self, statement: str) -> None:
        """Copy before a statement of the writer that begins or ends a transaction."""
        if statement.startswith(("BEGIN", "COMMIT")):
            count = len(self.acknowledged)
            folder = self._into / str(len(self.taken))
            shutil.copytree(self._host.folder, folder)
            self.taken.append((folder, count))


async def test_g1_a_kill_at_every_commit_boundary(tmp_path: Path) -> None:
    working = Host(tmp_path / "data")
    images = Images(working, tmp_path)
    working.store._rows.set_trace_callback(images.take)

    await work(working, 3, images.acknowledged.append)
    working.store._rows.set_trace_callback(None)
    working.close()

    assert len(images.taken) > 40
    for folder, count in images.taken:
        host = Host(folder, start="next-")
        await check(host, images.acknowledged[:count])
        host.close()


async def test_g2_a_power_failure_takes_at_most_the_end_of_the_growing_text(tmp_path: Path) -> None:
    """Stable storage holds the log up to the last durable commit, and any length of what came after it."""
    host = Host(tmp_path / "data")
    run, turn = await host.turn((await host.session()).id)
    await turn.put_message(answer_info(run))
    await turn.put_part(text_part("msg_a"))
    log = host.folder / f"{DATABASE}-wal"
    stable = log.stat().st_size
    for number in range(6):
        await turn.append("prt_t", "text", f"{number} ")
        await turn.flush()  # type: ignore[misc]
    lengths = range(stable, log.stat().st_size + 1, 1030)

    found = set()
    for length in lengths:
        folder = tmp_path / str(length)
        shutil.copytree(host.folder, folder, ignore=shutil.ignore_patterns("*-shm"))
        os.truncate(folder / log.name, length)
        after = Host(folder, start="next-")
        await check(after, [{"did": "activate", "run": run.id}])
        (part,) = (await after.history(run.session_id))[-1]["parts"]
        found.add(part["text"])
        after.close()
    host.close()

    assert found <= {"0 1 2 3 4 5 "[: 2 * count] for count in range(7)}
    assert len(found) > 2
