"""The accepted runs that have not ended: who waits for one, and which child sessions it works through."""

from dataclasses import dataclass, field

from fallback_plugin.agent.dispatch.reply import Reply
from fallback_plugin.agent.records import Run
from fallback_plugin.errors import FencedError


@dataclass(slots=True, eq=False)
class _UnderWay:
    ids: list[str]
    children: dict[str, None] = field(default_factory=dict)
    end: Reply[None] = field(default_factory=Reply)
    stalled_by: Exception | None = None


class RunsUnderWay:
    """Knows every run from its acceptance to its terminal event."""

    def __init__(self) -> None:
        self._runs: dict[str, _UnderWay] = {}

    def __len__(self) -> int:
        """Return how many runs are under way, with those that were folded into them."""
        return len(self._runs)

    def begin(self, run: Run) -> None:
        """Note that a run was accepted; harmless if it is under way."""
        self._runs.setdefault(run.id, _UnderWay([run.id]))

    def fold(self, run: Run, into: Run) -> None:
        """Let whoever waits for ``run`` wait for ``into``, whose turn answers both."""
        folded, answering = self._runs.pop(run.id, None), self._runs.get(into.id)
        if answering is not None:
            answering.ids.append(run.id)
            self._runs[run.id] = answering
        if folded is not None:
            folded.end.give(None)

    def stall(self, run: Run, error: Exception) -> None:
        """Note that a run cannot go on for now; those who wait, and who will meanwhile, are told why."""
        if (under_way := self._runs.get(run.id)) is not None:
            under_way.stalled_by = error
            waited_for, under_way.end = under_way.end, Reply()
            waited_for.fail(error)

    def go_on(self, run: Run) -> None:
        """Note that a run goes on; harmless if it always did."""
        if (under_way := self._runs.get(run.id)) is not None:
            under_way.stalled_by = None

    def end(self, run: Run, error: Exception | None = None) -> None:
        """Note that a run has its terminal event, or why it has none; those who wait go on."""
        ended = self._runs.get(run.id)
        if ended is None:
            return
        for run_id in ended.ids:
            self._runs.pop(run_id, None)
        if error is None:
            ended.end.give(None)
        else:
            ended.end.fail(error)

    async def wait(self, run_id: str) -> None:
        """Wait until a run has ended, and the one it was folded into; at once if it is not under way.

        Raises:
            Exception: why it cannot go on for now, or why it has no end.
        """
        while (under_way := self._runs.get(run_id)) is not None:
            if under_way.stalled_by is not None:
                raise under_way.stalled_by
            await under_way.end.get()

    def add_child(self, parent: Run, session_id: str) -> None:
        """Note that a run works through a child session. Raises `FencedError` if it is not under way."""
        under_way = self._runs.get(parent.id)
        if under_way is None:
            raise FencedError(f"run {parent.id} has ended: it cannot start work in {session_id}")
        under_way.children[session_id] = None

    def children(self, run: Run) -> list[str]:
        """Return the child sessions a run works through."""
        under_way = self._runs.get(run.id)
        return [] if under_way is None else list(under_way.children)
