"""Which model a prompt runs on: the one it goes to, or a plugin's choice."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from fallback_plugin.agent.prompt_defaults import agent_of, gone_model, model_of
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.records import Json, Run, Session, UserPrompt
from fallback_plugin.agent.turns.fallback_note import Resting, gone_note, resting_note
from fallback_plugin.agent.turns.hooks import TurnHooks
from fallback_plugin.hookspecs import PromptRequest
from fallback_plugin.model_ref import ModelRef

OnGone: TypeAlias = Callable[[ModelRef, ModelRef], None]


class ModelChoice:
    """Chooses a prompt's model.

    Args:
        models: the models there are.
        hooks: what plugins are asked with.
        resting: what is known of a model that is left alone.
        own: an agent's own model.
        on_gone: told once of a session's model that is gone from the settings, and which one takes its place.
    """

    def __init__(
        self,
        models: Providers,
        hooks: TurnHooks,
        resting: Resting,
        own: Callable[[str], ModelRef | None],
        on_gone: OnGone,
    ) -> None:
        self._models = models
        self._own = own
        self._hooks = hooks
        self._resting = resting
        self._on_gone = on_gone

    def named(self, prompt: UserPrompt, session: Session) -> ModelRef | None:
        """Return the model a prompt is for, None if nothing names one."""
        models = self._models
        return model_of(prompt, session, own=self._own, default=models.default, knows=models.knows)

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
        gone = gone_model(run.prompt, session, self._models.knows)
        if gone is not None and named not in (gone, None):
            self._on_gone(gone, named)
        chosen = await self._hooks.chat_message(request) or named
        return replace(run.prompt, model=chosen, instead_of=gone if chosen == named else named)

    def notes(self, prompt: UserPrompt, now_ms: int) -> tuple[Json, ...]:
        """Return what the answer tells of a prompt whose model rests or is gone: another took its place."""
        left, chosen = prompt.instead_of, prompt.model
        if left is None or chosen in (left, None):
            return ()
        if not self._models.knows(left):
            return (gone_note(left, chosen, now_ms),)
        closure = self._resting(left)
        return () if closure is None else (resting_note(left, closure, chosen, now_ms),)
