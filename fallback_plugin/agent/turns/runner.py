"""Running turns for the dispatcher: each to its end, with that end written down, whatever ends it."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

import anyio
from anyio import CancelScope

from fallback_plugin.agent.identifiers import NewId, new_id
from fallback_plugin.agent.prompt_defaults import no_own_model
from fallback_plugin.agent.protocols import Steered, TurnJournal
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.records import Run
from fallback_plugin.agent.turns.attempts import Attempts
from fallback_plugin.agent.turns.every_reason import ChainOf
from fallback_plugin.agent.turns.fallback_note import ReadFailure, Resting
from fallback_plugin.agent.turns.giving_up import GivingUp
from fallback_plugin.agent.turns.history import Sessions
from fallback_plugin.agent.turns.hooks import TurnHooks
from fallback_plugin.agent.turns.journal import WholeWrites
from fallback_plugin.agent.turns.model_choice import ModelChoice, OnGone
from fallback_plugin.agent.turns.permissions import Permissions
from fallback_plugin.agent.turns.state import MAX_STEPS, TurnServices
from fallback_plugin.agent.turns.step_writer import Clock
from fallback_plugin.agent.turns.tool_calls import ToolCalls
from fallback_plugin.agent.turns.tools import Tool
from fallback_plugin.agent.turns.turn import Turn
from fallback_plugin.errors import FencedError
from fallback_plugin.model_ref import ModelRef

log = logging.getLogger(__name__)

CLOSING_S: Final = 5.0
"""How long a stopped turn may take to close what is open."""

OpenJournal: TypeAlias = Callable[[Run], Awaitable[TurnJournal]]
"""Opens the journal of an active run, and what its turn needs beside it. A stop of the turn cancels it."""


class TurnRunner:
    """The host's `Turns`. One object serves all sessions; nothing of one turn is known to another."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        open_journal: OpenJournal,
        models: Providers,
        tools: Sequence[Tool],
        permissions: Permissions,
        hooks: TurnHooks,
        giving_up: GivingUp,
        read_failure: ReadFailure,
        resting: Resting,
        chain: ChainOf,
        on_gone: OnGone,
        own_model: Callable[[str], ModelRef | None] = no_own_model,
        clock: Clock = time.time,
        new_id: NewId = new_id,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._open_journal = open_journal
        self._services = TurnServices(
            choice=ModelChoice(models, hooks, resting, own_model, on_gone),
            sessions=sessions,
            models=models,
            attempts=Attempts(models, hooks, giving_up),
            tool_calls=ToolCalls(tools, permissions, hooks),
            permissions=permissions,
            hooks=hooks,
            read_failure=read_failure,
            resting=resting,
            chain=chain,
            clock=clock,
            new_id=new_id,
            max_steps=max_steps,
        )

    async def prepare(self, run: Run) -> Run:
        """Return a run with the model that its prompt shall run on: what it names, or a plugin's choice."""
        session = await self._services.sessions.session(run.session_id)
        return replace(run, prompt=await self._services.choice.choose(run, session))

    async def run(self, run: Run, steered: Steered) -> None:
        """Carry an active run to its end, and write that end down."""
        with CancelScope(shield=True):
            session = await self._services.sessions.session(run.session_id)
        journal = WholeWrites(await self._open_journal(run))
        turn = Turn(self._services, run, session, journal, steered)
        try:
            await turn.go()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLOSING_S, shield=True), suppress(FencedError):
                await turn.stop()
            raise
        except FencedError:
            log.info("%s was taken off its lane: its turn writes no more", run.id)
