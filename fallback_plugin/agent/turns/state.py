"""Where a turn stands, and what every turn works with."""

from dataclasses import dataclass, field
from typing import Any, Final

from fallback_plugin.agent.identifiers import NewId
from fallback_plugin.agent.protocols import TurnJournal
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.records import Json, Run, Session, UserPrompt
from fallback_plugin.agent.turns.attempts import Asker, Attempts
from fallback_plugin.agent.turns.every_reason import ChainOf, ModelFailure
from fallback_plugin.agent.turns.fallback_note import ReadFailure, Resting
from fallback_plugin.agent.turns.history import Sessions
from fallback_plugin.agent.turns.hooks import TurnHooks
from fallback_plugin.agent.turns.messages import assistant_message
from fallback_plugin.agent.turns.model_choice import ModelChoice
from fallback_plugin.agent.turns.permissions import Permissions
from fallback_plugin.agent.turns.step_writer import Clock, StepWriter
from fallback_plugin.agent.turns.tool_calls import ToolCalls
from fallback_plugin.events import HostError
from fallback_plugin.model_ref import ModelRef

MAX_STEPS: Final = 500
"""Steps of one turn; a model that needs more goes round in circles."""


class TurnFailedError(Exception):
    """The turn cannot go on; ``error`` is what its answer ends with."""

    def __init__(self, error: HostError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServices:
    """What every turn works with."""

    sessions: Sessions
    models: Providers
    choice: ModelChoice
    attempts: Attempts
    tool_calls: ToolCalls
    permissions: Permissions
    hooks: TurnHooks
    read_failure: ReadFailure
    resting: Resting
    chain: ChainOf
    clock: Clock
    new_id: NewId
    max_steps: int = MAX_STEPS

    def now_ms(self) -> int:
        """Return the time in the host's unit."""
        return int(self.clock() * 1000)


@dataclass(slots=True, kw_only=True)
class TurnState:
    """Where a turn stands.

    Attributes:
        prompt: what the next step goes by: the run's prompt, and what those say that have joined it.
        message_id: the person's message that is being answered: the first, or one that steered the turn.
        model: the model the turn is on.
        fallbacks: the switches since the last answer, for the next one to tell of.
        writer: the step under way; None between two.
        failures: what each model that failed in the turn failed of last, in the order of these failures.
    """

    run: Run
    prompt: UserPrompt
    session: Session
    journal: TurnJournal
    message_id: str
    agent: str
    model: ModelRef
    fallbacks: tuple[Json, ...] = ()
    writer: StepWriter | None = None
    steps: int = 0
    failures: dict[ModelRef, ModelFailure] = field(default_factory=dict)

    def asker(self, agent: str | None = None) -> Asker:
        """Return who asks a model: the turn's agent, or another one for it."""
        return Asker(self.session.id, self.message_id, agent or self.agent)

    def note_failure(self, failure: ModelFailure) -> None:
        """Keep what the model that the turn is on failed of."""
        self.failures.pop(self.model, None)
        self.failures[self.model] = failure

    def new_message(self, services: TurnServices) -> dict[str, Any]:
        """Return the ``info`` of a step that begins now."""
        return assistant_message(
            message_id=services.new_id("msg"),
            session_id=self.session.id,
            parent_id=self.message_id,
            model=self.model,
            agent=self.agent,
            directory=self.session.directory,
            created_ms=services.now_ms(),
        )

    def new_writer(self, services: TurnServices) -> StepWriter:
        """Return the writer of a step that begins now; it is the one under way from here."""
        info = self.new_message(services)
        if self.fallbacks:
            info["fallbacks"] = list(self.fallbacks)
        self.writer = StepWriter(self.journal, info, services.clock, services.new_id)
        return self.writer
