"""A failure is said once."""

import logging

import pytest

from fallback_plugin.plugins import failures
from fallback_plugin.plugins.failures import FailureLog
from fallback_plugin.plugins.registry import LoadedPlugin

PLUGIN = LoadedPlugin("mine", "my-dist 1.2")


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.levelname for record in caplog.records]


def test_the_first_failure_names_plugin_distribution_and_hook_with_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    FailureLog().record(PLUGIN, "session_idle", ValueError("no"))

    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert all(word in record.message for word in ("'mine'", "my-dist 1.2", "session_idle"))
    assert record.exc_info is not None


def test_the_same_failure_is_only_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log = FailureLog()

    for _ in range(3):
        log.record(PLUGIN, "session_idle", ValueError("no"))

    assert levels(caplog) == ["ERROR", "DEBUG", "DEBUG"]
    assert caplog.records[-1].message.endswith("ValueError, 3 times")


@pytest.mark.parametrize(
    ("plugin", "hook", "error"),
    [
        (LoadedPlugin("other", "my-dist 1.2"), "session_idle", ValueError("no")),
        (PLUGIN, "session_error", ValueError("no")),
        (PLUGIN, "session_idle", TypeError("no")),
        (PLUGIN, "session_idle", ValueError("never")),
    ],
    ids=["plugin", "hook", "type", "message"],
)
def test_another_failure_is_said_as_well(
    plugin: LoadedPlugin, hook: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    log = FailureLog()

    log.record(PLUGIN, "session_idle", ValueError("no"))
    log.record(plugin, hook, error)

    assert levels(caplog) == ["ERROR", "ERROR"]


def test_failures_that_never_repeat_do_not_fill_log_and_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(failures, "MAX_DISTINCT", 2)
    log = FailureLog()

    for number in range(4):
        log.record(PLUGIN, "event", ValueError(str(number)))

    assert levels(caplog) == ["ERROR", "ERROR", "DEBUG", "DEBUG"]
