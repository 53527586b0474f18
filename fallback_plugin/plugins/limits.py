"""How long plugins may take, and how far they may fall behind."""

from dataclasses import dataclass

from fallback_plugin.hookspecs import (
    CONFIRMATION_DEADLINE_S,
    NOTIFY_DEADLINE_S,
    OPEN_MEMORY_DEADLINE_S,
    QUESTION_DEADLINE_S,
    RUN_ENDING_DEADLINE_S,
    TOOL_RESULT_DEADLINE_S,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one plugin host.

    ``notify_s`` is one implementation's time for one notification, ``question_s`` and ``tool_result_s`` the
    time of all implementations together for a question (the latter for ``tool_after``; ``confirmation_s`` for
    ``confirm_prompt``, ``run_ending_s`` for ``run_ending``, ``open_memory_s`` for ``open_session_memory``).
    ``order_wait_s`` is how long a question waits for the session's earlier events, ``drain_s`` how long a
    stopping host waits for events not yet delivered.

    A plugin is suspended when one session has had more than ``backlog`` state-bearing events waiting for it
    while it was at work for ``backlog_s``: a burst that leaves it no turn is not its fault.
    ``streamed_text`` bounds the characters of streamed text that wait in one queue; beyond it they are
    dropped.
    """

    notify_s: float = NOTIFY_DEADLINE_S
    question_s: float = QUESTION_DEADLINE_S
    confirmation_s: float = CONFIRMATION_DEADLINE_S
    tool_result_s: float = TOOL_RESULT_DEADLINE_S
    run_ending_s: float = RUN_ENDING_DEADLINE_S
    open_memory_s: float = OPEN_MEMORY_DEADLINE_S
    order_wait_s: float = 0.1
    drain_s: float = 0.5
    backlog: int = 1_000
    backlog_s: float = 1.0
    streamed_text: int = 1_000_000

    def question_deadline_s(self, hook: str) -> float:
        """Return the time all implementations of a first-result hook have together."""
        own = {
            "confirm_prompt": self.confirmation_s,
            "tool_after": self.tool_result_s,
            "run_ending": self.run_ending_s,
            "open_session_memory": self.open_memory_s,
        }
        return own.get(hook, self.question_s)
