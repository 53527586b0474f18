"""A server without any plugin, looked after from outside."""

import pytest

from tests.attach.real.conftest import Attach, StartServer
from tests.loopback.opencode_home import ref
from tests.loopback.provider import ScriptedProvider
from tests.loopback.turn import PROMPT, Turn

pytestmark = pytest.mark.real_host


@pytest.mark.parametrize("primary", ["limited", "bad-key"])
def test_a_failing_model_is_left_for_the_next(
    start_server: StartServer, attach: Attach, provider: ScriptedProvider, primary: str
) -> None:
    server = start_server()
    attach(server)

    turn = Turn.begin(server, provider, ref(primary)).wait_for_switch("Answer of a.")

    assert turn.asked() == [primary, "fallback-a"]
    assert turn.user_texts() == [[PROMPT]]
    assert turn.said() == ["warning", "success"]
