import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fallback_plugin.cli.config import config
from fallback_plugin.settings.schema import schema_text

UNCHECKED = (
    "not checked: whether the models exist; chains in opencode.json, which OpenCode hands over when it runs"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def run(project: Path, *arguments: str) -> Result:
    return CliRunner().invoke(config, [*arguments, "--directory", str(project)])


def test_check_prints_files_and_chains(project: Path) -> None:
    (project / "fallback.toml").write_text(
        '[fallback]\nfallback_models = ["p/a", "p/b:high"]\n'
        '[agents.build]\nmodel = "p/x"\nfallback_models = "p/y"\n'
    )
    result = run(project, "check")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"read {project}/fallback.toml",
        "default: p/a → p/b:high",
        "agent build: p/x → p/y",
        UNCHECKED,
    ]


def test_check_without_a_file_names_the_places(project: Path) -> None:
    result = run(project, "check")
    assert result.exit_code == 0
    assert f"  {project}/.opencode/fallback.toml" in result.stdout.splitlines()
    assert "default: no fallback; set fallback_models under [fallback]" in result.stdout.splitlines()


def test_check_says_what_is_wrong_and_where(project: Path) -> None:
    (project / "fallback.toml").write_text('[fallback]\ncoldown = "5s"\nnotify = 1\n')
    result = run(project, "check")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{project}/fallback.toml:2:1: unknown key fallback.coldown; did you mean 'cooldown'?",
        f"{project}/fallback.toml:3:1: fallback.notify: 1 should be true or false",
    ]


def test_check_warns_beside_the_result(project: Path) -> None:
    (project / "fallback.toml").write_text('[plugins]\ndirs = ["x"]\n')
    result = run(project, "check")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: {project}/fallback.toml:2:1: plugins.dirs is ignored")


def test_check_as_json(project: Path) -> None:
    (project / "fallback.toml").write_text('[fallback]\nfallback_models = "p/a"\n')
    assert json.loads(run(project, "check", "--json").stdout) == {
        "ok": True,
        "files": [f"{project}/fallback.toml"],
        "warnings": [],
        "chains": {"default": ["p/a"]},
    }


def test_errors_as_json(project: Path) -> None:
    (project / "fallback.toml").write_text("[fallback\n")
    result = run(project, "check", "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["ok"] is False
    assert answer["errors"][0].startswith(f"{project}/fallback.toml:1:10: ")


def test_explain_names_value_and_origin(project: Path) -> None:
    (project / "fallback.toml").write_text("[fallback]\nnotify = false\n")
    lines = run(project, "explain").stdout.splitlines()
    assert f"fallback.notify = false  # project file {project}/fallback.toml:2" in lines
    assert "log.file = (not set)  # default" in lines


def test_explain_takes_a_key_or_a_table(project: Path) -> None:
    assert run(project, "explain", "log").stdout.splitlines() == [
        'log.level = "info"  # default',
        "log.file = (not set)  # default",
    ]


def test_explain_as_json(project: Path) -> None:
    (project / "fallback.toml").write_text('[fallback]\ncooldown = "5m"\n')
    assert json.loads(run(project, "explain", "fallback.cooldown", "--json").stdout) == {
        "fallback.cooldown": {
            "value": 300.0,
            "layer": "project file",
            "file": f"{project}/fallback.toml",
            "line": 2,
        }
    }


def test_explain_answers_an_unknown_key_with_a_near_one(project: Path) -> None:
    result = run(project, "explain", "fallback.coldown")
    assert result.exit_code == 2
    assert "did you mean fallback.cooldown?" in result.stderr


def test_schema_prints_the_schema() -> None:
    assert CliRunner().invoke(config, ["schema"]).stdout == schema_text()
