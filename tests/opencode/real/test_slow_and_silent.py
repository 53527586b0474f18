"""`opencode run` with a model that is slow and alone, or that reaches its output limit before a word."""

from pathlib import Path
from typing import Final

import pytest

from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_run import run
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Pause, stream, thinking

pytestmark = [pytest.mark.real_host, pytest.mark.timeout(120)]

SETTINGS: Final = f"""
[fallback]
first_token_timeout = "1s"
fallback_models = ["{ref("fallback")}"]
"""


def test_P12_the_only_model_is_waited_for(tmp_path: Path, opencode_binary: Path) -> None:
    with ScriptedProvider({"slow": [stream(Pause(4), "At ", "last.")]}) as provider:
        home = OpenCodeHome(tmp_path, provider, provider_each(["slow"]))
        home.install_plugin(SETTINGS.replace(ref("fallback"), ref("slow")))
        finished = run(opencode_binary, home, ref("slow"))

        assert (finished.status, finished.answer) == (0, "At last.")
        assert len(provider.requests("slow")) == 1


def test_P13_thoughts_up_to_the_limit_are_answered_by_the_next_model(
    tmp_path: Path, opencode_binary: Path
) -> None:
    scripts = {"thinks": [thinking("Hm.", finish="length")], "fallback": [stream("The ", "answer.")]}
    with ScriptedProvider(scripts) as provider:
        home = OpenCodeHome(tmp_path, provider, provider_each(list(scripts)))
        # A busy machine may take a second before it asks its model.
        home.install_plugin(SETTINGS.replace('"1s"', '"30s"'))
        finished = run(opencode_binary, home, ref("thinks"))

        assert (finished.status, finished.answer) == (0, "The answer.")
        assert [request.model for request in provider.requests()] == ["thinks", "fallback"]
