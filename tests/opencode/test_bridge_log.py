import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from fallback_plugin.opencode.bridge_log import default_file, write_log_to


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raising = list(root.handlers), root.level, logging.raiseExceptions
    yield
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.raiseExceptions = raising


def test_messages_of_the_level_and_above_are_written(tmp_path: Path) -> None:
    file = tmp_path / "state" / "bridge.log"
    write_log_to(file, level="info")
    logging.getLogger("fallback_plugin.x").info("kept")
    logging.getLogger("fallback_plugin.x").debug("left out")
    logging.getLogger("httpx2").info("HTTP Request: POST http://example/?key=secret")
    text = file.read_text()
    assert "kept" in text
    assert "left out" not in text
    assert "secret" not in text


def test_the_log_moves_when_the_settings_say_so(tmp_path: Path) -> None:
    write_log_to(tmp_path / "one.log", level="info")
    write_log_to(tmp_path / "two.log", level="debug")
    logging.getLogger("fallback_plugin").debug("news")
    assert (tmp_path / "one.log").read_text() == ""
    assert "news" in (tmp_path / "two.log").read_text()


def test_a_file_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    write_log_to(tmp_path / "file" / "bridge.log", level="info")
    logging.getLogger("fallback_plugin").error("nobody reads this")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/fallback-plugin/fallback-plugin.log"),
        ({"HOME": "/h"}, "/h/.local/state/fallback-plugin/fallback-plugin.log"),
    ],
)
def test_the_file_stands_in_the_state_folder(environ: dict[str, str], expected: str) -> None:
    assert default_file(environ) == Path(expected)
