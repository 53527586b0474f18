"""The code in docs/plugins.md runs."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from fallback_plugin.events import Event
from fallback_plugin.plugins import PluginHost, discovery
from tests.plugins.fake_calls import FakeCalls, idle, publish, running

pytestmark = pytest.mark.anyio

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "plugins.md"


def code(first_words: str) -> str:
    """Return the one Python block that begins with these words, without the indentation of its list."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [
        re.sub(f"^{indent}", "", text, flags=re.MULTILINE) for indent, text in blocks if first_words in text
    ]
    return found


@pytest.mark.parametrize("file", sorted(DOCUMENT.parent.glob("*.md")), ids=lambda file: file.name)
def test_no_document_links_to_what_stands_in_the_source_only(file: Path) -> None:
    assert re.findall(r"\]\((?:\.\./|/)[^)]*\)", file.read_text("utf-8")) == []


def test_the_sample_plugin_stands_where_it_is_said() -> None:
    """Also once installed: ``_hosts`` is ``hooks`` there."""
    package = (DOCUMENT.parents[1] / "pyproject.toml").read_text("utf-8")
    assert 'fallback_plugin._hosts" = "hooks"' in package.replace("'", '"').replace("  ", " ")
    assert "fallback_plugin/_hosts/drop-in/notify_long_turns.py" in DOCUMENT.read_text("utf-8")
    assert (DOCUMENT.parents[1] / "hooks" / "drop-in" / "notify_long_turns.py").exists()


async def test_the_first_plugin_of_the_tutorial_works(tmp_path: Path) -> None:
    (tmp_path / "say_when_idle.py").write_text(code("from fallback_plugin import Toast"))
    calls = FakeCalls()
    host = PluginHost(calls)

    assert host.load(dirs=[tmp_path], builtins=False, entry_points=False) == ()
    async with running(host):
        publish(host, idle("s"))

    assert [toast.message for toast in calls.toasts] == ["Session s is idle."]


async def test_the_adapter_of_the_reference_works(monkeypatch: pytest.MonkeyPatch) -> None:
    async def events() -> AsyncIterator[tuple[dict[str, Any], Event]]:
        yield {}, idle("s")

    monkeypatch.setattr(discovery, "BUILTINS", {})
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    names: dict[str, Any] = {}
    exec(code("async def main"), names)  # noqa: S102 -- our own documentation

    await names["main"](FakeCalls(), events())
