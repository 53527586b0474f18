"""`opencode run` with a settings file that is broken: it is said, and what is known of it still counts."""

from pathlib import Path
from typing import Final

import pytest

from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_run import run
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream

pytestmark = [pytest.mark.real_host, pytest.mark.timeout(120)]

BROKEN: Final = f'[fallback]\nfallback_models == ["{ref("fallback")}"]\n'


def test_P11_a_broken_file_is_said_on_one_line_and_in_the_log_and_the_last_good_one_counts(
    tmp_path: Path, opencode_binary: Path
) -> None:
    scripts = {
        "limited": [status(429)],
        "fallback": [stream("Answer of the fallback.")],
        "well": [stream("Well.")],
    }
    with ScriptedProvider(scripts) as provider:
        home = OpenCodeHome(tmp_path, provider, provider_each(scripts))

        # Given a file that is broken from the start
        home.install_plugin(BROKEN)
        first = run(opencode_binary, home, ref("well"))
        (line,) = [line for line in first.stderr.splitlines() if "fallback.toml:2:" in line]
        assert line.startswith("Fallback settings are wrong: ")
        assert line.endswith("Until that is mended, defaults are used.")
        assert "fallback.toml:2:" in home.plugin_log_file.read_text()
        assert (first.status, first.stdout) == (0, "Well.\n")

        # When it was good in a run before
        home.write_settings(BROKEN.replace("==", "="))
        run(opencode_binary, home, ref("well"))
        home.write_settings(BROKEN)
        last = run(opencode_binary, home, ref("limited"))

        # Then the run goes by what it held then
        assert (last.status, last.stdout) == (0, "Answer of the fallback.\n"), last
        assert "Until that is mended, the last good settings stay." in last.stderr
        assert f"Now on {ref('fallback')}." in last.stderr
