import pytest

from fallback_plugin.agent.turns.permission import settled
from fallback_plugin.settings import PermissionSettings

RULES = PermissionSettings.model_validate(
    {
        "read": {"*.env": "ask", "*": "allow"},
        "edit": {".git/*": "deny", "docs/*": "allow"},
        "bash": {"git push*": "deny", "git *": "allow", "make": "allow"},
    }
)


@pytest.mark.parametrize(
    ("tool", "pattern", "verdict"),
    [
        ("read", "src/a.py", "allow"),
        ("read", "deep/.env", "ask"),
        ("write", "a.py", "ask"),
        ("edit", ".git/hooks/pre-commit", "deny"),
        ("edit", "docs/deep/a.md", "allow"),
        ("edit", "src/a.py", "ask"),
        ("bash", "git status", "allow"),
        ("bash", "git push origin", "deny"),
        ("bash", "git push origin; true", "deny"),
        ("bash", "rm -rf .", "ask"),
        ("unknown", "a", "ask"),
    ],
)
def test_the_first_pattern_that_fits_decides(tool: str, pattern: str, verdict: str) -> None:
    assert settled(RULES, tool, pattern) == verdict


@pytest.mark.parametrize(
    "more", ["; rm x", " && rm x", " | sh", " > x", " $(rm x)", " `rm x`", "\nrm x", " & rm x"]
)
def test_an_allowed_command_allows_no_other_behind_it(more: str) -> None:
    assert settled(RULES, "bash", f"git status{more}") == "ask"


def test_everything_is_everything() -> None:
    everything = PermissionSettings.model_validate({"bash": {"*": "allow"}})
    assert settled(everything, "bash", "true; rm x") == "allow"


def test_reading_is_allowed_and_the_rest_asked_for_by_default() -> None:
    by_default = PermissionSettings()
    verdicts = [settled(by_default, tool, "a") for tool in ("read", "write", "edit", "bash")]
    assert verdicts == ["allow", "ask", "ask", "ask"]
