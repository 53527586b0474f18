"""The exception tree: one root, and a code for each branch that programs can match on."""

from collections.abc import Iterator

import pytest

from fallback_plugin import errors
from fallback_plugin.errors import FallbackPluginError, HostCallError, HostCallTimeoutError


def tree(root: type[FallbackPluginError]) -> Iterator[type[FallbackPluginError]]:
    for branch in root.__subclasses__():
        yield branch
        yield from tree(branch)


OURS = [error for error in tree(FallbackPluginError) if error.__module__ == errors.__name__]


def test_codes_are_stable() -> None:
    assert {error.__name__: error.code for error in OURS} == {
        "ModelRefError": "model_ref",
        "SettingsError": "settings",
        "WireError": "wire",
        "ProtocolError": "protocol",
        "HostCallError": "host_call",
        "HostCallTimeoutError": "host_call_timeout",
        "PluginLoadError": "plugin_load",
        "InstallError": "install",
        "AgentError": "agent",
        "SessionBusyError": "session_busy",
        "StoreError": "store",
        "FencedError": "fenced",
        "TraceError": "trace",
    }


def test_no_two_errors_share_a_code() -> None:
    codes = [FallbackPluginError.code, *(error.code for error in OURS)]

    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("error", OURS)
def test_every_error_has_a_code_of_its_own(error: type[FallbackPluginError]) -> None:
    assert "code" in vars(error)


@pytest.mark.parametrize("error", OURS)
def test_every_error_says_what_it_means(error: type[FallbackPluginError]) -> None:
    assert error.__doc__


@pytest.mark.parametrize("error", [errors.ModelRefError, errors.WireError])
def test_an_unreadable_value_is_a_value_error_to_those_who_do_not_know_us(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


@pytest.mark.parametrize("error", [HostCallError, HostCallTimeoutError])
def test_a_failed_call_has_no_status_until_the_host_gives_one(error: type[HostCallError]) -> None:
    assert error("no answer").status is None


def test_a_failed_call_keeps_the_hosts_status_and_its_message() -> None:
    error = HostCallError("refused", status=409)

    assert (error.status, str(error)) == (409, "refused")


def test_a_missed_deadline_is_a_failed_call() -> None:
    with pytest.raises(HostCallError):
        raise HostCallTimeoutError("no answer within 5 s")
