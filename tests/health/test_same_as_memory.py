"""Two stores on one file, closed and opened again at any moment, do what one store in memory does."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fallback_plugin.health import MemoryHealth, SqliteHealth
from fallback_plugin.model_ref import ModelRef

MODELS = st.builds(
    ModelRef,
    st.sampled_from(["p", "p/m"]),
    st.sampled_from(["m", "m:high"]),
    st.sampled_from([None, "high", "thinking"]),
)
KEYS = st.sampled_from(["k", "l", "m"])
HOLDERS = st.sampled_from(["a", "b", "c"])
SECONDS = st.floats(0, 200) | st.integers(0, 200).map(float)
PLACES = st.sampled_from([0, 1])


class SameAsMemory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.troubles: list[str] = []
        self.memory = MemoryHealth()
        self.stores = [self.opened(), self.opened()]
        self.now = 1_800_000_000.0

    def opened(self) -> SqliteHealth:
        return SqliteHealth(self.folder / "health.sqlite3", on_trouble=self.troubles.append, busy_timeout_s=5)

    @rule(seconds=SECONDS)
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds

    @rule(place=PLACES, model=MODELS, seconds=st.floats(-50, 500))
    def a_model_is_closed(self, place: int, model: ModelRef, seconds: float) -> None:
        for store in (self.stores[place], self.memory):
            store.close_model(model, self.now + seconds, reason="quota", now=self.now)

    @rule(place=PLACES, model=MODELS)
    def a_model_is_opened(self, place: int, model: ModelRef) -> None:
        for store in (self.stores[place], self.memory):
            store.open_model(model)

    @rule(place=PLACES, key=KEYS, holder=HOLDERS, ttl_s=SECONDS)
    def a_lease_is_claimed(self, place: int, key: str, holder: str, ttl_s: float) -> None:
        assert self.stores[place].claim(key, holder, self.now, ttl_s=ttl_s) == self.memory.claim(
            key, holder, self.now, ttl_s=ttl_s
        )

    @rule(place=PLACES)
    def a_process_ends_and_another_begins(self, place: int) -> None:
        self.stores[place].shut()
        self.stores[place] = self.opened()

    @invariant()
    def all_know_the_same(self) -> None:
        for store in self.stores:
            assert store.cooling(self.now) == self.memory.cooling(self.now)

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert self.troubles == []

    def teardown(self) -> None:
        for store in self.stores:
            store.shut()
        shutil.rmtree(self.folder)


TestSameAsMemory = SameAsMemory.TestCase
TestSameAsMemory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
