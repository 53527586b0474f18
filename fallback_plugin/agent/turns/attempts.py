"""One attempt at an answer: a model is asked and gives one, or it fails and a plugin names the next."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fallback_plugin.agent.providers.exchange import Finished, ModelEvent, ModelRequest
from fallback_plugin.agent.providers.failure import ModelFailedError, transport_error
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.turns.giving_up import GivingUp
from fallback_plugin.agent.turns.hooks import TurnHooks
from fallback_plugin.hookspecs import ModelAttempt
from fallback_plugin.model_ref import ModelRef

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 1000
"""Models asked for one answer, whatever a plugin says."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: an agent of a session, for an answer to a person's message."""

    session_id: str
    message_id: str
    agent: str


class Attempts:
    """Asks models, and asks plugins when one fails."""

    def __init__(self, models: Providers, hooks: TurnHooks, giving_up: GivingUp) -> None:
        self._models = models
        self._hooks = hooks
        self._giving_up = giving_up

    async def attempt(
        self,
        asker: Asker,
        model: ModelRef,
        request: ModelRequest,
        take: Callable[[ModelEvent], Awaitable[None]],
    ) -> None:
        """Ask a model and hand each event on, to its proper end.

        Raises:
            ModelFailedError: if there is none.
        """
        finished = False
        with self._giving_up.waiting(asker.session_id, asker.agent) as waiting:
            async with self._models.stream(model, request) as events:
                async for event in events:
                    waiting.flowing = True
                    await take(event)
                    finished = isinstance(event, Finished)
        if waiting.given_up and not finished:
            raise ModelFailedError(transport_error(f"{model} was given up: nothing came in time"), "silent")

    async def next_model(
        self, asker: Asker, tried: Sequence[ModelRef], failure: ModelFailedError
    ) -> ModelRef | None:
        """Ask plugins for the model that is to take over from the last one tried; None ends the turn."""
        if len(tried) >= MAX_ATTEMPTS:
            return None
        reachable = frozenset(self._models.models)
        answer = await self._hooks.model_attempt_failed(
            ModelAttempt(
                session_id=asker.session_id,
                message_id=asker.message_id,
                agent=asker.agent,
                host_model=tried[-1],
                model=tried[-1],
                tried=tuple(tried),
                error=failure.error,
                # What was said so far is taken back, so another model can take over as if nothing had come.
                ending="cut" if failure.ending == "broken" else failure.ending,
                reachable=reachable,
                is_fixed=False,
            )
        )
        if not isinstance(answer, ModelRef):
            return None
        if ModelRef(answer.provider, answer.model) not in reachable:
            log.warning("%s: %s cannot be asked: it is not in [providers]", asker.session_id, answer)
            return None
        return answer
