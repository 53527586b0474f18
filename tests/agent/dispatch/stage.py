"""A dispatcher at work with a recording journal and scripted turns, in virtual time."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from fallback_plugin.agent.dispatch import Dispatcher
from fallback_plugin.agent.protocols import Accepted
from fallback_plugin.agent.records import Delivery, Run, UserPrompt
from tests.agent.dispatch.recording_journal import RecordingJournal
from tests.agent.dispatch.scripted_turns import Behaviour, Held, ScriptedTurns
from tests.agent.virtual_time import run_in_virtual_time

WATCHDOG_S: Final = 10.0


def prompt(text: str, *, delivery: Delivery = "queue", key: str | None = None) -> UserPrompt:
    return UserPrompt(parts=({"type": "text", "text": text},), delivery=delivery, client_key=key)


class Stage:
    def __init__(self) -> None:
        self.journal = RecordingJournal()
        self.turns = ScriptedTurns(self.journal)
        self.stalled: list[tuple[str, Exception]] = []
        self.dispatcher = Dispatcher(
            self.journal,
            self.turns,
            watchdog_s=WATCHDOG_S,
            on_stalled=lambda session_id, error: self.stalled.append((session_id, error)),
        )

    def script(self, **behaviours: Behaviour) -> None:
        self.turns.behaviours.update(behaviours)

    def hold(self, text: str) -> Held:
        """Let the turn of a prompt wait for a gate."""
        held = Held()
        self.script(**{text: held})
        return held

    async def accept(
        self,
        text: str,
        session_id: str = "s",
        *,
        delivery: Delivery = "queue",
        key: str | None = None,
        parent: Run | None = None,
    ) -> Accepted:
        return await self.dispatcher.accept(
            session_id, prompt(text, delivery=delivery, key=key), parent=parent
        )

    async def send(self, *texts: str, session_id: str = "s") -> None:
        """Let prompts be accepted, and go on when nothing more happens."""
        for text in texts:
            await self.accept(text, session_id)
        await self.quiet()

    async def quiet(self) -> None:
        """Go on when every task waits for something that only the test, or time, can bring."""
        await anyio.wait_all_tasks_blocked()

    def assert_nothing_left(self) -> None:
        """Show that what ended left no trace: nothing grows with the sessions that were."""
        assert list(self.dispatcher._lanes) == []
        assert len(self.dispatcher._under_way) == 0


def on_stage(play: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a play; nothing may be left after it."""

    async def performance() -> None:
        stage = Stage()
        async with anyio.create_task_group() as tasks:
            await tasks.start(stage.dispatcher.run)
            try:
                await play(stage)
                await stage.quiet()
                stage.assert_nothing_left()
            finally:
                await stage.dispatcher.stop()

    def test() -> None:
        run_in_virtual_time(performance)

    test.__doc__ = play.__doc__
    return test
