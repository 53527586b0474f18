"""A run that ends by itself is left to end, so that a stop of the user's can be told from its end."""

from collections.abc import Iterable, Mapping
from typing import Final

import pytest

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import SessionStatus, StoredMessage
from fallback_plugin.host_client import OUTDATED, Receipt
from fallback_plugin.opencode.run_ends import LOOKS_PER_STATUS, NEWEST, NO_MESSAGE, RunEnds
from fallback_plugin.wire.message import read_history

pytestmark = pytest.mark.anyio

REFUSED: Final = 409
LEFT_TO_END: Final = Receipt(aborted=False)
STOPPED: Final = Receipt(ended=False, aborted=False)


class ScriptedCalls:
    """A session that is busy at these looks and idle afterwards, and refuses changes with these statuses."""

    def __init__(
        self,
        *refusals: int,
        busy: Iterable[bool] = (),
        complete: bool | None = True,
    ) -> None:
        self._refusals = list(refusals)
        self._busy = list(busy)
        self._complete = complete
        self.looks = 0

    async def status(self) -> Mapping[str, SessionStatus]:
        self.looks += 1
        is_busy = self._busy.pop(0) if self._busy else False
        status = SessionStatus(type="session.status", session_id="ses_1", status="busy")
        return {"ses_1": status} if is_busy else {}

    async def revert(self, session_id: str, message_id: str) -> None:
        assert (session_id, message_id) == ("ses_1", NO_MESSAGE)
        if self._refusals:
            raise HostCallError("refused", status=self._refusals.pop(0))

    async def newest_messages(self, session_id: str, count: int) -> list[StoredMessage]:
        assert (session_id, count) == ("ses_1", NEWEST)
        if self._complete is None:
            return []
        info = {
            "id": "msg_2",
            "sessionID": "ses_1",
            "role": "assistant",
            "parentID": "msg_1",
            "providerID": "fake",
            "modelID": "primary",
            "time": {"created": 1} | ({"completed": 2} if self._complete else {}),
        }
        return read_history([{"info": info, "parts": []}])


async def test_its_end_is_waited_for() -> None:
    calls = ScriptedCalls(REFUSED, REFUSED)

    assert await RunEnds().own_end(calls, "ses_1") == LEFT_TO_END
    assert calls.looks == 1


async def test_one_without_an_answer_has_ended_when_changes_are_taken() -> None:
    assert await RunEnds().own_end(ScriptedCalls(REFUSED, complete=None), "ses_1") == LEFT_TO_END


async def test_a_stop_lets_changes_be_taken_while_the_answer_is_incomplete() -> None:
    ends = RunEnds()
    assert await ends.own_end(ScriptedCalls(REFUSED, complete=False), "ses_1") == STOPPED
    assert await ends.own_end(ScriptedCalls(complete=False), "ses_1") == STOPPED


async def test_that_says_nothing_of_a_server_that_was_never_seen_to_refuse_changes() -> None:
    assert await RunEnds().own_end(ScriptedCalls(complete=False), "ses_1") is None


async def test_the_run_of_a_later_message_is_not_waited_for() -> None:
    calls = ScriptedCalls(*[REFUSED] * 2 * LOOKS_PER_STATUS, busy=(False, True))

    with pytest.raises(HostCallError) as refused:
        await RunEnds().own_end(calls, "ses_1")
    assert (refused.value.status, calls.looks) == (OUTDATED, 2)


async def test_P2_one_that_began_after_the_last_look_is_no_stop_of_the_users() -> None:
    calls = ScriptedCalls(REFUSED, busy=(False, True), complete=False)

    with pytest.raises(HostCallError) as refused:
        await RunEnds().own_end(calls, "ses_1")
    assert refused.value.status == OUTDATED


async def test_a_session_at_work_has_no_end_to_wait_for() -> None:
    assert await RunEnds().own_end(ScriptedCalls(busy=(True,)), "ses_1") is None


async def test_another_refusal_is_an_error() -> None:
    with pytest.raises(HostCallError):
        await RunEnds().own_end(ScriptedCalls(500), "ses_1")
