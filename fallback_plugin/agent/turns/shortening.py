"""The phase of a turn that shortens its history: a summary by the same chain, a new session to go on in."""

from collections.abc import Sequence
from dataclasses import replace

from fallback_plugin.agent.providers.exchange import ModelEvent, ModelRequest, TextDelta
from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns import compaction
from fallback_plugin.agent.turns.request import request_messages
from fallback_plugin.agent.turns.state import TurnFailedError, TurnServices, TurnState
from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import classify


class Shortening:
    """Shortens a turn's history, and not again before that has helped."""

    def __init__(self, services: TurnServices, state: TurnState) -> None:
        self._services = services
        self._state = state
        self._may_again = True

    def is_due(self, history: Sequence[Json]) -> bool:
        """Tell whether to shorten before the next request."""
        used = compaction.last_context(history)
        full = compaction.nearly_full(used, self._window())
        if used and not full:
            self._may_again = True
        return full and self._may_again

    def helps_against(self, failure: ModelFailedError) -> bool:
        """Tell whether to shorten after a request that was refused since it is too long."""
        if not (self._may_again and self._window()):
            return False
        now, provider = self._services.clock(), self._state.model.provider
        return classify(failure.error, now, provider=provider).kind == "overflow"

    async def shorten(self, history: Sequence[Json]) -> None:
        """Go on in a new session that begins with a summary.

        Raises:
            TurnFailedError: if no model gives one.
        """
        services, state = self._services, self._state
        self._may_again = False
        asked = next((each for each in history if each["info"]["id"] == state.message_id), None)
        if asked is None:
            message = f"the message {state.message_id} is not in the history of {state.session.id}"
            raise TurnFailedError(HostError(name="UnknownError", message=message))
        summary = await self._summary(history)
        session_id = services.new_id("ses")
        begun = compaction.opening(
            session_id,
            summary=summary,
            answer=state.new_message(services),
            asked=asked,
            now_ms=services.now_ms(),
            new_id=services.new_id,
        )
        state.run = await state.journal.continue_in(session_id, begun)
        services.permissions.carry_over(state.session.id, session_id)
        state.message_id = state.run.message_id
        state.session = replace(state.session, id=session_id, continues=state.session.id)

    async def _summary(self, history: Sequence[Json]) -> str:
        services, state = self._services, self._state
        instruction = {
            "info": {"role": "user"},
            "parts": [{"type": "text", "text": compaction.INSTRUCTION}],
        }
        messages = request_messages(
            [*compaction.with_short_outputs(history), instruction], system=compaction.SYSTEM, images=False
        )
        request = ModelRequest(session_id=state.session.id, messages=messages)
        asker = state.asker(compaction.AGENT)
        tried = [state.model]
        while True:
            said: list[str] = []

            async def take(event: ModelEvent, said: list[str] = said) -> None:
                if isinstance(event, TextDelta):
                    said.append(event.text)

            try:
                await services.attempts.attempt(asker, state.model, request, take)
            except ModelFailedError as failure:
                following = await services.attempts.next_model(asker, tried, failure)
                if following is None:
                    raise TurnFailedError(failure.error) from failure
                state.model = following
                tried.append(following)
            else:
                return "".join(said).strip() or "(nothing was said of it)"

    def _window(self) -> int | None:
        return self._services.models.facts(self._state.model).context_tokens
