"""A title for a session, asked of a model beside the turn: nobody waits for it, and its failure is silent."""

import logging
from typing import Final

import anyio

from fallback_plugin.agent.providers.exchange import ModelRequest, TextDelta
from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.model_ref import ModelRef

log = logging.getLogger(__name__)

MAX_TITLE: Final = 100
MAX_PROMPT: Final = 2_000
DEADLINE_S: Final = 60.0

_SYSTEM: Final = "Answer with a title of at most eight words for the conversation that begins so. No quotes."


async def suggested_title(models: Providers, model: ModelRef, session_id: str, prompt: str) -> str | None:
    """Return a title for a session that begins with a prompt, None if the model gives none in time."""
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": prompt[:MAX_PROMPT]}]
    try:
        with anyio.fail_after(DEADLINE_S):
            async with models.stream(model, ModelRequest(session_id=session_id, messages=messages)) as events:
                said = [event.text async for event in events if isinstance(event, TextDelta)]
    except (ModelFailedError, TimeoutError) as failure:
        log.info("%s: no title: %s", session_id, failure)
        return None
    words = " ".join("".join(said).split()).strip("\"'")
    return words[:MAX_TITLE] or None
