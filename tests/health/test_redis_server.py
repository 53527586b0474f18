"""Processes and machines at a real redis-server, which goes and comes back."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.health import SqliteHealth
from fallback_plugin.health.closure import Closure
from fallback_plugin.health.redis_link import ANSWER_TIMEOUT_S
from fallback_plugin.health.scope import closing_key
from fallback_plugin.model_ref import ModelRef
from tests.health.machines import PATIENCE_S, Machine, at_server
from tests.health.redis_server import RedisServer

ROOT: Final = Path(__file__).parents[2]
NOW: Final = 1_800_000_000.0
TRIES: Final = 1000
MODEL: Final = ModelRef("openai", "gpt-5.1", "high")
OTHER: Final = ModelRef("anthropic", "claude-opus-4-5")
KEY: Final = closing_key(MODEL, "account")
RECORD: Final = Closure(NOW + 60, "quota", 1, NOW)

COMPETE: Final = """
import json, sys
from fallback_plugin.health.scope import Key
from tests.health.machines import at_server

url, holder, what, tries, now = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
machine = at_server(url)
machine.health.view(now)
machine.wait_online()
print("ready", flush=True)
sys.stdin.readline()
take = {
    "lease": lambda n: machine.health.claim(f"failure {n}", holder, now, ttl_s=60),
    "probe": lambda n: machine.health.begin_probe(Key("model", "p", str(n)), holder, now, ttl_s=60),
}[what]
won = [number for number in range(tries) if take(number)]
print(json.dumps({"won": won, "said": list(machine.said.queue)}))
"""


@contextmanager
def machine(url: str, file: Path, *, answer_timeout_s: float = PATIENCE_S) -> Iterator[Machine]:
    local = SqliteHealth(file, on_trouble=pytest.fail, busy_timeout_s=5, any_thread=True)
    one = at_server(url, local, answer_timeout_s=answer_timeout_s)
    one.health.view(NOW)
    yield one
    one.health.shut()


def close(one: Machine, model: ModelRef = MODEL) -> None:
    one.health.close(model, "account", NOW + 60, reason="quota", now=NOW)


def competitor(url: str, holder: str, what: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMPETE, url, holder, what, str(TRIES), str(NOW)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", ["lease", "probe"])
def test_of_two_processes_exactly_one_gets_each(redis_server: RedisServer, tmp_path: Path, what: str) -> None:
    with machine(redis_server.url, tmp_path / "health.sqlite3") as one:
        one.wait_online()
        for number in range(TRIES):
            model = ModelRef("p", str(number))
            one.health.close(model, "model", NOW - 1, reason="quota", now=NOW - 60)

    url = redis_server.url
    with competitor(url, "a", what) as first, competitor(url, "b", what) as second:
        for process in (first, second):
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in (first, second):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [json.loads(process.communicate()[0]) for process in (first, second)]

    assert [answer["said"] for answer in answers] == [[], []]
    assert sorted(answers[0]["won"] + answers[1]["won"]) == list(range(TRIES))


@pytest.mark.timeout(60)
def test_a_server_that_is_killed_and_started_again_in_mid_run(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    with (
        machine(redis_server.url, tmp_path / "one.sqlite3") as one,
        machine(redis_server.url, tmp_path / "other.sqlite3") as other,
    ):
        one.wait_online()
        other.wait_online()
        close(one)
        other.wait_for_entries(NOW, ((KEY, RECORD),))

        redis_server.kill()
        for each in (one, other):
            assert f"redis://127.0.0.1:{redis_server.port}/3 cannot be used" in each.hears()
        close(other, OTHER)
        assert other.health.claim("failure", "b", NOW, ttl_s=60)
        # It comes back without any memory.
        redis_server.start()
        for each in (one, other):
            assert "is back" in each.hears()

        both = ((closing_key(OTHER, "account"), RECORD), (KEY, RECORD))
        one.wait_for_entries(NOW, both)
        other.wait_for_entries(NOW, both)
        one.health.reopen(MODEL, asked_at=NOW)
        other.wait_for_entries(NOW, both[:1])
        assert one.said.empty()
        assert other.said.empty()


@pytest.mark.timeout(60)
def test_a_server_that_starts_later_is_joined(redis_binary: Path, tmp_path: Path) -> None:
    server = RedisServer(redis_binary, tmp_path)
    with machine(server.url, tmp_path / "one.sqlite3") as one:
        assert "cannot be used" in one.hears()
        close(one)

        server.start()

        assert "is back" in one.hears()
        with machine(server.url, tmp_path / "other.sqlite3") as other:
            other.wait_for_entries(NOW, ((KEY, RECORD),))
    server.kill()


@pytest.mark.timeout(60)
def test_a_server_that_hangs_is_not_waited_for(redis_server: RedisServer, tmp_path: Path) -> None:
    with machine(redis_server.url, tmp_path / "health.sqlite3", answer_timeout_s=ANSWER_TIMEOUT_S) as one:
        one.wait_online()
        redis_server.freeze()

        began = time.monotonic()
        close(one)
        granted = one.health.claim("failure", "a", NOW, ttl_s=60)
        took_s = time.monotonic() - began
        redis_server.thaw()

        assert granted
        assert one.health.view(NOW).closed_until(MODEL) == NOW + 60
        assert "cannot be used" in one.hears()
        # The first call waits for an answer, the second does not ask any more; more is for a busy machine.
        assert took_s < 6 * ANSWER_TIMEOUT_S
        assert "is back" in one.hears()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("password", "given"), [("hunter2", "hunter3"), ("p@ss:/w%rd", "")])
def test_a_refused_password_is_said_and_not_shown(
    redis_binary: Path, tmp_path: Path, password: str, given: str
) -> None:
    server = RedisServer(redis_binary, tmp_path, password=password)
    server.start()
    login = f":{given}@" if given else ""

    with machine(f"redis://{login}127.0.0.1:{server.port}", tmp_path / "health.sqlite3") as one:
        text = one.hears()

    server.kill()
    assert "cannot be used" in text
    assert password not in text
    assert given == "" or given not in text


@pytest.mark.timeout(60)
def test_a_password_with_any_sign_opens_the_server(redis_binary: Path, tmp_path: Path) -> None:
    server = RedisServer(redis_binary, tmp_path, password="p@ss:/w%rd")
    server.start()

    with machine(
        f"valkey://:p%40ss%3A%2Fw%25rd@127.0.0.1:{server.port}/1", tmp_path / "health.sqlite3"
    ) as one:
        one.wait_online()

    server.kill()
    assert one.said.empty()


@pytest.mark.timeout(60)
def test_machines_at_different_databases_do_not_hear_each_other(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    elsewhere = redis_server.url.replace("/3", "/4")
    with (
        machine(redis_server.url, tmp_path / "one.sqlite3") as one,
        machine(elsewhere, tmp_path / "other.sqlite3") as other,
        machine(redis_server.url, tmp_path / "third.sqlite3") as third,
    ):
        for each in (one, other, third):
            each.wait_online()
        close(one)
        third.wait_for_entries(NOW, ((KEY, RECORD),))

        assert other.health.claim("failure", "b", NOW, ttl_s=60)
        assert other.health.view(NOW).entries() == ()
