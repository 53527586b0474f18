"""One step's answer, from whichever model gives one; of a failed attempt a note stays on it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fallback_plugin.agent.providers.exchange import ModelRequest
from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.agent.records import Json
from fallback_plugin.agent.turns.every_reason import ModelFailure, every_reason
from fallback_plugin.agent.turns.fallback_note import fallback_note
from fallback_plugin.agent.turns.request import request_messages
from fallback_plugin.agent.turns.state import TurnFailedError, TurnServices, TurnState
from fallback_plugin.agent.turns.step_writer import StepWriter
from fallback_plugin.agent.turns.system_prompt import system_prompt
from fallback_plugin.health.closure import Closure
from fallback_plugin.model_ref import ModelRef

LastResort: TypeAlias = Callable[[ModelFailedError], bool]
"""Tells whether a failure that no model takes over is to be met by shortening the history."""


class HistoryTooLongError(Exception):
    """The history has to be shortened before anybody can answer."""


async def answer(
    services: TurnServices, state: TurnState, history: Sequence[Json], last_resort: LastResort
) -> StepWriter:
    """Have the next step written; return its writer, with the step's proper end.

    Raises:
        TurnFailedError: if no model answers; the last attempt's message is still open.
        HistoryTooLongError: if ``last_resort`` says so; the last attempt's message is gone.
    """
    messages = await services.hooks.messages_transform(state.session.id, history) or history
    tried = [state.model]
    while True:
        request = ModelRequest(
            session_id=state.session.id,
            messages=_written_for(state.model, messages, services, state),
            tools=services.tool_calls.offered(state.prompt.tools),
        )
        await services.models.get_ready(state.model)  # a model's time begins with its message
        writer = state.new_writer(services)
        await writer.begin()
        try:
            await services.attempts.attempt(state.asker(), state.model, request, writer.take)
        except ModelFailedError as failure:
            seen = services.read_failure(state.model, failure)
            state.note_failure(ModelFailure(failure, seen))
            following = await services.attempts.next_model(state.asker(), tried, failure)
            if following is None and not last_resort(failure):
                error = every_reason(state.failures, _not_asked(services, state))
                raise TurnFailedError(error) from failure
            await state.journal.remove_message(writer.message_id)
            state.writer = None
            if following is None:
                raise HistoryTooLongError from failure
            note = fallback_note(state.model, failure, seen, following, services.now_ms())
            state.fallbacks = (*state.fallbacks, note)
            state.model = following
            tried.append(following)
        else:
            state.fallbacks = ()
            return writer


def _not_asked(services: TurnServices, state: TurnState) -> dict[ModelRef, Closure | str | None]:
    """Return the models that did not fail in the turn, each with what is in its way, the first choice first.

    Another model than the first choice may have been chosen for any reason: it counts only if it is closed.
    """
    wanted = state.prompt.instead_of
    others: dict[ModelRef, Closure | str | None] = {
        model: services.models.problem(model) or services.resting(model)
        for model in services.chain(state.agent)
    }
    if wanted is not None and (closure := services.resting(wanted)) is not None:
        others = {wanted: closure, **others}
    return {model: obstacle for model, obstacle in others.items() if model not in state.failures}


def _written_for(
    model: ModelRef, messages: Sequence[Json], services: TurnServices, state: TurnState
) -> list[dict[str, Any]]:
    return request_messages(
        messages,
        system=system_prompt(state.session, state.prompt),
        images=services.models.facts(model).images is True,
    )
