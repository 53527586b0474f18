"""Two stores that share a file or a server do what one store in memory does, whoever is asked."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fakeredis import FakeServer
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from fallback_plugin.health import HealthStore, MemoryHealth, SqliteHealth
from fallback_plugin.health.scope import Scope, closing_key
from fallback_plugin.model_ref import ModelRef
from tests.health.machines import Machine, at_imitation

MODELS = st.builds(
    ModelRef,
    st.sampled_from(["p", "p/m"]),
    st.sampled_from(["m", "m:high", "v/m", "v/n"]),
    st.sampled_from([None, "high", "thinking"]),
)
SCOPES = st.sampled_from(["model", "provider", "account", "upstream"])
KEYS = st.sampled_from(["k", "l", "m"])
HOLDERS = st.sampled_from(["a", "b", "c"])
SECONDS = st.floats(0, 200) | st.integers(0, 200).map(float)
PLACES = st.sampled_from([0, 1])


class SameAsMemory(RuleBasedStateMachine):
    """A subclass says what the two stores are."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.troubles: list[str] = []
        self.memory = MemoryHealth()
        self.now = 1_800_000_000.0
        self.stores: list[HealthStore] = [self.opened(0), self.opened(1)]

    def opened(self, place: int) -> HealthStore:
        raise NotImplementedError

    def sqlite(self, name: str) -> SqliteHealth:
        return SqliteHealth(
            self.folder / name, on_trouble=self.troubles.append, busy_timeout_s=5, any_thread=True
        )

    def both(self, place: int, act: Callable[[HealthStore], object]) -> None:
        assert act(self.stores[place]) == act(self.memory)

    @rule(seconds=SECONDS | st.just(90_000.0))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        place=PLACES,
        model=MODELS,
        scope=SCOPES,
        seconds=st.floats(-50, 500) | st.just(1e6),
        base_s=st.sampled_from([0.0, 60.0]),
    )
    def a_model_fails(self, place: int, model: ModelRef, scope: Scope, seconds: float, base_s: float) -> None:
        self.both(
            place,
            lambda store: store.close(
                model, scope, self.now + seconds, reason="quota", now=self.now, base_s=base_s
            ),
        )

    @rule(place=PLACES, model=MODELS, scope=SCOPES, holder=HOLDERS, ttl_s=SECONDS)
    def a_probe_begins(self, place: int, model: ModelRef, scope: Scope, holder: str, ttl_s: float) -> None:
        key = closing_key(model, scope)
        self.both(place, lambda store: store.begin_probe(key, holder, self.now, ttl_s=ttl_s))

    @rule(place=PLACES, model=MODELS, holder=HOLDERS)
    def a_probe_ends(self, place: int, model: ModelRef, holder: str) -> None:
        self.both(place, lambda store: store.end_probe(model, holder))

    @rule(place=PLACES, model=MODELS, ago_s=SECONDS)
    def a_model_answers(self, place: int, model: ModelRef, ago_s: float) -> None:
        self.both(place, lambda store: store.reopen(model, asked_at=self.now - ago_s))

    @rule(place=PLACES, model=MODELS, scope=SCOPES)
    def a_key_is_cleared(self, place: int, model: ModelRef, scope: Scope) -> None:
        self.both(place, lambda store: store.clear([closing_key(model, scope)]))

    @rule(place=PLACES, key=KEYS, holder=HOLDERS, ttl_s=SECONDS)
    def a_lease_is_claimed(self, place: int, key: str, holder: str, ttl_s: float) -> None:
        self.both(place, lambda store: store.claim(key, holder, self.now, ttl_s=ttl_s))

    @rule(place=PLACES)
    def a_process_ends_and_another_begins(self, place: int) -> None:
        self.stores[place].shut()
        self.stores[place] = self.opened(place)

    @invariant()
    def all_know_the_same(self) -> None:
        known = self.memory.view(self.now).entries()
        for store in self.stores:
            assert store.view(self.now).entries() == known

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert self.troubles == []

    def teardown(self) -> None:
        for store in self.stores:
            store.shut()
        shutil.rmtree(self.folder)


class TwoProcesses(SameAsMemory):
    """Both have one file."""

    def opened(self, place: int) -> HealthStore:  # noqa: ARG002
        return self.sqlite("health.sqlite3")


class TwoMachines(SameAsMemory):
    """Both have one server, and each a file of its own."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.machines: dict[int, Machine] = {}
        super().__init__()

    def opened(self, place: int) -> HealthStore:
        self.machines[place] = at_imitation(self.server, self.sqlite(f"{place}.sqlite3"))
        self.machines[place].health.view(self.now)
        self.machines[place].wait_online()
        return self.machines[place].health

    @invariant()
    def all_know_the_same(self) -> None:
        known = self.memory.view(self.now).entries()
        for each in self.machines.values():
            each.wait_for_entries(self.now, known)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("machine", [TwoProcesses, TwoMachines])
def test_same_as_memory(machine: type[SameAsMemory]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None)
    )
