"""Digests of sessions as Markdown files."""

import os
from pathlib import Path
from typing import Any

import pytest

from fallback_plugin.agent.memory.digest import SessionDigests, digest, file_name
from fallback_plugin.agent.memory.plugin_provider import MemoryPlugins
from fallback_plugin.errors import AgentError
from fallback_plugin.events import AssistantMessage, HostError, Part, StoredMessage, UserMessage
from fallback_plugin.hookspecs import MemorySegment, hookimpl
from fallback_plugin.model_ref import ModelRef
from tests.plugins.fake_calls import host_of, running

pytestmark = pytest.mark.anyio

MODEL = ModelRef("p", "m")


def segment(key: str = "s:1-1", session_id: str = "s") -> MemorySegment:
    return MemorySegment(session_id=session_id, key=key, start=1, end=1)


def part(text: str, **more: Any) -> Part:
    return Part(id="p", message_id="m", session_id="s", type="text", text=text, **more)


def user(*parts: Part) -> StoredMessage:
    return StoredMessage(info=UserMessage(id="m", session_id="s", model=MODEL, created_at=0), parts=parts)


def assistant(*parts: Part, completed: bool = True, error: HostError | None = None) -> StoredMessage:
    info = AssistantMessage(
        id="n",
        session_id="s",
        parent_id="m",
        model=MODEL,
        created_at=0,
        completed=completed,
        error=error,
    )
    return StoredMessage(info=info, parts=parts)


class History:
    """A host that has one session's messages."""

    def __init__(self, *messages: StoredMessage) -> None:
        self.stored = list(messages)
        self.asked = 0

    async def messages(self, _session_id: str) -> list[StoredMessage]:
        self.asked += 1
        return self.stored


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


async def commit(folder: Path, history: History, this: MemorySegment) -> None:
    host: Any = history
    await SessionDigests(folder).commit_session_memory(this.session_id, this, host)


def test_a_digest_has_the_words_and_who_said_them() -> None:
    tool = Part(id="t", message_id="n", session_id="s", type="tool", tool="bash")
    history = [
        user(part("why?"), part("(a note of ours)", synthetic=True)),
        assistant(part("Let me see."), tool),
        assistant(part("Because.")),
        assistant(tool),
    ]

    assert digest("s", segment(), history) == (
        "<!-- committed: s:1-1 -->\n# Session s\n\n"
        "## User\n\nwhy?\n\n## Assistant\n\nLet me see.\n\nBecause.\n"
    )


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("MessageAbortedError", "*(This answer was stopped here.)*"),
        ("APIError", "*(This answer failed here.)*"),
        (None, "*(This answer was not finished yet.)*"),
    ],
)
@pytest.mark.parametrize("words", [["Half of it"], []])
def test_P15_an_answer_that_broke_off_is_marked(name: str | None, mark: str, words: list[str]) -> None:
    error = HostError(name=name, message="no") if name else None
    broken = assistant(*map(part, words), completed=error is not None, error=error)
    history = [user(part("one")), broken, user(part("two")), assistant(part("All of it."))]

    text = digest("s", segment(), history).partition("# Session s\n\n")[2]

    half = "\n\n".join([*words, mark])
    assert text == (
        f"## User\n\none\n\n## Assistant\n\n{half}\n\n## User\n\ntwo\n\n## Assistant\n\nAll of it.\n"
    )


async def test_a_session_is_one_file_that_grows(tmp_path: Path) -> None:
    history = History(user(part("one")))
    await commit(tmp_path / "new", history, segment())
    history.stored.append(assistant(part("two")))
    await commit(tmp_path / "new", history, segment("s:2-2"))

    file = only_file(tmp_path / "new")
    assert file.name == "s.md"
    assert "one" in file.read_text()
    assert "two" in file.read_text()


async def test_a_segment_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    history = History(user(part("one")))
    await commit(tmp_path, history, segment("a --> b\n--"))
    before = (tmp_path / "s.md").stat().st_mtime_ns
    await commit(tmp_path, history, segment("a --> b\n--"))

    assert history.asked == 1
    assert (tmp_path / "s.md").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "session_id", ["../../etc/passwd", "/etc/passwd", "", ".", "a/b", "x" * 300, "ü", "-a"]
)
async def test_a_file_stays_in_its_folder_whatever_the_session_is_called(
    session_id: str, tmp_path: Path
) -> None:
    await commit(tmp_path, History(user(part("one"))), segment(session_id=session_id))

    file = only_file(tmp_path)
    assert file.name == file_name(session_id)
    assert len(file.name) < 120


def test_two_sessions_never_share_a_file() -> None:
    assert len({file_name(name) for name in ("a/b", "a_b", "a.b", "a b", "A_B")}) == 5


async def test_what_cannot_be_written_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit(tmp_path, History(user(part("old"))), segment())

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        await commit(tmp_path, History(user(part("new"))), segment("s:2-2"))

    file = only_file(tmp_path)
    assert "old" in file.read_text()


async def test_a_damaged_file_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "s.md").write_bytes(b"\xff\xfe")

    await commit(tmp_path, History(user(part("one"))), segment())

    assert "one" in (tmp_path / "s.md").read_text()


class TestPluginsAsProviders:
    async def test_plugins_are_told_of_a_segment(self) -> None:
        got: list[MemorySegment] = []

        class Keeps:
            @hookimpl
            async def commit_session_memory(self, segment: MemorySegment) -> None:
                got.append(segment)

        host = host_of(Keeps())
        async with running(host):
            await MemoryPlugins(host).tell(segment())

        assert got == [segment()]

    async def test_one_that_fails_is_named(self) -> None:
        class Fails:
            @hookimpl
            async def commit_session_memory(self) -> None:
                raise OSError("disk")

        host = host_of(Fails())
        async with running(host):
            with pytest.raises(AgentError, match="s:1-1: not kept by plugin"):
                await MemoryPlugins(host).tell(segment())
