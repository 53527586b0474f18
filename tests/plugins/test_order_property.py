"""Whatever the speeds and the mix of sessions: a plugin sees each session's events, all and in order."""

from collections import defaultdict

import anyio
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin import hookimpl
from fallback_plugin.events import Event, MessagePartDelta, SessionIdle
from fallback_plugin.plugins import Limits
from tests.plugins.fake_calls import host_of, idle, running

SESSIONS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("idle"), SESSIONS),
        st.tuples(st.just("delta"), SESSIONS),
        st.tuples(st.just("breathe"), SESSIONS),
    ),
    max_size=60,
)
SPEEDS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=3)


class Slow:
    """Take as many turns of the event loop for each event as a repeating pattern says."""

    def __init__(self, turns: list[int]) -> None:
        self.turns = turns
        self.events: dict[str | None, list[Event]] = defaultdict(list)
        self.calls = 0

    @hookimpl
    async def event(self, event: Event) -> None:
        turns = self.turns[self.calls % len(self.turns)]
        self.calls += 1
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        self.events[event.session_id].append(event)


def delta(session_id: str, sequence: int) -> MessagePartDelta:
    return MessagePartDelta(
        type="message.part.delta",
        session_id=session_id,
        message_id="m",
        part_id="p",
        delta=f"{sequence} ",
        sequence=sequence,
    )


@given(steps=STEPS, speeds=SPEEDS)
def test_each_plugin_sees_each_sessions_events_all_and_in_order(
    steps: list[tuple[str, str]], speeds: list[list[int]]
) -> None:
    plugins = [Slow(turns) for turns in speeds]
    expected: dict[str, list[int]] = defaultdict(list)
    texts: dict[str, str] = defaultdict(str)

    async def scenario() -> None:
        async with running(host_of(*plugins, limits=Limits(drain_s=60))) as host:
            for sequence, (what, session_id) in enumerate(steps):
                if what == "breathe":
                    await anyio.lowlevel.checkpoint()
                    continue
                event: Event = idle(session_id, sequence)
                if what == "delta":
                    event = delta(session_id, sequence)
                    texts[session_id] += f"{sequence} "
                else:
                    expected[session_id].append(sequence)
                host.publish({"type": event.type}, event)

    anyio.run(scenario)

    for plugin in plugins:
        for session_id in ("a", "b", "c"):
            seen = plugin.events[session_id]
            assert [event.sequence for event in seen if isinstance(event, SessionIdle)] == expected[
                session_id
            ]
            assert (
                "".join(event.delta for event in seen if isinstance(event, MessagePartDelta))
                == texts[session_id]
            )
            sequences = [event.sequence or 0 for event in seen]
            assert sequences == sorted(sequences)
