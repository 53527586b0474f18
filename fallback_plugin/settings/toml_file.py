"""One settings file read into a layer, or into what is wrong with it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tomli

from fallback_plugin.settings.findings import Finding
from fallback_plugin.settings.layer import Layer, LayerName
from fallback_plugin.settings.toml_positions import toml_positions

_HINTS: Final[Mapping[str, str]] = {
    "Invalid value": 'texts, model names and durations need quotes: "openai/gpt-5.1", "60s"',
    "Expected newline or end of document": 'one key a line; texts and durations need quotes: "60s"',
    "Expected '='": "write key = value; a key with a slash or a dot in its name needs quotes",
    "Cannot overwrite": "the key is there already; keep one of the two",
    "Cannot declare": "the table is there already; put its keys together",
    "Cannot mutate": "the table is written in braces above; put the key there",
    "Unterminated": "close it with the sign that opened it",
    "Unclosed": "close it; the elements are separated by commas",
    "Unescaped": "in double quotes write a backslash twice, or use single quotes",
    "Illegal character": "take it out; a text that spans lines stands in three quotes",
}

_BARE_HEADER: Final = re.compile(r"""\s*\[\s*(?P<table>[A-Za-z0-9_-]+)\s*\.\s*(?P<name>[^\]"'\s]+)\s*\]""")
"""The header of a table that is named for a model or a provider, without quotes."""


@dataclass(frozen=True, slots=True)
class FileReading:
    """What became of a file: its layer, or None with the findings that say why. Absent: neither."""

    layer: Layer | None = None
    findings: tuple[Finding, ...] = ()


def read_file(name: LayerName, file: Path) -> FileReading:
    """Read a TOML file if it exists; an unreadable or malformed one gives a finding, never an exception."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return FileReading()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _wrong(file, 1, 1, f"cannot be read ({reason}); make it a file that you may read")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return _wrong(file, line, 1, "is not UTF-8 text; save it as UTF-8")
    return read_text(name, file, text)


def read_text(name: LayerName, file: Path, text: str) -> FileReading:
    """Read what a TOML file holds, or held."""
    try:
        values = tomli.loads(text)
        positions = toml_positions(text)
    except tomli.TOMLDecodeError as error:
        return _wrong(file, error.lineno, error.colno, f"{error.msg}; {_hint(error, text)}")
    except RecursionError:
        return _wrong(file, 1, 1, "lists or tables are nested too deep; flatten them")
    except ValueError:
        # Python refuses to convert thousands of digits before the parser can say where they stand.
        return _wrong(file, 1, 1, "holds a number with too many digits; shorten it")
    return FileReading(Layer(name=name, values=values, file=file, positions=positions))


def _hint(error: tomli.TOMLDecodeError, text: str) -> str:
    line = text.split("\n")[error.lineno - 1]
    if error.msg.startswith("Expected ']'") and (header := _BARE_HEADER.match(line)):
        return f'a name with a slash or a colon in it needs quotes: [{header["table"]}."{header["name"]}"]'
    return next((hint for start, hint in _HINTS.items() if error.msg.startswith(start)), "see toml.io")


def _wrong(file: Path, line: int, column: int, message: str) -> FileReading:
    return FileReading(findings=(Finding(f"{file}:{line}:{column}", message),))
