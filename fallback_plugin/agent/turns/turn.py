"""One turn: the steps from a person's message to the end of its answer."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from anyio import CancelScope

from fallback_plugin.agent.prompt_defaults import agent_of
from fallback_plugin.agent.protocols import Steered, TurnJournal
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

NO_MODEL: Final = ModelRef("none", "none")
"""Stands on the answer of a turn for which no model is set."""


class Turn:
    """Carries one run: `go` to its end or, once that was cancelled, `stop`."""

    def __init__(
        self,
        services: TurnServices,
        run: Run,
        session: Session,
        journal: TurnJournal,
        steered: Steered,
    ) -> None:
        self._services = services
        self._state = TurnState(
            run=run,
            prompt=run.prompt,
            session=session,
            journal=journal,
            message_id=run.message_id,
            agent=agent_of(run.prompt, session),
            model=services.choice.named(run.prompt, session) or NO_MODEL,
            fallbacks=services.choice.notes(run.prompt, services.now_ms()),
        )
        self._steered = steered
        self._guard = LoopGuard()
        self._shortening = Shortening(services, self._state)
        self._ended = False

    async def go(self) -> None:
        """Take step after step until nothing is asked for any more, and write the end down."""
        prompt = self._state.prompt
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
        for run in joined:
            await self._take_in(run)
        return False

    async def _take_in(self, run: Run) -> None:
        """Go on as a prompt says that joined the turn; where it says nothing, all stays as it was."""
        services, state = self._services, self._state
        state.message_id = run.message_id
        said = {
            name: value
            for name in ("agent", "system", "tools")
            if (value := getattr(run.prompt, name)) is not None
        }
        state.prompt = replace(state.prompt, **said)
        state.agent = agent_of(state.prompt, state.session)
        if run.prompt.model is not None:
            chosen = await services.choice.choose(run, state.session)
            state.model = chosen.model or state.model
            state.prompt = replace(state.prompt, instead_of=chosen.instead_of)
            state.fallbacks = services.choice.notes(chosen, services.now_ms())

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
        return await tool_calls.run(writer, Path(state.session.directory), state.prompt.tools)

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
