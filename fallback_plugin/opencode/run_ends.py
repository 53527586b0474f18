"""A failed run that ends by itself, watched from outside until it has ended or the user stops it.

OpenCode 1.18.33 reports a session as idle at the failure, and refuses changes to it until its run has ended.
An abort lifts that at once, and nothing else does so before the answer is complete. Of the abort itself it
publishes nothing, and a second one is answered at once: an abort of ours would hide the user's.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from anyio import sleep

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import AssistantMessage, SessionStatus, StoredMessage
from fallback_plugin.host_client import OUTDATED, Receipt

POLL_S: Final = 0.01
"""How often a run that is ending is looked at: a stop between the last look and its end is not seen."""

LOOKS_PER_STATUS: Final = 10
"""How often, in looks, it is asked whether another run has begun meanwhile."""

NEWEST: Final = 10
"""Among so many of a session's last messages is its last answer; those behind it wait for theirs."""

NO_MESSAGE: Final = "msg_000000000000fallbackplugin0"
"""To revert to a message that does not exist changes nothing."""

CONFLICT: Final = 409


class Calls(Protocol):
    """What a server is asked."""

    async def status(self) -> Mapping[str, SessionStatus]:
        """Return what each session is doing that is not idle."""
        ...

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message and all after it; refused while the session's run goes on."""
        ...

    async def newest_messages(self, session_id: str, count: int) -> list[StoredMessage]:
        """Return the end of a session's history."""
        ...


class RunEnds:
    """The ends of one server's runs."""

    def __init__(self) -> None:
        # That changes are accepted says something only of a server that was seen to refuse them.
        self._guards = False

    async def own_end(self, calls: Calls, session_id: str) -> Receipt | None:
        """Wait until a run that is ending has ended, or is being ended by an abort.

        Returns:
            None if the session is at work, or if it cannot be told whether its run was aborted.

        Raises:
            HostCallError: if the server does not answer; with the status `OUTDATED` if the run of another
                message has begun meanwhile.
        """
        if session_id in await calls.status():
            return None
        looks = 0
        while await _refuses_changes(calls, session_id):
            self._guards = True
            looks += 1
            await sleep(POLL_S)
            if looks % LOOKS_PER_STATUS == 0 and session_id in await calls.status():
                raise gone_on()
        ended = await _has_complete_answer(calls, session_id)
        if not ended and session_id in await calls.status():
            raise gone_on()
        return Receipt(ended=ended, aborted=False) if ended or self._guards else None


def gone_on() -> HostCallError:
    """Return the error of a call that is only right without the message which the user has sent since."""
    return HostCallError("the user has sent another message", status=OUTDATED)


async def _refuses_changes(calls: Calls, session_id: str) -> bool:
    try:
        await calls.revert(session_id, NO_MESSAGE)
    except HostCallError as error:
        if error.status != CONFLICT:
            raise
        return True
    return False


async def _has_complete_answer(calls: Calls, session_id: str) -> bool:
    newest = await calls.newest_messages(session_id, NEWEST)
    answers = [each.info for each in newest if isinstance(each.info, AssistantMessage)]
    return not answers or answers[-1].completed
