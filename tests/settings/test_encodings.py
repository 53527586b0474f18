"""A settings file is read as editors write it, and what is no UTF-8 is named."""

from fallback_plugin.settings.load import LoadedSettings
from tests.settings.conftest import Machine

TEXT = '[fallback]\nmax_attempts = 3\nfallback_models = ["a/b"]\n'


def load_bytes(machine: Machine, content: bytes) -> LoadedSettings:
    machine.write_user("")
    machine.user_file.write_bytes(content)
    return machine.load()


def test_report_B28_a_mark_at_the_beginning_and_other_line_ends_are_read(machine: Machine) -> None:
    for content in (b"\xef\xbb\xbf" + TEXT.encode(), TEXT.replace("\n", "\r\n").encode()):
        assert load_bytes(machine, content).settings.fallback.max_attempts == 3


def test_report_B28_another_encoding_is_named_with_what_to_do(machine: Machine) -> None:
    machine.write_user("")
    machine.user_file.write_bytes(TEXT.encode("utf-16"))

    (complaint,) = machine.complaints()

    assert complaint == "user/fallback.toml:1:1: is not UTF-8 text; save it as UTF-8"
