"""The turns that runs leave unanswered: each is sent to the models that are left, when its run has ended."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import StoredMessage
from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.effects import Effect, Record, Toast, Why
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.fallback.session import Turn
from fallback_plugin.fallback.settling import Settlement
from fallback_plugin.fallback.state import PassedOver
from fallback_plugin.hookspecs import RUN_ENDING_DEADLINE_S, LastWords
from fallback_plugin.host_client import HostClient

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A turn that is sent again, and what is to be shown when that is ``over``."""

    turn: Turn
    over: anyio.Event = field(default_factory=anyio.Event)
    words: LastWords | None = None


class OwedTurns:
    """Answers owed turns, each in one process only.

    Args:
        engine: knows what is owed, and to which model it goes next.
        clock: seconds since the epoch.
        read_health: has the engine see health as it stands.
        start: carries effects out.
        claim: takes a lease; False if another process has it.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Callable[[], float],
        read_health: Callable[[], None],
        start: Callable[[list[Effect], str, HostClient], None],
        claim: Callable[[str], bool],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._read_health = read_health
        self._start = start
        self._claim = claim
        self._under_way: dict[str, _UnderWay] = {}

    async def answer(self, session_id: str, host: HostClient) -> LastWords | None:
        """Send a session's owed turn until a model answers; return what is to be shown, None for nothing.

        Two prompts that one run has left unanswered are one turn, which both wait for.
        """
        session, other = self._engine.session(session_id), self._under_way.get(session_id)
        if session and other and session.turn is other.turn and not other.turn.cancelled:
            await other.over.wait()
            return other.words
        owed = self._engine.owed_attempt(session_id)
        if session is None or session.turn is None or owed is None or not self._claim(owed):
            return None
        under_way = self._under_way[session_id] = _UnderWay(session.turn)
        try:
            under_way.words = await self._answer(session_id, host)
        finally:
            under_way.over.set()
            if self._under_way.get(session_id) is under_way:
                del self._under_way[session_id]
        return under_way.words

    async def _answer(self, session_id: str, host: HostClient) -> LastWords:
        # In an editor the user ends what takes too long.
        deadline_s = self._engine.settings.fallback.run_deadline if host.kind == "run" else 0.0
        with anyio.move_on_after(deadline_s or None):
            return await self._settle(session_id, deadline_s or RUN_ENDING_DEADLINE_S, host)
        await host.abort(session_id)
        return LastWords(trouble=f"no model has answered within {deadline_s:g} s (run_deadline)")

    async def _settle(self, session_id: str, deadline_s: float, host: HostClient) -> LastWords:
        session = self._engine.session(session_id)
        turn = session.turn if session else None
        history = await host.messages(session_id)
        known = {stored.info.id for stored in history}
        while session and session.turn is turn and self._engine.owes(session_id):
            self._read_health()
            settlement, effects = self._engine.settle(session_id, history, self._clock())
            if settlement is None:
                # What a toast would say is printed as the run's error.
                quiet: list[Effect] = [each for each in effects if not isinstance(each, Toast)]
                self._start(quiet, session_id, host)
                return LastWords(trouble=_trouble(effects))
            self._start(effects, session_id, host)
            answer = await _answered(session_id, settlement, deadline_s, host)
            judged = self._engine.settled(session_id, settlement, answer, self._clock())
            self._start(judged, session_id, host)
        new = [stored for stored in await host.messages(session_id) if stored.info.id not in known]
        return LastWords(parts=[part.raw for stored in new for part in stored.parts])


async def _answered(
    session_id: str, settlement: Settlement, deadline_s: float, host: HostClient
) -> StoredMessage | None:
    """Send a turn again and wait for its end; return its answer, None if the host refused it."""
    try:
        for message_id in settlement.doomed:
            await host.delete_message(session_id, message_id)
        return await host.run_turn(session_id, settlement.prompt, deadline_s=deadline_s)
    except HostCallError as error:
        log.warning("%s: the owed turn was refused: %s", session_id, error)
        return None


def _trouble(effects: list[Effect]) -> str:
    """Say why no model of a chain answered a run, a line for each."""
    said = [effect.body.message for effect in effects if isinstance(effect, Toast)]
    kept = [effect.why for effect in effects if isinstance(effect, Record) and effect.why]
    if not said and not kept:
        return "no model of the chain is left"
    lines = said or reasons_of(kept[-1])
    return "\n".join(["no model of the chain answered:", *lines])


def reasons_of(why: Why) -> list[str]:
    """Return a line for each model that could not answer."""
    failed = PassedOver(why.failed, toasts.describe(why.failure))
    return toasts.reasons([failed, *why.passed_over])
