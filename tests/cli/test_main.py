"""The command line as a whole: finding commands, those of plugins, and saying errors."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from fallback_plugin import __version__
from fallback_plugin.cli.main import COMMANDS, command_line

HELLO: Final = """
import click
from fallback_plugin import hookimpl

@hookimpl
def register_commands(commands):
    @commands.command()
    def hello():
        "Say hello."
        click.echo("hello from a plugin")
"""
TAKER: Final = HELLO.replace("def hello", "def config")
BROKEN: Final = "raise RuntimeError('broken on purpose')"
FAILING: Final = """
from fallback_plugin import hookimpl

@hookimpl
def register_commands(commands):
    raise RuntimeError("failing on purpose")
"""
REFUSING: Final = """
from fallback_plugin import hookimpl
from fallback_plugin.errors import InstallError

@hookimpl
def register_commands(commands):
    @commands.command()
    def refuse():
        raise InstallError("there is no room")
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def drop_in(home: Path) -> Callable[[str], None]:
    """Put a plugin where the user's settings name its folder."""

    def put(source: str) -> None:
        folder = home / "config" / "fallback-plugin"
        (folder / "plugins").mkdir(parents=True)
        (folder / "plugins" / "sample.py").write_text(source)
        (folder / "fallback.toml").write_text('[plugins]\ndirs = ["plugins"]\n')

    return put


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command_line, arguments)


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == f"fallback-plugin, version {__version__}\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command_with_what_it_does(option: str) -> None:
    result = run(option)

    listed = {words[0]: words[1:] for line in result.stdout.splitlines() if (words := line.split())}
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(listed[name] for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_of_its_own(name: str) -> None:
    result = run(name, "--help")

    assert result.exit_code == 0
    assert name in result.stdout


def test_an_unknown_command_is_refused() -> None:
    result = run("nonsense")

    assert result.exit_code == 2
    assert "No such command 'nonsense'" in result.stderr


def test_a_plugins_command_runs(drop_in: Callable[[str], None]) -> None:
    drop_in(HELLO)

    assert run("hello").stdout == "hello from a plugin\n"


def test_a_plugins_command_is_listed(drop_in: Callable[[str], None]) -> None:
    drop_in(HELLO)

    assert "Say hello." in run("--help").stdout


def test_a_plugin_cannot_take_a_built_in_name(drop_in: Callable[[str], None]) -> None:
    drop_in(TAKER)

    result = run("--help")

    assert "Say hello." not in result.stdout
    assert result.stdout.count("\n  config ") == 1


@pytest.mark.parametrize("arguments", [("--help",), ("nonsense",)])
@pytest.mark.parametrize(
    ("source", "words"), [(BROKEN, "broken on purpose"), (FAILING, "failing on purpose")]
)
def test_a_plugin_that_fails_is_one_line(
    source: str, words: str, arguments: tuple[str, ...], drop_in: Callable[[str], None]
) -> None:
    drop_in(source)

    result = run(*arguments)

    lines = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(lines) == 1
    assert "sample" in lines[0]
    assert words in lines[0]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("source", [BROKEN, "def nothing(): ...", FAILING])
def test_a_plugin_that_fails_is_said_once(source: str, drop_in: Callable[[str], None]) -> None:
    """By a process of its own: what is logged there goes to standard error as well."""
    drop_in(source)

    ended = subprocess.run(
        [sys.executable, "-m", "fallback_plugin", "--help"], capture_output=True, text=True, check=True
    )

    (line,) = ended.stderr.splitlines()
    assert line.startswith("warning: plugin 'sample' (")


@pytest.mark.parametrize(
    "arguments", [("--version",), ("config", "--help"), ("install", "opencode", "--help")]
)
def test_a_built_in_command_asks_no_plugin(
    arguments: tuple[str, ...], drop_in: Callable[[str], None]
) -> None:
    drop_in(BROKEN)

    result = run(*arguments)

    assert (result.exit_code, result.stderr) == (0, "")


def test_a_blocked_plugin_adds_nothing(
    drop_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_in(HELLO)
    monkeypatch.setenv("FALLBACK_PLUGIN_BLOCK", "sample")

    assert run("hello").exit_code == 2


def test_with_broken_settings_no_plugin_is_loaded(home: Path, drop_in: Callable[[str], None]) -> None:
    drop_in(HELLO)
    (home / "config" / "fallback-plugin" / "fallback.toml").write_text("[plugins\n")

    result = run("--help")

    assert result.exit_code == 0
    assert result.stderr.startswith("warning: ")
    assert "fallback.toml:1:" in result.stderr
    assert "hello" not in result.stdout


def test_an_error_of_ours_is_one_line_and_exit_status_1(drop_in: Callable[[str], None]) -> None:
    drop_in(REFUSING)

    result = run("refuse")

    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "error: there is no room\n")


def test_another_error_is_not_hidden(drop_in: Callable[[str], None]) -> None:
    drop_in(REFUSING.replace("InstallError(", "ZeroDivisionError("))

    assert isinstance(run("refuse").exception, ZeroDivisionError)


@pytest.mark.parametrize(
    "arguments", [["--version"], ["install", "opencode", "--dry-run"], ["config", "--help"]]
)
def test_a_command_imports_only_what_it_needs(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from fallback_plugin.cli.main import command_line\n"
        "command_line(sys.argv[1:], standalone_mode=False)\n"
        "print(*sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded & {"pydantic", "httpx2", "asyncio", "anyio"} == set()
