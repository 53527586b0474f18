"""Commands: what they give, and that nothing of them is left, whatever they ignore."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from fallback_plugin.agent.turns.tools import BashTool, ToolOutput, ToolRefusedError
from fallback_plugin.agent.turns.tools.output import CappedOutput
from tests.agent.turns.looking import lives, pid_in, until

pytestmark = pytest.mark.anyio


async def run(project: Path, command: str, tool: BashTool | None = None, **more: Any) -> ToolOutput:
    tool = tool or BashTool(term_grace_s=0.2)
    return await tool.run({"command": command, **more}, project)


async def test_a_command_runs_in_the_project(tmp_path: Path) -> None:
    output = await run(tmp_path, "pwd; echo oops >&2", description="where am I")

    assert output.output == f"{tmp_path}\noops\n"
    assert output.title == "where am I"
    assert output.metadata == {"output": f"{tmp_path}\noops\n", "exit": 0, "truncated": False}


async def test_a_status_is_told(tmp_path: Path) -> None:
    output = await run(tmp_path, "exit 3")

    assert output.output == "(no output)\n(ended with status 3)"
    assert output.metadata["exit"] == 3


async def test_nothing_can_be_asked_of_the_person(tmp_path: Path) -> None:
    assert (await run(tmp_path, "cat; echo over")).output == "over\n"


async def test_long_output_loses_its_middle(tmp_path: Path) -> None:
    output = await run(tmp_path, "echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")

    assert output.output.startswith("begin\n")
    assert output.output.endswith("end\n")
    assert "bytes left out" in output.output
    assert len(output.output) < 40_000
    assert output.metadata["truncated"] is True


async def test_the_keys_of_the_providers_are_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "s3cret")
    monkeypatch.setenv("ANOTHER", "value")

    output = await run(
        tmp_path, 'echo "<$THE_KEY> $ANOTHER"', BashTool(hidden=lambda: frozenset({"THE_KEY"}))
    )

    assert output.output == "<> value\n"


async def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    output = await run(tmp_path, "echo $$ > pid; echo begun; sleep 60", timeout=1)

    assert "begun" in output.output
    assert "(stopped after 1 s)" in output.output
    assert not lives(await pid_in(tmp_path / "pid"))


async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    output = await run(tmp_path, "sleep 60 & echo $! > pid; echo started")

    assert output.output == "started\n"
    pid = await pid_in(tmp_path / "pid")
    await until(lambda: not lives(pid))


async def test_report_E1_a_stop_ends_a_command_and_its_children(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, tmp_path, "sleep 60 & echo $! > child; echo $$ > pid; wait")
        shell, child = await pid_in(tmp_path / "pid"), await pid_in(tmp_path / "child")
        tasks.cancel_scope.cancel()

    assert not lives(shell)
    await until(lambda: not lives(child))


async def test_report_S12_a_command_that_ignores_the_word_is_killed(tmp_path: Path) -> None:
    stubborn = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.05; done"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, tmp_path, stubborn)
        pid = await pid_in(tmp_path / "pid")
        tasks.cancel_scope.cancel()

    assert not lives(pid)


async def test_a_command_may_end_by_itself_when_told_to(tmp_path: Path) -> None:
    tidy = "trap 'echo tidied > tidy; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, tmp_path, tidy, BashTool(term_grace_s=5))
        await pid_in(tmp_path / "pid")
        tasks.cancel_scope.cancel()

    assert (tmp_path / "tidy").read_text() == "tidied\n"


async def test_a_zero_byte_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolRefusedError):
        BashTool().permit({"command": "echo \0"}, tmp_path)


async def test_a_folder_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        await run(tmp_path / "gone", "true")


def test_output_in_small_pieces_is_kept_within_its_limit() -> None:
    output = CappedOutput(limit=10)
    for byte in b"abcdefghijklmnopqrstuvwxyz":
        output.take(bytes([byte]))

    assert output.text() == "abcde\n… 16 bytes left out …\nvwxyz"


def test_output_that_fits_is_whole() -> None:
    output = CappedOutput(limit=10)
    output.take(b"abcdefg")
    output.take(b"hij")

    assert (output.text(), output.truncated) == ("abcdefghij", False)
