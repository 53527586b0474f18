"""The tools of files: what they do, and that nothing leads them out of the project."""

import os
from pathlib import Path
from typing import Any

import pytest

from fallback_plugin.agent.turns.tools import EditTool, ReadTool, Tool, ToolRefusedError, WriteTool
from fallback_plugin.agent.turns.tools.project import folder_of, place_in, read_bytes, write_bytes
from fallback_plugin.agent.turns.tools.read import MAX_OUTPUT

pytestmark = pytest.mark.anyio

EVERY_TOOL = [
    pytest.param(ReadTool(), {}, id="read"),
    pytest.param(WriteTool(), {"content": "evil"}, id="write"),
    pytest.param(EditTool(), {"old": "secret", "new": "evil"}, id="edit"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def read(project: Path, path: str, **more: Any) -> str:
    return (await ReadTool().run({"path": path, **more}, project)).output


@pytest.mark.parametrize(("tool", "more"), EVERY_TOOL)
@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "sub/../../outside.txt",
        "/etc/passwd",
        "link",
        "folder/outside.txt",
        "~/../x/../../outside.txt",
    ],
)
async def test_nothing_leads_out_of_the_project(
    project: Path, tool: Tool, more: dict[str, str], path: str
) -> None:
    (project / "link").symlink_to(project.parent / "outside.txt")
    (project / "folder").symlink_to(project.parent)
    arguments = {"path": path, **more}

    with pytest.raises(ToolRefusedError, match="outside of the project"):
        tool.permit(arguments, project)
    with pytest.raises(ToolRefusedError, match="outside of the project"):
        await tool.run(arguments, project)

    assert (project.parent / "outside.txt").read_text() == "secret"


@pytest.mark.parametrize(("tool", "more"), EVERY_TOOL)
async def test_a_link_that_leads_nowhere_outside_is_refused(
    project: Path, tool: Tool, more: dict[str, str]
) -> None:
    (project / "link").symlink_to(project.parent / "new.txt")

    with pytest.raises(ToolRefusedError, match="outside of the project"):
        await tool.run({"path": "link", **more}, project)

    assert not (project.parent / "new.txt").exists()


@pytest.mark.parametrize("path", ["loop", "zero\0byte"])
async def test_an_odd_path_is_refused(project: Path, path: str) -> None:
    (project / "loop").symlink_to("loop")

    with pytest.raises((ToolRefusedError, OSError)):
        await read(project, path)


async def test_a_link_put_in_the_way_after_the_check_is_not_followed(project: Path) -> None:
    (project / "sub").mkdir()
    place = place_in(project, "sub/outside.txt")
    (project / "sub").rmdir()
    (project / "sub").symlink_to(project.parent)

    with pytest.raises(OSError, match="sub"), folder_of(project, place):
        pytest.fail("the folder was opened")


async def test_nor_is_one_put_in_the_place_of_the_file_itself(project: Path) -> None:
    (project / "a.txt").write_text("mine")
    place = place_in(project, "a.txt")
    (project / "a.txt").unlink()
    (project / "a.txt").symlink_to(project.parent / "outside.txt")

    with pytest.raises(OSError, match=r"a\.txt"):
        read_bytes(project, place, 100)
    with pytest.raises(ToolRefusedError, match="not a plain file"):
        write_bytes(project, place, b"mine again")

    assert (project.parent / "outside.txt").read_text() == "secret"


async def test_an_absolute_path_into_the_project_is_fine(project: Path) -> None:
    (project / "a.txt").write_text("hello")

    assert await read(project, str(project / "a.txt")) == "1: hello"


async def test_a_link_inside_of_the_project_is_asked_for_by_where_it_leads(project: Path) -> None:
    (project / "a.txt").write_text("hello")
    (project / "link").symlink_to("a.txt")

    assert ReadTool().permit({"path": "link"}, project).pattern == "a.txt"
    assert await read(project, "link") == "1: hello"


async def test_a_long_file_is_read_in_parts(project: Path) -> None:
    (project / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 3001)))

    beginning = await read(project, "a.txt")
    middle = await read(project, "a.txt", offset=10, limit=2)

    assert beginning.startswith("1: line 1\n")
    assert beginning.endswith("(lines 1 to 2000 of 3000; read on with offset 2001)")
    assert middle.splitlines()[:2] == ["10: line 10", "11: line 11"]


async def test_long_lines_are_cut_and_the_whole_is_bounded(project: Path) -> None:
    (project / "a.txt").write_text(("x" * 100_000 + "\n") * 100)

    assert len(await read(project, "a.txt")) < MAX_OUTPUT + 5000


async def test_a_folder_is_listed(project: Path) -> None:
    (project / "b").mkdir()
    (project / "a.txt").write_text("")

    assert await read(project, ".") == "a.txt\nb/"
    assert await read(project, "a.txt") == "(an empty file)"
    assert await read(project, "b") == "(an empty folder)"


async def test_what_is_no_text_is_refused(project: Path) -> None:
    (project / "a.bin").write_bytes(b"\x7fELF\0\0")
    os.mkfifo(project / "pipe")

    for path, said in (("a.bin", "not a text file"), ("pipe", "not a plain file")):
        with pytest.raises(ToolRefusedError, match=said):
            await read(project, path)


async def test_an_offset_behind_the_end_is_refused(project: Path) -> None:
    (project / "a.txt").write_text("one\n")

    with pytest.raises(ToolRefusedError, match="only 1 lines"):
        await read(project, "a.txt", offset=5)


async def test_a_file_is_written_with_its_folders(project: Path) -> None:
    output = await WriteTool().run({"path": "new/deep/a.txt", "content": "hällo"}, project)

    assert (project / "new/deep/a.txt").read_text() == "hällo"
    assert "6 bytes" in output.output


async def test_writing_keeps_the_mode_and_leaves_nothing_behind(project: Path) -> None:
    (project / "run.sh").write_text("old")
    (project / "run.sh").chmod(0o755)

    await WriteTool().run({"path": "run.sh", "content": "new"}, project)

    assert (project / "run.sh").stat().st_mode & 0o777 == 0o755
    assert names_in(project) == ["run.sh"]


async def test_a_folder_cannot_be_written(project: Path) -> None:
    (project / "sub").mkdir()

    for path in ("sub", "."):
        with pytest.raises(ToolRefusedError):
            await WriteTool().run({"path": path, "content": "x"}, project)


async def test_a_passage_is_replaced(project: Path) -> None:
    (project / "a.txt").write_text("one\r\ntwo\r\n")

    output = await EditTool().run({"path": "a.txt", "old": "two", "new": "three"}, project)

    assert (project / "a.txt").read_bytes() == b"one\r\nthree\r\n"
    assert "+three" in output.metadata["diff"]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\r\ntwo\r\nend\r\n", "one\ntwo", "1\n2\n3", b"1\r\n2\r\n3\r\nend\r\n"),
        (b"one\r\ntwo\r\n", "two", "2\n3", b"one\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\n", "one\n", "", b"two\r\n"),
        (b"one\r\n\r\ntwo", "one\n\ntwo", "one\ntwo", b"one\r\ntwo"),
        (b"one\ntwo\r\nthree\n", "one\ntwo\nthree", "1\n2", b"1\r\n2\n"),
        (b"a.c\r\nabc\r\n", "a.c\nabc", "\\1\\g<0>\nx", b"\\1\\g<0>\r\nx\r\n"),
        (b"one\ntwo\n", "one\ntwo", "1\n2", b"1\n2\n"),
        (b"one\ntwo\n", "one\ntwo", "1\r\n2", b"1\r\n2\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "1\n2", b"1\n2\r\n"),
    ],
)
async def test_H12_line_ends_are_those_of_the_file(
    project: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (project / "a.txt").write_bytes(before)

    await EditTool().run({"path": "a.txt", "old": old, "new": new}, project)

    assert (project / "a.txt").read_bytes() == after


async def test_H12_passages_of_a_file_with_either_line_end_are_counted(project: Path) -> None:
    (project / "a.txt").write_bytes(b"x\r\ny\nx\ny\r\n")
    passage = {"path": "a.txt", "old": "x\ny", "new": "z\nz"}

    with pytest.raises(ToolRefusedError, match="stands 2 times"):
        await EditTool().run(passage, project)
    await EditTool().run({**passage, "all": True}, project)

    assert (project / "a.txt").read_bytes() == b"z\r\nz\nz\nz\r\n"


@pytest.mark.parametrize(
    ("old", "said"), [("x", "stands 2 times"), ("nothing", "does not stand"), ("new", "are the same")]
)
async def test_a_passage_has_to_be_clear(project: Path, old: str, said: str) -> None:
    (project / "a.txt").write_text("x and x")

    with pytest.raises(ToolRefusedError, match=said):
        await EditTool().run({"path": "a.txt", "old": old, "new": "new"}, project)

    assert (project / "a.txt").read_text() == "x and x"


async def test_a_passage_may_be_replaced_everywhere(project: Path) -> None:
    (project / "a.txt").write_text("x and x")

    await EditTool().run({"path": "a.txt", "old": "x", "new": "y", "all": True}, project)

    assert (project / "a.txt").read_text() == "y and y"
