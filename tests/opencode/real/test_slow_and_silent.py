"""Models that are slow and alone, or at their output limit before a word; a host that is slow to ask one."""

from pathlib import Path
from typing import Final

import pytest

from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_run import run
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Pause, hang_before_headers, stream, thinking

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


SLOW_PLUGIN: Final = """
export default {
  id: "slow",
  server: async () => ({
    "chat.params": async ({ agent }) => {
      if (agent.name !== "title") await new Promise((resolve) => setTimeout(resolve, 3000))
    },
  }),
}
"""
"""A plugin of the user's that has OpenCode wait before each request, as a busy machine does."""

REPLIES: Final = {
    "hang": [hang_before_headers()],
    "well": [stream("All ", "well.")],
    "fallback": [stream("The ", "answer.")],
}


def slow_home(tmp_path: Path, provider: ScriptedProvider) -> OpenCodeHome:
    home = OpenCodeHome(tmp_path, provider, provider_each(list(REPLIES)))
    home.install_plugin(SETTINGS)
    (home.plugin_file.parent / "slow.js").write_text(SLOW_PLUGIN)
    return home


@pytest.mark.parametrize(
    ("model", "answer", "asked"),
    [("well", "All well.", ["well"]), ("hang", "The answer.", ["hang", "fallback"])],
)
def test_a_model_has_its_time_from_its_request_on(
    tmp_path: Path, opencode_binary: Path, model: str, answer: str, asked: list[str]
) -> None:
    with ScriptedProvider(REPLIES) as provider:
        finished = run(opencode_binary, slow_home(tmp_path, provider), ref(model))

        assert (finished.status, finished.answer) == (0, answer)
        assert [request.model for request in provider.requests()] == asked


def test_a_server_says_nothing_of_a_model_it_has_not_asked(tmp_path: Path, opencode_binary: Path) -> None:
    with ScriptedProvider(REPLIES) as provider:
        home = slow_home(tmp_path, provider)
        with OpenCodeServer(opencode_binary, home) as server:
            for model, answer in (("well", "All well."), ("hang", "The answer.")):
                server.prompt(session := server.create_session(), "Please answer", ref(model))
                server.wait_for_answer(session, answer)

        assert [request.model for request in provider.requests()] == ["well", "hang", "fallback"]
