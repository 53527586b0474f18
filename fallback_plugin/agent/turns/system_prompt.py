"""What a model is told before anything else."""

from typing import Final

from fallback_plugin.agent.records import Session, UserPrompt

_AGENT: Final = (
    "You are a coding agent at work in the project folder {directory}. Use your tools to read and change its "
    "files and to run commands. Look before you change, keep to what was asked, and say shortly what you did."
)


def system_prompt(session: Session, prompt: UserPrompt) -> str:
    """Return the system message of a turn; a prompt's own is put behind the agent's."""
    return "\n\n".join(filter(None, (_AGENT.format(directory=session.directory), prompt.system)))
