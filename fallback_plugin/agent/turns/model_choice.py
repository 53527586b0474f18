"""Which model a prompt runs on: the one it goes to, or a plugin's choice."""

from collections.abc import Callable
from dataclasses import replace

from fallback_plugin.agent.prompt_defaults import agent_of, model_of
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.records import Json, Run, Session, UserPrompt
from fallback_plugin.agent.turns.fallback_note import Resting, resting_note
from fallback_plugin.agent.turns.hooks import TurnHooks
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.model_ref import ModelRef


class ModelChoice:
    """Chooses a prompt's model.

    Args:
        models: the models there are.
        hooks: what plugins are asked with.
        resting: what is known of a model that is left alone.
        own: an agent's own model.
    """

    def __init__(
        self,
        models: Providers,
        hooks: TurnHooks,
        resting: Resting,
        own: Callable[[str], ModelRef | None],
    ) -> None:
        self._models = models
        self._own = own
        self._hooks = hooks
        self._resting = resting

    def named(self, prompt: UserPrompt, session: Session) -> ModelRef | None:
        """Return the model a prompt is for, None if nothing names one."""
        return model_of(prompt, session, own=self._own, default=self._models.default)

    async def choose(self, run: Run, session: Session) -> UserPrompt:
        """Return a run's prompt with the model that it shall run on, which plugins may choose."""
        named = self.named(run.prompt, session)
        request = PromptRequest(
            session_id=session.id,
            message_id=run.message_id,
            agent=agent_of(run.prompt, session),
            model=run.prompt.model,
            resolved=named,
        )
        chosen = await self._hooks.chat_message(request) or named
        return replace(run.prompt, model=chosen, instead_of=None if chosen == named else named)

    def notes(self, prompt: UserPrompt, now_ms: int) -> tuple[Json, ...]:
        """Return what the answer tells of a prompt that a plugin has kept from a model that rests."""
        resting, chosen = prompt.instead_of, prompt.model
        if resting is None or chosen is None or (closure := self._resting(resting)) is None:
            return ()
        return (resting_note(resting, closure, chosen, now_ms),)
