import anyio
import pytest

from fallback_plugin.agent.turns.giving_up import GivingUp
from fallback_plugin.errors import AgentError

pytestmark = pytest.mark.anyio


async def test_a_request_that_waits_is_left() -> None:
    giving_up = GivingUp()
    with giving_up.waiting("ses_1", "build") as waiting:
        giving_up.give_up("ses_1", "build")
        await anyio.sleep_forever()

    assert waiting.given_up


async def test_an_answer_that_has_begun_is_left_only_where_that_is_meant() -> None:
    giving_up = GivingUp()
    with giving_up.waiting("ses_1", "build") as waiting:
        waiting.flowing = True
        with pytest.raises(AgentError) as refusal:
            giving_up.give_up("ses_1", None)
        giving_up.give_up("ses_1", None, flowing=True)

    assert refusal.value.status == 404
    assert waiting.given_up


@pytest.mark.parametrize(("session_id", "agent"), [("ses_2", None), ("ses_1", "title")])
async def test_what_is_not_under_way_cannot_be_given_up(session_id: str, agent: str | None) -> None:
    giving_up = GivingUp()
    with giving_up.waiting("ses_1", "build"), pytest.raises(AgentError, match="no request is under way"):
        giving_up.give_up(session_id, agent)


async def test_nothing_is_under_way_afterwards() -> None:
    giving_up = GivingUp()
    with giving_up.waiting("ses_1", "build"):
        pass

    with pytest.raises(AgentError):
        giving_up.give_up("ses_1", "build")
