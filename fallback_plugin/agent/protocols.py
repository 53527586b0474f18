"""How the rooms of the host meet: what the dispatcher and the turns write down, and what runs a turn."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from fallback_plugin.agent.records import Json, Outcome, Run, UserPrompt

StatusWord: TypeAlias = Literal["busy", "idle"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An acceptance; ``is_new`` is False if this prompt had been accepted before, under the same key."""

    run: Run
    is_new: bool


class RunJournal(Protocol):
    """What the dispatcher writes down.

    When a call returns, it is on stable storage and its events are published. Calls take effect in the order
    in which they are made, also when several are under way: nothing may be awaited before a call has its
    place in that order. A call that fails changes nothing.
    """

    async def ids_of(self, session_id: str) -> Sequence[str]:
        """Return every id that a session has had, the newest last. Raises `AgentError` 404.

        Of all calls this one alone has no place in their order.
        """
        ...

    async def accept(self, session_id: str, prompt: UserPrompt, sequence: int) -> Accepted:
        """Keep a prompt. Raises `AgentError` if there is no such session or the disk refuses."""
        ...

    async def queue(self, run: Run) -> None:
        """Note that a run waits behind another."""
        ...

    async def activate(self, run: Run) -> Run:
        """Begin a run: its person's message appears, and it gets the token that its writes have to carry.

        Of ``run`` the prompt counts: its model may have been chosen since the acceptance.
        Raises `AgentError` if it has begun, ended or is gone.
        """
        ...

    async def cancel(self, runs: Sequence[Run]) -> None:
        """End runs that never began: person's message, an empty cancelled answer, the terminal event."""
        ...

    async def fold(self, runs: Sequence[Run], into: Run) -> None:
        """End runs by making their prompts messages of an active one's turn. Raises `FencedError`."""
        ...

    async def note_stop(self, run: Run) -> None:
        """Note that a person stopped a run: should the host end first, it ends as cancelled."""
        ...

    async def end(self, run: Run, outcome: Outcome, error: Json | None = None) -> bool:
        """End a run whatever is open in it, and take its token away; False if it had ended.

        It gets an answer, at least an empty one with this outcome; so does one that could not be activated,
        after its person's message.
        """
        ...

    async def send(self, run_id: str, sequence: int) -> Run:
        """Accept a held run anew, under a new number. Raises `AgentError`, 409 if it is not held."""
        ...

    async def discard(self, run_id: str, *, waiting: bool = False) -> Run:
        """End a held run, or one that waits, without a trace in the history.

        Raises `AgentError`, 409 if it is neither: held by default, or not begun if ``waiting``.
        """
        ...

    async def status(self, ids: Sequence[str], status: StatusWord) -> None:
        """Publish that a session became busy or idle, under each of its ids at once.

        A power failure may lose this, and leaves it idle.
        """
        ...


class TurnJournal(Protocol):
    """What a turn writes down in its run's name; any call raises `FencedError` once the run's token is gone.

    Messages and parts are OpenCode's own objects; a part's text grows by `append`, anything else of it
    changes by `put_part`. Calls take effect in their order.
    """

    async def put_message(self, info: Json) -> None:
        """Add or replace an assistant message's ``info``, or replace that of the person's message."""
        ...

    async def remove_message(self, message_id: str) -> None:
        """Take a message of this run away, with its parts: what a failed attempt has said."""
        ...

    async def put_part(self, part: Json, *, durable: bool = True) -> None:
        """Add or replace a part; ``durable`` waits for stable storage (before a tool runs, its result).

        A text that is not given stays as it has grown; one that is given replaces it.
        """
        ...

    async def append(self, part_id: str, field: str, delta: str) -> None:
        """Let a part's ``text`` grow: written within 100 ms or 4 KiB, and before any other call's write."""
        ...

    async def continue_in(self, session_id: str, opening: Sequence[Json]) -> Run:
        """Carry the run on in a new session that continues its present one, and takes its prompts.

        The new session, ``session_id``, begins with ``opening``: ``{info, parts}`` that name it already. The
        run keeps its id, its sequence and its token; later calls write to the new session. Returns the run
        as it stands then: its session, and the last of the person's messages in the opening for its message.
        """
        ...

    async def finish(self, info: Json | None, outcome: Outcome, error: Json | None = None) -> None:
        """End the turn: its last message, the run, its memory segment and the terminal event, all at once."""
        ...


Steered: TypeAlias = Callable[[], Awaitable[Sequence[Run]]]
"""Takes the prompts that shall join the turn between two steps; their messages are stored when it returns."""


class Turns(Protocol):
    """Runs turns."""

    async def prepare(self, run: Run) -> Run:
        """Return a run with the model that its prompt shall run on: what it names, or a plugin's choice.

        Called once, before `RunJournal.activate`, so that the person's message names that model from its
        beginning. Takes no longer than plugins have for a question, and never raises but for a bug.
        """
        ...

    async def run(self, run: Run, steered: Steered) -> None:
        """Carry an active run to its end, and write that end down.

        Called inside a cancel scope that the person's stop cancels: the turn then closes what is open,
        shielded, ends itself as cancelled and lets the cancellation through. An exception is a bug.
        """
        ...
