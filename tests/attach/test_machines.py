"""Two machines, each with `attach`, that share what is closed over one Redis: two network namespaces."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

import pytest

from tests.health.redis_server import READY

ROOT: Final = Path(__file__).parents[2]
PORT: Final = 6390
ADDRESSES: Final = ("10.213.77.1", "10.213.77.2")


def ip(*words: str) -> None:
    """Change the network; raises `subprocess.CalledProcessError` where that is not allowed."""
    subprocess.run([shutil.which("ip") or "ip", *words], check=True, capture_output=True, text=True)


class Machine:
    """A network namespace with a loopback and one address of its own."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name = name
        self.address = address
        self.folder = folder

    def popen(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a program in the namespace."""
        return subprocess.Popen(
            [shutil.which("ip") or "ip", "netns", "exec", self.name, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )

    def __enter__(self) -> Self:
        """Start a server and `attach` on the machine; it is attached when this returns."""
        self._process = self.popen(sys.executable, "-m", "tests.attach.machine", self.folder)
        assert self._process.stdout
        assert self._process.stdout.readline() == "attached\n"
        return self

    def __exit__(self, *_: object) -> None:
        """End both."""
        self._process.communicate(timeout=30)

    def goes_on_with(self, model: str) -> str:
        """Let a turn of this model fail, and return the model it goes on with."""
        return self._ask(f"fail {model}")

    def hears_of(self, model: str) -> bool:
        """Wait until the machine knows that a model is closed."""
        return self._ask(f"know {model}") == model

    def _ask(self, command: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@pytest.fixture
def names(iproute2: Path) -> Iterator[tuple[str, str]]:
    assert iproute2.is_file()
    both = (f"fallback-a-{os.getpid()}", f"fallback-b-{os.getpid()}")
    try:
        ip("netns", "add", both[0])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this system lets nobody here make network namespaces: {error.stderr.strip()}")
    try:
        ip("netns", "add", both[1])
        ends = (f"fa{os.getpid()}", f"fb{os.getpid()}")
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end, address in zip(both, ends, ADDRESSES, strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "address", "add", f"{address}/24", "dev", end)
            for device in (end, "lo"):
                ip("-n", name, "link", "set", device, "up")
        yield both
    finally:
        for name in both:
            with suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)


@pytest.fixture
def machines(names: tuple[str, str], redis_binary: Path, tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    both = tuple(
        Machine(name, address, tmp_path / name) for name, address in zip(names, ADDRESSES, strict=True)
    )
    for machine in both:
        machine.folder.mkdir()
        (machine.folder / "fallback.toml").write_text(
            '[fallback]\nfallback_models = ["spare/x", "third/y"]\n'
            f'[health]\nurl = "redis://{ADDRESSES[0]}:{PORT}/0"\n'
        )
    options = ("--port", str(PORT), "--bind", ADDRESSES[0], "--protected-mode", "no", "--save", "")
    redis = both[0].popen(redis_binary, *options, "--dir", tmp_path)
    try:
        assert redis.stdout
        assert any(READY in line for line in redis.stdout)
        with ExitStack() as running:
            yield running.enter_context(both[0]), running.enter_context(both[1])
    finally:
        redis.kill()
        redis.communicate()


@pytest.mark.timeout(120)
def test_what_closes_on_one_machine_is_passed_over_on_the_other(machines: tuple[Machine, Machine]) -> None:
    one, other = machines

    assert one.goes_on_with("spare/x") == "third/y"
    assert other.hears_of("spare/x")
    assert other.goes_on_with("main/m") == "third/y"
