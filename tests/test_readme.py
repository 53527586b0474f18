"""The README is true: its settings load, its plugin loads, its links lead somewhere."""

import re
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.model_ref import ModelRef
from fallback_plugin.plugins import PluginHost
from fallback_plugin.settings import load_settings
from tests.plugins.fake_calls import FakeCalls

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, holding: str) -> str:
    """Return the code block in a language that holds some text."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (found,) = (text for text in blocks if holding in text)
    return found


def test_its_settings_load_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "fallback.toml").write_text(block("toml", "fallback_models"))

    loaded = load_settings(directory=tmp_path, environ={"HOME": str(tmp_path / "home")})

    assert loaded.warnings == ()
    assert loaded.settings.agents["plan"].candidates == (ModelRef("google", "gemini-3-pro"),)


def test_its_plugin_loads(tmp_path: Path) -> None:
    (tmp_path / "said_when_failed.py").write_text(block("python", "hookimpl"))

    host = PluginHost(FakeCalls())

    errors = host.load(dirs=[tmp_path], builtins=False, entry_points=False)

    assert errors == ()
    assert host.subscriptions.events == {"session.error"}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(((?!https?:)[^)]+)\)", README))))
def test_its_links_lead_somewhere(target: str) -> None:
    file, _, section = target.partition("#")
    headings = (
        re.findall(r"^#+ (.*)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE) if section else []
    )

    assert (ROOT / file).exists()
    assert not section or section in {
        re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings
    }
