"""A plugin's memory in the whole host: opened before a turn, told of turns, and closed once after that."""

from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from fallback_plugin.agent import remembering
from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.memory.digest import SessionDigests
from fallback_plugin.agent.memory.segments import SessionMemory
from fallback_plugin.agent.records import UserPrompt
from fallback_plugin.agent.store import segments
from fallback_plugin.hookspecs import MemorySegment, hookimpl
from tests.agent.whole_host import complete, new_session, prompt, running_host, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream

pytestmark = pytest.mark.anyio


@dataclass(eq=False)
class Database:
    """What the plugin has open; ``full`` lets it refuse, ``gate`` holds what it is told."""

    session_id: str
    owner_key: str
    kept: list[tuple[str, int, int]] = field(default_factory=list)
    told: anyio.Event = field(default_factory=anyio.Event)
    gate: anyio.Event | None = None
    full: bool = False
    closed: int = 0

    async def commit(self, segment: MemorySegment) -> None:
        assert not self.closed
        self.told.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.full:
            raise OSError("the memory is full")
        self.kept.append((segment.session_id, segment.start, segment.end))

    async def close(self) -> None:
        self.closed += 1


class Memory:
    """A plugin that keeps sessions in databases of its own, one configuration at a time."""

    def __init__(self, owner_key: str = "A") -> None:
        self.owner_key = owner_key
        self.opened: list[Database] = []
        self.gate: anyio.Event | None = None
        self.opening = anyio.Event()
        self.is_away = False

    @hookimpl
    async def open_session_memory(self, session_id: str, owner_key: str | None) -> Database | None:
        self.opening.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.is_away:
            raise OSError("the memory is away")
        self.opened.append(Database(session_id, owner_key or self.owner_key))
        return self.opened[-1]

    def kept(self) -> list[tuple[str, int, int]]:
        return [each for database in self.opened for each in database.kept]

    def assert_each_closed_once(self) -> None:
        assert [database.closed for database in self.opened] == [1] * len(self.opened)


@pytest.fixture
def answering(provider: ScriptedProvider) -> ScriptedProvider:
    provider.script("first", stream("Yes."))
    return provider


async def owed(host: AgentHost, session_id: str) -> SessionMemory:
    return await host.store.read(lambda rows: segments.load(rows, session_id))


async def test_it_is_open_over_turns_and_closed_once_at_the_end(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    memory = Memory()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        session = await new_session(host)
        await complete(host, session)
        await complete(host, session)
        (database,) = memory.opened
        assert (database.kept, database.closed) == ([], 0)
        (segment,) = (await owed(host, session)).segments
        assert (segment.owner_key, segment.start, segment.end) == ("A", 1, 2)

    assert database.kept == [(session, 1, 2)]
    memory.assert_each_closed_once()


async def test_d10_one_of_too_many_is_committed_and_closed_and_opened_again_when_it_is_used(
    answering: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering, "OPEN_AT_ONCE", 1)
    memory = Memory()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        first, second = await new_session(host), await new_session(host)
        await complete(host, first)
        await complete(host, second)
        await host.memory.quiet()
        assert (memory.opened[0].kept, memory.opened[0].closed) == ([(first, 1, 1)], 1)
        assert (memory.opened[1].kept, memory.opened[1].closed) == ([], 0)

        await complete(host, first)

    assert [database.session_id for database in memory.opened] == [first, second, first]
    assert sorted(memory.kept()) == sorted([(first, 1, 1), (second, 1, 1), (first, 2, 2)])
    memory.assert_each_closed_once()


async def test_d11_the_end_waits_for_a_commit_and_takes_newer_turns_along(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    memory = Memory()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        session = await new_session(host)
        await complete(host, session)
        (database,) = memory.opened
        database.gate = anyio.Event()
        host.memory.left(session)
        await database.told.wait()
        await complete(host, session)
        assert (database.kept, database.closed) == ([], 0)
        database.gate.set()

    assert database.kept == [(session, 1, 1), (session, 2, 2)]
    memory.assert_each_closed_once()


async def test_d12_other_sessions_take_turns_while_the_oldest_is_committed(
    answering: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembering, "OPEN_AT_ONCE", 1)
    memory = Memory()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        oldest, other = await new_session(host), await new_session(host)
        await complete(host, oldest)
        memory.opened[0].gate = anyio.Event()
        await complete(host, other)
        await memory.opened[0].told.wait()

        assert (await complete(host, other)).outcome == "completed"
        assert (await complete(host, oldest)).outcome == "completed", "it is used again, so it stays"
        assert memory.opened[0].closed == 0
        memory.opened[0].gate.set()

    assert sorted(memory.kept()) == sorted([(oldest, 1, 1), (oldest, 2, 2), (other, 1, 2)])
    memory.assert_each_closed_once()


async def test_a_deleted_session_is_closed_and_not_committed(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    memory = Memory()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        session = await new_session(host)
        await complete(host, session)
        await host.delete_session(session)
        await host.memory.quiet()
        memory.assert_each_closed_once()

    memory.assert_each_closed_once()
    assert memory.kept() == []


async def test_a_session_that_goes_on_under_another_id_takes_its_memory_along(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    memory = Memory()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        session = await new_session(host)
        await complete(host, session)
        continued = (await host.summarize(session, None)).session_id
        assert continued != session
        await complete(host, continued)

    (database,) = memory.opened
    assert database.kept == [(continued, 1, 2)]
    memory.assert_each_closed_once()


async def test_a_commit_under_way_ends_under_the_new_id(answering: ScriptedProvider, tmp_path: Path) -> None:
    memory = Memory()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        session = await new_session(host)
        await complete(host, session)
        (database,) = memory.opened
        database.gate = anyio.Event()
        host.memory.left(session)
        await database.told.wait()
        continued = (await host.summarize(session, None)).session_id
        database.gate.set()
        await host.memory.quiet()

        assert database.kept == [(session, 1, 1)]
        assert (await owed(host, continued)).is_clean


async def test_another_configuration_gets_the_turns_after_it_and_the_one_before_its_own(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    memory = Memory("A")
    settings = settings_for(answering)
    async with running_host(tmp_path, settings, {"memory": memory}) as host:
        session = await new_session(host)
        await complete(host, session)
        memory.owner_key = "B"
        await complete(host, session)
        assert len(memory.opened) == 1, "nobody said that anything changed"
        await host.apply(settings)
        await complete(host, session)
        await host.memory.quiet()
        before, after = memory.opened
        assert (before.owner_key, before.kept, before.closed) == ("A", [(session, 1, 2)], 1)

    assert (after.owner_key, after.kept) == ("B", [(session, 3, 3)])
    memory.assert_each_closed_once()


async def test_what_cannot_be_committed_is_committed_after_the_next_start(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    settings, memory = settings_for(answering), Memory()
    async with running_host(tmp_path, settings, {"memory": memory}) as host:
        session = await new_session(host)
        await complete(host, session)
        memory.opened[0].full = True
    memory.assert_each_closed_once()

    again = Memory("B")
    async with running_host(tmp_path, settings, {"memory": again}):
        pass

    (database,) = again.opened
    assert (database.owner_key, database.kept) == ("A", [(session, 1, 1)]), "it was marked for that one"
    again.assert_each_closed_once()


async def test_turns_of_a_memory_that_was_away_are_kept_once_it_is_back(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    memory = Memory()
    memory.is_away = True
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        session = await new_session(host)
        assert (await complete(host, session)).outcome == "completed"
        host.memory.left(session)
        await host.memory.quiet()
        (segment,) = (await owed(host, session)).segments
        assert segment.attempts == 1
        assert "no plugin opens a memory" in str(segment.last_error)
        memory.is_away = False

    assert memory.kept() == [(session, 1, 1)]
    memory.assert_each_closed_once()


async def test_a_stop_reaches_a_turn_whose_memory_is_being_opened(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    memory = Memory()
    memory.gate = anyio.Event()
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        session = await new_session(host)
        accepted = await host.dispatcher.accept(session, prompt())
        await memory.opening.wait()
        await host.stop_session(session)
        assert (await host.run_of(accepted.run.id)).outcome == "cancelled"
        memory.gate.set()

        await complete(host, session)
        assert len(memory.opened) == 1, "what was being opened is used"

    assert memory.kept() == [(session, 1, 1)]
    memory.assert_each_closed_once()


class Moved(Memory):
    """The same plugin with another configuration: what was kept under the former one it cannot open."""

    @hookimpl
    async def open_session_memory(self, session_id: str, owner_key: str | None) -> Database | None:
        if owner_key not in (None, self.owner_key):
            return None
        return await super().open_session_memory(session_id, owner_key)


async def test_H8_turns_are_kept_though_the_owner_of_earlier_ones_is_gone(
    answering: ScriptedProvider, tmp_path: Path
) -> None:
    away = Memory("before")
    async with running_host(tmp_path, settings_for(answering), {"memory": away}) as host:
        session = await new_session(host)
        await complete(host, session)
        away.opened[0].full = True
    memory = Moved("now")
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        await complete(host, session)
        host.memory.left(session)
        await host.memory.quiet()
        assert memory.kept() == [(session, 2, 2)]
        await complete(host, session)

        (left, last) = (await owed(host, session)).segments
        assert (left.owner_key, left.start, left.end) == ("before", 1, 1)
        assert (last.owner_key, last.start, last.end) == ("now", 3, 3)

    assert memory.kept() == [(session, 2, 2), (session, 3, 3)]
    memory.assert_each_closed_once()


async def test_H8_a_session_with_turns_of_an_owner_that_is_gone_is_closed_like_any_other(
    answering: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Memory("before")
    async with running_host(tmp_path, settings_for(answering), {"memory": away}) as host:
        session = await new_session(host)
        await complete(host, session)
        away.opened[0].full = True
    monkeypatch.setattr(remembering, "OPEN_AT_ONCE", 1)
    memory = Moved("now")
    async with running_host(tmp_path, settings_for(answering), {"memory": memory}) as host:
        await complete(host, session)
        await complete(host, await new_session(host))
        await host.memory.quiet()

        assert [database.closed for database in memory.opened] == [1, 0]


async def test_P15_a_digest_marks_what_was_stopped_and_counts_the_turns_that_ended(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    gate = Gate()
    provider.script("first", stream("One."), stream("two ", gate), stream("Three."))
    digests = SessionDigests(tmp_path / "digests")
    async with running_host(tmp_path, settings_for(provider), {"digests": digests}) as host:
        session = (await host.sessions.create(str(tmp_path), title="Named")).id
        await complete(host, session, "a")
        answer, events = await host.bus.snapshot(lambda _: None)
        assert answer is None
        stopped = await host.dispatcher.accept(session, prompt("b"))
        async for event in events:
            if event.type == "message.part.delta":
                break
        await host.stop_session(session)
        assert (await host.run_of(stopped.run.id)).outcome == "cancelled"
        await complete(host, session, "c")
        note = UserPrompt(parts=({"type": "text", "text": "note"},), no_reply=True)
        await host.dispatcher.wait((await host.dispatcher.accept(session, note)).run.id)

        memory = await owed(host, session)
        assert (memory.generation, [(one.start, one.end) for one in memory.segments]) == (2, [(1, 2)])
    gate.open()

    (file,) = (tmp_path / "digests").iterdir()
    assert file.read_text().partition("\n\n")[2] == (
        "## User\n\na\n\n## Assistant\n\nOne.\n\n## User\n\nb\n\n## Assistant\n\ntwo \n\n"
        "*(This answer was stopped here.)*\n\n## User\n\nc\n\n## Assistant\n\nThree.\n\n## User\n\nnote\n"
    )


async def test_P15_a_compaction_is_no_turn(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", stream("One."), stream("A summary."))
    digests = SessionDigests(tmp_path / "digests")
    async with running_host(tmp_path, settings_for(provider), {"digests": digests}) as host:
        session = (await host.sessions.create(str(tmp_path), title="Named")).id
        await complete(host, session, "a")
        run = await host.summarize(session, None)

        assert (await owed(host, run.session_id)).generation == 1
