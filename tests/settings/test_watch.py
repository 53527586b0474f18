"""Hot reload without waiting: the test is the clock, each of its steps one look at the files."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from fallback_plugin.errors import SettingsError
from fallback_plugin.settings import LoadedSettings, SettingsWatcher
from fallback_plugin.settings.watch import INTERVAL_S, Fingerprint, changed, snapshot
from tests.settings.conftest import Machine

pytestmark = pytest.mark.anyio


@dataclass
class Watch:
    """A running watcher. ``look()`` lets it look at the files once."""

    machine: Machine
    applied: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    in_force: int = 0
    recovered: LoadedSettings | None = None
    slept: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._asleep = anyio.Event()
        self._wake = anyio.Event()

    async def apply(self, loaded: LoadedSettings) -> None:
        self.applied.append(loaded.settings.fallback.max_attempts)

    async def refuse(self, error: SettingsError) -> None:
        self.refused.append(str(error).partition(": ")[2])

    async def say_in_force(self) -> None:
        self.in_force += 1

    def recover(self) -> LoadedSettings:
        if self.recovered is None:
            raise SettingsError("nothing is known")
        return self.recovered

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._asleep.set()
        await self._wake.wait()
        self._wake = anyio.Event()

    async def until_asleep(self) -> None:
        await self._asleep.wait()

    async def look(self) -> None:
        self._asleep = anyio.Event()
        self._wake.set()
        await self.until_asleep()

    def watcher(self) -> SettingsWatcher:
        return SettingsWatcher(
            files=(self.machine.user_file, self.machine.project_file),
            load=self.machine.load,
            apply=self.apply,
            refuse=self.refuse,
            recover=self.recover,
            in_force=self.say_in_force,
            sleep=self.sleep,
        )


@asynccontextmanager
async def watching(machine: Machine) -> AsyncIterator[Watch]:
    watch = Watch(machine)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.watcher().run)
        await watch.until_asleep()
        yield watch
        tasks.cancel_scope.cancel()


def attempts(number: int) -> str:
    return f"[fallback]\nmax_attempts = {number}\n"


async def test_the_first_settings_are_applied(machine: Machine) -> None:
    machine.write_project(attempts(3))
    async with watching(machine) as watch:
        assert watch.applied == [3]


async def test_a_change_is_applied_within_two_looks_and_two_seconds(machine: Machine) -> None:
    machine.write_project(attempts(3))
    async with watching(machine) as watch:
        machine.write_project(attempts(42))
        await watch.look()
        await watch.look()
        assert watch.applied == [3, 42]
        assert 2 * max(watch.slept) <= 2
        assert watch.slept[0] == INTERVAL_S


def _write_user(machine: Machine) -> None:
    machine.write_user(attempts(7))


def _remove_project(machine: Machine) -> None:
    machine.project_file.unlink()


def _replace_project(machine: Machine) -> None:
    new = machine.project / "new.toml"
    new.write_text(attempts(8))
    new.replace(machine.project_file)


@pytest.mark.parametrize(
    ("event", "then"),
    [(_write_user, [3, 3]), (_remove_project, [3, 10]), (_replace_project, [3, 8])],
    ids=["appears", "vanishes", "is replaced"],
)
async def test_a_file_may_appear_vanish_or_be_replaced(
    machine: Machine, event: Callable[[Machine], None], then: list[int]
) -> None:
    machine.write_project("[fallback]\nmax_attempts = 3\n")
    async with watching(machine) as watch:
        event(machine)
        machine.environ["FALLBACK_PLUGIN__FALLBACK__NOTIFY"] = "false"  # so that any reload shows
        await watch.look()
        await watch.look()
        assert watch.applied == then


async def test_a_file_that_is_still_being_written_is_left_alone(machine: Machine) -> None:
    machine.write_project(attempts(3))
    async with watching(machine) as watch:
        machine.write_project("[fallback")
        await watch.look()
        machine.write_project(attempts(4) + "notify = true\n")
        await watch.look()
        await watch.look()
        assert (watch.applied, watch.refused) == ([3, 4], [])


async def test_a_change_that_means_nothing_is_not_applied(machine: Machine) -> None:
    machine.write_project(attempts(3))
    async with watching(machine) as watch:
        machine.write_project(attempts(3) + "# a comment\n")
        await watch.look()
        await watch.look()
        assert watch.applied == [3]


async def test_a_broken_file_is_refused_once_and_the_last_good_settings_stay(machine: Machine) -> None:
    machine.write_project(attempts(3))
    async with watching(machine) as watch:
        for broken in ("[fallback\n", "[fallback\n\n"):
            machine.write_project(broken)
            await watch.look()
            await watch.look()
        assert watch.applied == [3]
        assert len(watch.refused) == 1


async def test_another_mistake_is_refused_again(machine: Machine) -> None:
    async with watching(machine) as watch:
        for broken in ("[fallback\n", "x = 1\n"):
            machine.write_project(broken)
            await watch.look()
            await watch.look()
        assert len(watch.refused) == 2


async def test_the_same_mistake_after_a_repair_is_refused_again(machine: Machine) -> None:
    async with watching(machine) as watch:
        for text in ("[fallback\n", "", "[fallback\n"):
            machine.write_project(text)
            await watch.look()
            await watch.look()
        assert len(watch.refused) == 2


async def test_settings_broken_from_the_start_are_applied_once_repaired(machine: Machine) -> None:
    machine.write_project("[fallback\n")
    async with watching(machine) as watch:
        assert (watch.applied, len(watch.refused)) == ([], 1)
        machine.write_project(attempts(5))
        await watch.look()
        await watch.look()
        assert watch.applied == [5]


async def test_a_reload_by_hand_takes_what_no_file_says(machine: Machine) -> None:
    watch = Watch(machine)
    watcher = watch.watcher()
    await watcher.reload()
    machine.environ["FALLBACK_PLUGIN__FALLBACK__MAX_ATTEMPTS"] = "6"
    await watcher.reload()
    assert watch.applied == [10, 6]
    assert watcher.current is not None
    assert watcher.current.settings.fallback.max_attempts == 6


def test_changed_names_what_differs() -> None:
    one, other = Fingerprint(1, 2, 3), Fingerprint(1, 2, 4)
    a, b, c, d = (Path(name) for name in "abcd")
    before = {a: one, b: one, c: None, d: one}
    after = {a: one, b: other, c: one, d: None}
    assert changed(before, after) == {b, c, d}


def test_a_place_that_cannot_be_looked_at_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert snapshot([tmp_path / "file" / "below", Path("nul\0l")]) == {
        tmp_path / "file" / "below": None,
        Path("nul\0l"): None,
    }


async def test_P19_a_changed_file_that_is_taken_is_said_and_nothing_else(machine: Machine) -> None:
    machine.write_project(attempts(3))
    async with watching(machine) as watch:
        assert watch.in_force == 0
        for text, said in (
            (attempts(4), 1),  # taken
            (attempts(4) + "\n", 1),  # says the same
            ("[fallback", 1),  # refused
            (attempts(4), 2),  # mended, though nothing differs
        ):
            machine.write_project(text)
            await watch.look()
            await watch.look()
            assert watch.in_force == said, text
        assert (watch.applied, len(watch.refused)) == ([3, 4], 1)


async def test_P19_a_reload_that_no_file_caused_is_not_said(machine: Machine) -> None:
    machine.write_project(attempts(3))
    watch = Watch(machine)
    watcher = watch.watcher()
    await watcher.reload()
    machine.environ["FALLBACK_PLUGIN__FALLBACK__NOTIFY"] = "false"
    await watcher.reload()
    assert (watch.applied, watch.in_force) == ([3, 3], 0)


async def test_P11_a_first_load_that_fails_takes_what_is_known_from_before(machine: Machine) -> None:
    machine.write_project(attempts(3))
    known = machine.load()
    machine.write_project("[fallback")
    watch = Watch(machine, recovered=known)
    watcher = watch.watcher()

    await watcher.reload()
    await watcher.reload()  # as for the host's config: nothing new

    assert (watch.applied, len(watch.refused), watcher.current) == ([3], 1, known)
    machine.write_project(attempts(5))
    await watcher.reload()
    machine.write_project("[fallback")
    await watcher.reload()
    assert watch.applied == [3, 5]
    assert watcher.current is not None
    assert watcher.current.settings.fallback.max_attempts == 5
