"""What our own host refuses when a plugin hands a prompt in: what a client is refused over HTTP."""

from functools import partial
from pathlib import Path

import pytest

from fallback_plugin.agent.host_calls import AgentCalls
from fallback_plugin.errors import HostCallError
from fallback_plugin.wire.prompt import Prompt
from tests.agent.whole_host import MODEL, new_session, running_host, settings_for
from tests.loopback.provider import ScriptedProvider

pytestmark = pytest.mark.anyio

WORDS = {"type": "text", "text": "hello"}
REFUSED = {
    "Agent not found": Prompt(model=MODEL, parts=(WORDS,), agent="nobody"),
    "not supported, only text": Prompt(model=MODEL, parts=(WORDS,), format={"type": "json_schema"}),
    "empty": Prompt(model=MODEL, parts=({"type": "text", "text": " \n"},)),
}


@pytest.mark.parametrize("waits", [False, True], ids=["prompt", "run_turn"])
@pytest.mark.parametrize("words", REFUSED)
async def test_what_the_host_does_not_do_is_refused_and_leaves_nothing(
    provider: ScriptedProvider, tmp_path: Path, words: str, *, waits: bool
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host:
        calls, session = AgentCalls(host), await new_session(host)
        hand_in = partial(calls.run_turn, deadline_s=5) if waits else calls.prompt

        with pytest.raises(HostCallError, match=words) as refusal:
            await hand_in(session, REFUSED[words])

        assert refusal.value.status == 400
        assert not await host.history(session)


async def test_a_message_that_is_not_there_counts_as_deleted(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with running_host(tmp_path, settings_for(provider)) as host:
        calls, session = AgentCalls(host), await new_session(host)

        await calls.delete_message(session, "msg_none")

        with pytest.raises(HostCallError) as refusal:
            await calls.delete_message("ses_none", "msg_none")
        assert refusal.value.status == 404
