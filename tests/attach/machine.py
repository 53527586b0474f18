"""One machine of several: an OpenCode server as far as `attach` needs one, and `attach` beside it.

Run in a network namespace of its own as ``python -m tests.attach.machine FOLDER``. Each line on stdin is a
command, answered by a line on stdout: ``fail MODEL`` lets a turn of a model fail, and tells the model that it
went on with; ``know MODEL`` waits until the machine itself knows that a model is closed.
"""

import os
import sys
import time
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from fallback_plugin.health import SqliteHealth, default_file
from fallback_plugin.model_ref import ModelRef
from tests.attach.attach_process import AttachProcess
from tests.attach.fake_server import FakeOpenCode, failing_turn

LIMIT_S = 20.0


async def main(folder: Path) -> None:
    """Serve until stdin ends."""
    environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    config = str(folder / "fallback.toml")
    # What a machine hears of others stands in its own file.
    own = SqliteHealth(default_file(environment), on_trouble=sys.exit)
    failed = 0
    async with FakeOpenCode(directory=str(folder)) as fake:
        with AttachProcess(
            fake.url, "--config", config, environment=environment, directory=folder
        ) as attached:
            await run_sync(attached.wait_for, ": attached (")
            say("attached")
            while line := await run_sync(sys.stdin.readline):
                command, model = line.split()
                if command == "know":
                    await closed(own, model)
                    say(model)
                    continue
                failed += 1
                await fake.send(*failing_turn(f"ses_{failed}", model))
                prompt = await fake.wait_for_call("prompt_async", count=failed)
                named = prompt.body["model"]
                say(f"{named['providerID']}/{named['modelID']}")


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def closed(health: SqliteHealth, model: str) -> None:
    with anyio.fail_after(LIMIT_S):
        while health.view(time.time()).closed_until(ModelRef(*model.split("/"))) < time.time():  # noqa: ASYNC110 -- another process closes it
            await anyio.sleep(0.02)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
