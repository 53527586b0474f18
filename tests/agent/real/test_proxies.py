"""Our own host behind proxies that it cannot use: what is near works, what is far is said, nothing dies."""

from pathlib import Path

import pytest

from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream

pytestmark = pytest.mark.real_host

SETTINGS = """
[providers.far]
base_url = "https://provider.example/v1"
models = ["model"]
"""


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks4://127.0.0.1:9"])
def test_P16_a_model_of_this_machine_answers_behind_any_proxy(tmp_path: Path, proxy: str) -> None:
    with ScriptedProvider({"near": [stream("The answer.")]}) as provider:
        home = AgentHome(tmp_path, provider, {"local": ["near"]}, SETTINGS)
        home.environment.update(dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy))
        with AgentServer(home) as server:
            far = server.create_session()
            server.prompt(far, "Who answers?", "far/model")
            failed = server.events.wait_for(
                lambda event: event["type"] == "run.ended" and event["properties"]["sessionID"] == far
            )
            near = server.create_session()
            server.prompt(near, "Who answers?", "local/near")
            server.wait_for_answer(near, "The answer.")

    assert "Connection error: " in failed["properties"]["error"]["data"]["message"]
    assert "Traceback" not in home.logs()
    warnings = [line for line in home.logs().splitlines() if line.startswith("warning: ")]
    assert len(warnings) == proxy.startswith("socks4")
    assert all("the models of far cannot be reached: " in line for line in warnings)
    assert all("_PROXY begins with socks4://" in line for line in warnings)
