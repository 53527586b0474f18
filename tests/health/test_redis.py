"""What machines learn of each other through a server, and what they do without it; the server is imitated."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from fakeredis import FakeRedis, FakeServer

from fallback_plugin.health import MemoryHealth, SqliteHealth
from fallback_plugin.health.closure import FORGOTTEN_AFTER_S, NEVER, Closure
from fallback_plugin.health.redis_link import PREFIX
from fallback_plugin.health.scope import closing_key, keys_of
from fallback_plugin.model_ref import ModelRef
from tests.health.machines import Machine, at_imitation

NOW: Final = 1_800_000_000.0
MODEL: Final = ModelRef("openai", "gpt-5.1", "high")
OTHER: Final = ModelRef("anthropic", "claude-opus-4-5")
KEY: Final = closing_key(MODEL, "account")
RECORD: Final = Closure(NOW + 60, "quota", 1, NOW)


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def one(server: FakeServer) -> Iterator[Machine]:
    yield from online(server)


@pytest.fixture
def other(server: FakeServer) -> Iterator[Machine]:
    yield from online(server)


def online(server: FakeServer) -> Iterator[Machine]:
    machine = at_imitation(server)
    machine.health.view(NOW)
    machine.wait_online()
    yield machine
    machine.health.shut()
    assert machine.said.empty()


def inside(server: FakeServer) -> FakeRedis:
    return FakeRedis(server=server, decode_responses=True)


def lose(server: FakeServer, *machines: Machine) -> None:
    """Take the server away and let each machine notice."""
    server.connected = False
    for machine in machines:
        machine.health.claim("to notice", "x", NOW, ttl_s=1)
        assert "cannot be used" in machine.hears()


def bring_back(server: FakeServer, *machines: Machine) -> None:
    server.connected = True
    for machine in machines:
        machine.wait_online()
        assert "is back" in machine.hears()


def close(machine: Machine, model: ModelRef = MODEL, *, for_s: float = 60) -> None:
    machine.health.close(model, "account", NOW + for_s, reason="quota", now=NOW)


def test_what_one_machine_closes_another_sees_and_opens(one: Machine, other: Machine) -> None:
    close(one)
    other.wait_for_entries(NOW, ((KEY, RECORD),))

    other.health.reopen(MODEL, asked_at=NOW)
    one.wait_for_entries(NOW, ())


def test_a_machine_that_comes_later_learns_what_is_closed(server: FakeServer, one: Machine) -> None:
    close(one)

    for late in online(server):
        assert late.health.view(NOW).closures == {KEY: RECORD}


def test_of_two_machines_one_gets_a_lease_and_a_probe(one: Machine, other: Machine) -> None:
    assert one.health.claim("failure", "a", NOW, ttl_s=60)
    assert not other.health.claim("failure", "b", NOW, ttl_s=60)
    assert other.health.claim("failure", "b", NOW + 60, ttl_s=60)

    close(one)
    other.wait_for_entries(NOW, ((KEY, RECORD),))
    assert other.health.begin_probe(KEY, "b", NOW + 60, ttl_s=30)
    assert not one.health.begin_probe(KEY, "a", NOW + 60, ttl_s=30)


def test_a_machine_that_has_not_heard_yet_shortens_nothing(one: Machine, other: Machine) -> None:
    with one.health._turn:
        close(other, for_s=3600)
        close(one)

        assert one.health.view(NOW).closed_until(MODEL) == NOW + 3600


def test_news_that_come_late_do_not_undo_what_is_known(one: Machine, other: Machine) -> None:
    with one.health._turn:
        close(other)
        close(one, for_s=3600)
    close(other, OTHER)

    one.wait_until(lambda: len(one.health.view(NOW).closures) == 2)
    assert one.health.view(NOW).closed_until(MODEL) == NOW + 3600
    other.wait_until(lambda: other.health.view(NOW).closed_until(MODEL) == NOW + 3600)


def test_without_the_server_each_machine_goes_on_and_says_so_once(
    server: FakeServer, one: Machine, other: Machine
) -> None:
    close(one)
    lose(server, one, other)

    close(one, OTHER)
    assert one.health.view(NOW).closed_until(MODEL) == NOW + 60
    assert one.health.view(NOW).closed_until(OTHER) == NOW + 60
    assert other.health.view(NOW).closed_until(OTHER) == NEVER
    assert one.health.claim("failure", "a", NOW, ttl_s=60)
    assert not one.health.claim("failure", "b", NOW, ttl_s=60)
    assert one.said.empty()

    bring_back(server, one, other)


def test_when_the_server_is_back_all_learn_what_each_closed(
    server: FakeServer, one: Machine, other: Machine
) -> None:
    lose(server, one, other)
    close(one)
    close(other, OTHER, for_s=90)

    bring_back(server, one, other)

    both = ((closing_key(OTHER, "account"), Closure(NOW + 90, "quota", 1, NOW)), (KEY, RECORD))
    one.wait_for_entries(NOW, both)
    other.wait_for_entries(NOW, both)


def test_of_what_two_closed_alone_the_longer_stays(server: FakeServer, one: Machine, other: Machine) -> None:
    lose(server, one, other)
    close(one, for_s=3600)
    close(other, for_s=60)

    bring_back(server, one, other)

    for each in (one, other):
        each.wait_for_entries(NOW, ((KEY, Closure(NOW + 3600, "quota", 1, NOW)),))


def test_what_was_closed_alone_outlives_shorter_news_of_others(
    server: FakeServer, tmp_path: Path, other: Machine
) -> None:
    """A neighbour without the server closes a model in the file that a machine with the server shares."""
    local = SqliteHealth(tmp_path / "file", on_trouble=pytest.fail, any_thread=True)
    neighbour = SqliteHealth(tmp_path / "file", on_trouble=pytest.fail)
    one = at_imitation(server, local)
    one.health.view(NOW)
    one.wait_online()
    neighbour.close(MODEL, "account", NOW + 3600, reason="quota", now=NOW)

    close(other)
    close(other, OTHER)

    one.wait_until(lambda: closing_key(OTHER, "account") in one.health.view(NOW).closures)
    assert one.health.view(NOW).closed_until(MODEL) == NOW + 3600
    one.health.shut()
    neighbour.shut()


def test_what_was_opened_alone_is_opened_for_all(server: FakeServer, one: Machine, other: Machine) -> None:
    close(one)
    other.wait_for_entries(NOW, ((KEY, RECORD),))
    lose(server, one, other)
    one.health.reopen(MODEL, asked_at=NOW + 1)

    bring_back(server, one, other)

    other.wait_for_entries(NOW, ())
    assert one.health.view(NOW).entries() == ()


def test_what_others_opened_meanwhile_does_not_come_back(server: FakeServer, one: Machine) -> None:
    close(one)
    lose(server, one)
    others = at_imitation(server)
    with one.health._turn:
        server.connected = True
        others.health.view(NOW)
        others.wait_online()
        others.health.clear([KEY])
    others.health.shut()

    bring_back(server, one)

    one.wait_for_entries(NOW, ())


def test_a_server_that_lost_its_memory_is_told_again(
    server: FakeServer, one: Machine, other: Machine
) -> None:
    close(one)
    close(one, OTHER)
    other.wait_until(lambda: len(other.health.view(NOW).closures) == 2)
    inside(server).flushall()

    other.health.close(ModelRef("p", "m"), "model", NOW + 60, reason="quota", now=NOW)

    for each in (one, other):
        assert "it has lost its memory" in each.hears()
        assert "is back" in each.hears()
    third = at_imitation(server)
    third.health.view(NOW)
    third.wait_until(lambda: len(third.health.view(NOW).closures) == 3)
    third.health.shut()


def test_what_an_ended_process_closed_alone_is_handed_in_by_the_next(
    server: FakeServer, tmp_path: Path, one: Machine
) -> None:
    file = tmp_path / "health.sqlite3"
    before = SqliteHealth(file, on_trouble=pytest.fail)
    before.close(MODEL, "account", NOW + 60, reason="quota", now=NOW)
    before.shut()

    after = at_imitation(server, SqliteHealth(file, on_trouble=pytest.fail, any_thread=True))
    after.health.view(NOW)

    one.wait_for_entries(NOW, ((KEY, RECORD),))
    after.wait_until(lambda: after.health.view(NOW).closures[KEY].shared)
    after.health.shut()


def test_a_server_that_is_down_at_the_start_is_said_once_without_the_password(server: FakeServer) -> None:
    server.connected = False
    machine = at_imitation(server)

    machine.health.settle(5)
    close(machine)

    text = machine.hears()
    assert text.startswith("redis://imitation:6379/0 cannot be used: ")
    assert "hunter2" not in text
    assert machine.health.view(NOW).closed_until(MODEL) == NOW + 60
    bring_back(server, machine)
    assert inside(server).keys(f"{PREFIX}closed:*") == [f'{PREFIX}closed:["account","openai","",""]']
    machine.health.shut()


def test_a_lease_taken_alone_is_not_taken_again_on_this_machine(server: FakeServer, one: Machine) -> None:
    lose(server, one)
    assert one.health.claim("failure", "a", NOW, ttl_s=60)

    bring_back(server, one)

    assert not one.health.claim("failure", "b", NOW, ttl_s=60)


def test_everything_at_the_server_has_our_prefix_and_a_time_to_live(server: FakeServer, one: Machine) -> None:
    close(one)
    one.health.claim("failure", "a", NOW, ttl_s=60)

    client = inside(server)
    lives = {str(name).removeprefix(PREFIX): client.ttl(name) for name in client.keys("*")}

    assert lives == {
        'closed:["account","openai","",""]': pytest.approx(60 + FORGOTTEN_AFTER_S, abs=2),
        "lease:failure": pytest.approx(60 + 60, abs=2),
        "index": -1,
        "revision": -1,
    }


def test_the_index_forgets_what_has_expired(server: FakeServer, one: Machine) -> None:
    close(one)
    later = NOW + 60 + FORGOTTEN_AFTER_S + 1
    one.health.view(later)

    one.health.close(OTHER, "model", later + 60, reason="quota", now=later)

    assert inside(server).zcard(f"{PREFIX}index") == 1


@pytest.mark.parametrize(
    "name", ["x" * 100_000, "a b\r\nDEL x", "*", "é…💥" * 99, "\ud800", "{tag}", "a\0b", ""]
)
def test_a_name_at_the_server_is_short_and_plain_and_no_two_share_one(
    server: FakeServer, one: Machine, other: Machine, name: str
) -> None:
    models = [ModelRef(name, name, name), ModelRef(name, f"{name}?", name)]
    for model in models:
        one.health.close(model, "model", NOW + 60, reason="quota", now=NOW)
    one.health.claim(name, "a", NOW, ttl_s=60)

    assert not other.health.claim(name, "b", NOW, ttl_s=60)
    names = inside(server).keys(f"{PREFIX}*")
    assert len(names) == 5
    assert all(len(found) < 300 and found.isascii() for found in names)
    expected = {key for model in models for key in keys_of(model) if key.scope == "model"}
    other.wait_until(lambda: set(other.health.view(NOW).closures) == expected)


@pytest.mark.parametrize("value", ["", "nonsense", "[1,2]", '[["model","p","m",""],7]'])
def test_what_nobody_of_us_wrote_is_replaced(server: FakeServer, one: Machine, value: str) -> None:
    inside(server).set(f'{PREFIX}closed:["account","openai","",""]', value)
    inside(server).set(f"{PREFIX}lease:failure", value)
    inside(server).publish(f"{PREFIX}changes:0", value)

    close(one)

    assert one.health.view(NOW).closed_until(MODEL) == NOW + 60
    assert one.health.claim("failure", "a", NOW, ttl_s=60)


def test_a_local_store_that_lost_its_file_still_works_with_the_server(
    server: FakeServer, tmp_path: Path, one: Machine
) -> None:
    (tmp_path / "taken").write_text("")
    said: list[str] = []
    local = SqliteHealth(tmp_path / "taken" / "health.sqlite3", on_trouble=said.append, any_thread=True)
    machine = at_imitation(server, local)
    machine.health.view(NOW)
    machine.wait_online()

    close(one)

    machine.wait_for_entries(NOW, ((KEY, RECORD),))
    assert len(said) == 1
    machine.health.shut()


def test_after_shutting_nothing_waits_and_nothing_is_asked(server: FakeServer) -> None:
    machine = at_imitation(server, MemoryHealth())
    machine.health.shut()

    assert machine.health.claim("failure", "a", NOW, ttl_s=60)
    close(machine)

    assert machine.health.view(NOW).closed_until(MODEL) == NOW + 60
    assert machine.health._thread is None
    assert inside(server).keys("*") == []


def test_a_missing_library_is_said_with_what_to_do(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = at_imitation(server)

    def missing(*_: object) -> None:
        raise ImportError

    monkeypatch.setattr(machine.health._link, "_connect", missing)
    machine.health.settle(5)

    said = machine.hears()
    assert "pip install '.[redis]'" in said
    assert "pipx runpip fallback-plugin install 'fallback-plugin[redis]'" in said
    machine.health.shut()
