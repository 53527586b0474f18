"""Every error's code is in docs/errors.md, and nothing else is."""

import inspect
from pathlib import Path

from fallback_plugin import errors
from fallback_plugin.errors import FallbackPluginError


def test_every_code_is_documented_with_its_class() -> None:
    text = (Path(__file__).parents[1] / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]

    documented = {code.strip(" `"): name.strip(" `") for _, code, name, *_ in rows}

    assert documented == {
        error.code: name
        for name, error in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error, FallbackPluginError)
    }
