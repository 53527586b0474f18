"""One turn: the steps from a person's message to the end of its answer."""

from pathlib import Path
from typing import Final

from anyio import CancelScope

from fallback_plugin.agent.protocols import Steered, TurnJournal
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.records import Json, Outcome, Run, Session
from fallback_plugin.agent.turns import compaction
from fallback_plugin.agent.turns.answering import HistoryTooLongError, answer
from fallback_plugin.agent.turns.hooks import CompletedTurn
from fallback_plugin.agent.turns.loop_guard import MAX_REPEATS, LoopGuard
from fallback_plugin.agent.turns.messages import ABORTED
from fallback_plugin.agent.turns.shortening import Shortening
from fallback_plugin.agent.turns.state import TurnFailedError, TurnServices, TurnState
from fallback_plugin.agent.turns.step_writer import StepWriter
from fallback_plugin.events import HostError
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.error import write_error

DEFAULT_AGENT: Final = "build"

NO_MODEL: Final = ModelRef("none", "none")
"""Stands on the answer of a turn for which no model is set."""


def agent_of(run: Run, session: Session) -> str:
    """Return the agent that a run's prompt goes to."""
    return run.prompt.agent or session.agent or DEFAULT_AGENT


def model_of(run: Run, session: Session, models: Providers) -> ModelRef | None:
    """Return the model a run is on: what its prompt names, the session's last, or the default one."""
    return run.prompt.model or session.model or models.default


class Turn:
    """Carries one run: `go` to its end or, once that was cancelled, `stop`."""

    def __init__(
        self,
        services: TurnServices,
        run: Run,
        session: Session,
        journal: TurnJournal,
        steered: Steered,
        *,
        fallbacks: tuple[Json, ...] = (),
    ) -> None:
        self._services = services
        self._state = TurnState(
            run=run,
            session=session,
            journal=journal,
            message_id=run.message_id,
            agent=agent_of(run, session),
            model=model_of(run, session, services.models) or NO_MODEL,
            fallbacks=fallbacks,
        )
        self._steered = steered
        self._guard = LoopGuard()
        self._shortening = Shortening(services, self._state)
        self._ended = False

    async def go(self) -> None:
        """Take step after step until nothing is asked for any more, and write the end down."""
        prompt = self._state.run.prompt
        try:
            if prompt.no_reply:
                await self._finish(None, "completed")
                return
            if compaction.is_request(prompt.parts):
                await self._summarise()
                return
            while not await self._step():
                pass
        except TurnFailedError as failure:
            await self._break_off("failed", write_error(failure.error))

    async def stop(self) -> None:
        """End the turn as stopped by the person: what is open is closed, what was said stays."""
        if not self._ended:
            await self._break_off("cancelled", ABORTED)

    async def _summarise(self) -> None:
        """Do nothing but shorten the history, as the person has asked."""
        state = self._state
        await self._shortening.shorten(await self._services.sessions.history(state.session.id))
        await self._finish(None, "completed")

    async def _step(self) -> bool:
        """Take a step; True if it was the last."""
        services, state = self._services, self._state
        if state.steps >= services.max_steps:
            raise TurnFailedError(
                _unknown(f"the turn has taken {state.steps} steps without coming to an end")
            )
        state.steps += 1
        history = await services.sessions.history(state.session.id)
        if self._shortening.is_due(history):
            await self._shortening.shorten(history)
            history = await services.sessions.history(state.session.id)
        try:
            writer = await answer(services, state, history, self._shortening.helps_against)
        except HistoryTooLongError:
            await self._shortening.shorten(history)
            return False
        if self._goes_round(writer):
            raise TurnFailedError(
                _unknown(f"one tool was asked for {MAX_REPEATS + 1} times with the same arguments")
            )
        goes_on = await self._carry_out(writer)
        info = await writer.finish_step()
        if goes_on:
            await self._close(info)
        joined = await self._steered()
        if not (joined or goes_on):
            await self._finish(info, "completed")
            return True
        if not goes_on:
            await self._close(info)
        if joined:
            state.message_id = joined[-1].message_id
        return False

    async def _close(self, info: Json) -> None:
        """Write down that a step which is not the last has ended."""
        await self._state.journal.put_message(info)
        self._state.writer = None

    async def _carry_out(self, writer: StepWriter) -> bool:
        """Run the tools of a step; tell whether the model is to be asked again with their results."""
        tool_calls, state = self._services.tool_calls, self._state
        if not writer.calls:
            return False
        if writer.finished is not None and writer.finished.reason == "length":
            await tool_calls.leave_out(writer)
            return False
        return await tool_calls.run(writer, Path(state.session.directory), state.run.prompt.tools)

    def _goes_round(self, writer: StepWriter) -> bool:
        return any(self._guard.goes_round(call.tool, call.arguments) for call in writer.calls)

    async def _break_off(self, outcome: Outcome, error: Json) -> None:
        writer = self._state.writer or self._state.new_writer(self._services)
        await self._finish(await writer.break_off(error), outcome, error)

    async def _finish(self, info: Json | None, outcome: Outcome, error: Json | None = None) -> None:
        services, state = self._services, self._state
        with CancelScope(shield=True):
            await state.journal.finish(info, outcome, error)
            self._ended = True
        await services.hooks.turn_completed(
            CompletedTurn(
                run_id=state.run.id,
                session_id=state.session.id,
                message_id=state.message_id,
                model=state.model,
                outcome=outcome,
                steps=state.steps,
            )
        )


def _unknown(message: str) -> HostError:
    return HostError(name="UnknownError", message=message)
