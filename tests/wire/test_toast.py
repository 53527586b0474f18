"""The body of ``/tui/show-toast``, held against what OpenCode 1.18.33 takes."""

from typing import get_args

import pytest

from fallback_plugin.wire.toast import Toast, ToastVariant, write_toast


def test_a_toast_is_written_the_hosts_way() -> None:
    toast = Toast(title="Model fallback", message="Now on b.", variant="success", duration_s=3)

    assert write_toast(toast) == {
        "title": "Model fallback",
        "message": "Now on b.",
        "variant": "success",
        "duration": 3000,
    }


def test_a_toast_is_plain_information_unless_it_says_otherwise() -> None:
    assert write_toast(Toast(title="t", message="m"))["variant"] == "info"


def test_variants_are_the_hosts() -> None:
    assert get_args(ToastVariant) == ("info", "success", "warning", "error")


@pytest.mark.parametrize(("seconds", "milliseconds"), [(5.0, 5000), (0.25, 250), (0.0015, 2), (8, 8000)])
def test_the_duration_is_a_whole_number_of_milliseconds(seconds: float, milliseconds: int) -> None:
    duration = write_toast(Toast(title="t", message="m", duration_s=seconds))["duration"]

    assert (type(duration), duration) == (int, milliseconds)
