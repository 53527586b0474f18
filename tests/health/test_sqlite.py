"""Several stores on one file, in this process and in others, and the file itself."""

import json
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from fallback_plugin.health import SqliteHealth
from fallback_plugin.health.memory import SWEEP_EVERY_S
from fallback_plugin.health.scope import Key, keys_of
from fallback_plugin.model_ref import ModelRef
from tests.health.cooling import cooling

ROOT: Final = Path(__file__).parents[2]
MODEL: Final = ModelRef("openai", "gpt-5.1", "high")
NOW: Final = 1_800_000_000.0
TRIES: Final = 1000

COMPETE: Final = """
import json, sys
from pathlib import Path
from fallback_plugin.health import SqliteHealth
from fallback_plugin.health.scope import Key

troubles = []
health = SqliteHealth(Path(sys.argv[1]), on_trouble=troubles.append, busy_timeout_s=5)
health.view(0)
print("ready", flush=True)
sys.stdin.readline()
holder, now = sys.argv[2], 1.0
take = {
    "lease": lambda n: health.claim(f"failure {n}", holder, now, ttl_s=60),
    "probe": lambda n: health.begin_probe(Key("model", "p", str(n)), holder, now, ttl_s=60),
}[sys.argv[4]]
won = [number for number in range(int(sys.argv[3])) if take(number)]
health.shut()
print(json.dumps({"won": won, "troubles": troubles}))
"""

CLOSE_FOR_EVER: Final = """
import itertools, sys
from pathlib import Path
from fallback_plugin.health import SqliteHealth
from fallback_plugin.model_ref import ModelRef

health = SqliteHealth(Path(sys.argv[1]), on_trouble=sys.exit)
for number in itertools.count():
    health.close(ModelRef("p", str(number)), "model", 100.0 + number, reason="rate_limit", now=1.0)
    print(number, flush=True)
"""

PROBE: Final = """
import sys
from pathlib import Path
from fallback_plugin.health import SqliteHealth
from fallback_plugin.health.scope import Key

health = SqliteHealth(Path(sys.argv[1]), on_trouble=sys.exit)
print(health.begin_probe(Key("model", "p", "m"), "killed", float(sys.argv[2]), ttl_s=60), flush=True)
sys.stdin.readline()
"""

COOLING: Final = """
import json, sys
from pathlib import Path
from fallback_plugin.health import SqliteHealth
from tests.health.cooling import cooling

health = SqliteHealth(Path(sys.argv[1]), on_trouble=sys.exit)
print(json.dumps({str(model): until for model, until in cooling(health, float(sys.argv[2])).items()}))
"""

NOT_YET: Final = """
import sys
from pathlib import Path
from fallback_plugin.health import SqliteHealth

SqliteHealth(Path(sys.argv[1]), on_trouble=sys.exit)
print(*sys.modules)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "fallback-plugin" / "health.sqlite3"


@pytest.fixture
def one(file: Path) -> Iterator[SqliteHealth]:
    yield from store(file)


@pytest.fixture
def other(file: Path) -> Iterator[SqliteHealth]:
    yield from store(file)


def store(file: Path) -> Iterator[SqliteHealth]:
    troubles: list[str] = []
    health = SqliteHealth(file, on_trouble=troubles.append, busy_timeout_s=5)
    yield health
    health.shut()
    assert troubles == []


def program(text: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_one_store_closes_and_opens_another_sees(one: SqliteHealth, other: SqliteHealth) -> None:
    assert cooling(other, NOW) == {}

    one.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)
    assert cooling(other, NOW) == {MODEL: NOW + 60}

    other.clear(keys_of(MODEL))
    assert cooling(one, NOW) == {}


def test_no_store_shortens_what_another_wrote(one: SqliteHealth, other: SqliteHealth) -> None:
    one.view(NOW)
    other.close(MODEL, "model", NOW + 3600, reason="quota", now=NOW)

    one.close(MODEL, "model", NOW + 60, reason="rate_limit", now=NOW)

    assert cooling(one, NOW) == cooling(other, NOW) == {MODEL: NOW + 3600}


def test_of_two_stores_one_gets_the_lease(one: SqliteHealth, other: SqliteHealth) -> None:
    assert one.claim("failure", "a", NOW, ttl_s=60)
    assert not other.claim("failure", "b", NOW, ttl_s=60)
    assert other.claim("failure", "b", NOW + 60, ttl_s=60)
    assert not one.claim("failure", "a", NOW + 61, ttl_s=60)


def test_an_unchanged_file_is_not_read_again(one: SqliteHealth) -> None:
    one.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)

    assert one.view(NOW).closures is one.view(NOW + 1).closures


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", ["lease", "probe"])
def test_of_two_processes_exactly_one_gets_each(file: Path, one: SqliteHealth, what: str) -> None:
    for number in range(TRIES):
        one.close(ModelRef("p", str(number)), "model", 1.0, reason="quota", now=0.0)

    with (
        program(COMPETE, file, "a", TRIES, what) as first,
        program(COMPETE, file, "b", TRIES, what) as second,
    ):
        for process in (first, second):
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in (first, second):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [json.loads(process.communicate()[0]) for process in (first, second)]

    assert [answer["troubles"] for answer in answers] == [[], []]
    assert sorted(answers[0]["won"] + answers[1]["won"]) == list(range(TRIES))


def test_a_killed_process_leaves_everything_it_committed(file: Path, one: SqliteHealth) -> None:
    with program(CLOSE_FOR_EVER, file) as process:
        assert process.stdout
        for _ in range(300):
            process.stdout.readline()
        process.kill()
        *_, last = (299, *map(int, process.stdout.read().split()))
    assert process.returncode == -signal.SIGKILL

    known = cooling(one, 0)

    # The one it was killed in may have been committed without being told.
    assert len(known) - (last + 1) in (0, 1)
    assert {model: until for model, until in known.items() if int(model.model) <= last} == {
        ModelRef("p", str(number)): 100.0 + number for number in range(last + 1)
    }
    assert one.claim("failure", "a", NOW, ttl_s=60)


def test_a_probe_whose_process_was_killed_is_for_the_next_when_its_time_is_over(
    file: Path, one: SqliteHealth
) -> None:
    one.close(ModelRef("p", "m"), "model", NOW, reason="server", now=NOW - 60, base_s=60)
    with program(PROBE, file, NOW) as process:
        assert process.stdout
        granted = process.stdout.readline().strip()
        process.kill()

    key = Key("model", "p", "m")
    assert granted == "True"
    assert not one.begin_probe(key, "next", NOW + 59, ttl_s=60)
    assert one.begin_probe(key, "next", NOW + 60, ttl_s=60)


def test_a_new_process_knows_what_cools(file: Path, one: SqliteHealth) -> None:
    one.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)

    with program(COOLING, file, NOW) as process:
        answer = process.communicate()[0]

    assert json.loads(answer) == {"openai/gpt-5.1:high": NOW + 60}


def test_nothing_is_opened_or_imported_before_the_first_call(file: Path) -> None:
    with program(NOT_YET, file) as process:
        modules = process.communicate()[0].split()

    assert not file.parent.exists()
    assert "fallback_plugin.health.sqlite" in modules
    assert not {"sqlite3", "pydantic"} & set(modules)


def test_the_file_is_for_its_owner_only(file: Path, one: SqliteHealth) -> None:
    one.claim("failure", "a", NOW, ttl_s=60)

    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in file.parent.iterdir()}
    assert modes == dict.fromkeys(
        ("health.sqlite3", "health.sqlite3-wal", "health.sqlite3-shm"),
        0o600,
    )
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_shutting_leaves_one_file_that_holds_everything(file: Path, one: SqliteHealth) -> None:
    one.close(MODEL, "model", NOW + 60, reason="quota", now=NOW)

    one.shut()

    assert list(file.parent.iterdir()) == [file]
    with closing(sqlite3.connect(file)) as reader:
        assert reader.execute("SELECT key, until, reason, failures, closed_at FROM closures").fetchall() == [
            ('["model","openai","gpt-5.1","high"]', NOW + 60, "quota", 1, NOW)
        ]


def test_a_call_after_shutting_does_not_open_the_file_again(file: Path, one: SqliteHealth) -> None:
    one.view(NOW)
    one.shut()

    one.claim("failure", "a", NOW, ttl_s=60)

    assert list(file.parent.iterdir()) == [file]


def test_expired_leases_are_thrown_away(file: Path, one: SqliteHealth) -> None:
    for number in range(100):
        one.claim(f"failure {number}", "a", NOW + number, ttl_s=1)

    one.claim("last", "a", NOW + 100 + SWEEP_EVERY_S, ttl_s=1)

    with closing(sqlite3.connect(file)) as reader:
        assert reader.execute("SELECT key FROM leases").fetchall() == [("last",)]


def test_a_call_from_another_thread_is_a_mistake_and_said_so(one: SqliteHealth) -> None:
    one.view(NOW)
    raised: list[str] = []

    def call() -> None:
        try:
            one.view(NOW)
        except sqlite3.ProgrammingError as error:
            raised.append(str(error))

    thread = Thread(target=call)
    thread.start()
    thread.join()

    assert "same thread" in raised[0]
