"""Titles of sessions that nobody has named: after their first turn, beside everything else."""

import logging
from typing import Final

from fallback_plugin.agent.journal import StoredSessions
from fallback_plugin.agent.journal.shapes import plain_text
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.agent.turns.history import Sessions
from fallback_plugin.agent.turns.hooks import CompletedTurn
from fallback_plugin.agent.turns.titles import suggested_title
from fallback_plugin.errors import AgentError

logger = logging.getLogger(__name__)

LONGEST: Final = 60
"""Characters of a prompt that stand for a title which no model gave."""


async def name_session(
    turn: CompletedTurn, history: Sessions, sessions: StoredSessions, models: Providers
) -> None:
    """Give a session a title after its first turn, unless it has one; a person's always stays.

    The model that has answered is asked. If it gives none, the beginning of the prompt does.
    """
    try:
        session = await history.session(turn.session_id)
        if turn.outcome != "completed" or not turn.steps or session.titled_by != "host":
            return
        said = await history.history(session.id)
        prompt = next((plain_text(each["parts"]) for each in said if each["info"]["role"] == "user"), "")
        words = " ".join(prompt.split())
        if not words:
            return
        title = await suggested_title(models, turn.model, session.id, words)
        await sessions.rename(session.id, title or words[:LONGEST], by="model")
    except AgentError as error:
        logger.info("%s keeps its title: %s", turn.session_id, error)
