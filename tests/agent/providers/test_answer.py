"""The reader of chunks expects anything, and runs nothing twice."""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.agent.providers.answer import MAX_ANSWER, MAX_CALLS, AnswerReader
from fallback_plugin.agent.providers.exchange import (
    Finished,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallBegun,
    ToolCallEnded,
    Usage,
)
from fallback_plugin.agent.providers.failure import ModelFailedError

CALL = {"index": 0, "id": "call_a", "function": {"name": "read", "arguments": '{"path": "a"}'}}


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def new_call_id() -> Iterator[str]:
    return (f"made_{number}" for number in count())


def read(chunks: Iterable[object]) -> list[ModelEvent]:
    ids = new_call_id()
    reader = AnswerReader(lambda: next(ids))
    return [*(event for chunk in chunks for event in reader.read(chunk)), *reader.end()]


def test_text_reasoning_and_usage_come_in_their_order() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }

    events = read([delta(reasoning_content="hm"), delta(content="yes"), delta("stop"), {"usage": usage}])

    told = Usage(input_tokens=10, output_tokens=5, reasoning_tokens=2, cached_tokens=4)
    assert events == [ReasoningDelta("hm"), TextDelta("yes"), Finished("stop", told)]


def test_arguments_are_put_together() -> None:
    more = {"index": 0, "function": {"arguments": "}"}}
    first = {"index": 0, "id": "call_a", "function": {"name": "read", "arguments": "{"}}

    events = read([delta(tool_calls=[first]), delta(tool_calls=[more]), delta("tool_calls")])

    assert events == [
        ToolCallBegun("call_a", "read"),
        ToolCallEnded("call_a", "read", "{}"),
        Finished("tool-calls"),
    ]


def test_report_E10_a_repeated_tool_call_id_is_one_call() -> None:
    again = {**CALL, "index": 1}

    events = read([delta(tool_calls=[CALL]), delta(tool_calls=[again]), delta("tool_calls")])

    assert [event for event in events if isinstance(event, ToolCallEnded)] == [
        ToolCallEnded("call_a", "read", '{"path": "a"}')
    ]


def test_calls_without_a_number_are_told_apart_by_their_id() -> None:
    calls = [{**CALL, "index": None, "id": name} for name in ("call_a", "call_b")]

    events = read([delta(tool_calls=[calls[0]]), delta(tool_calls=[calls[1]]), delta("stop")])

    assert [event.call_id for event in events if isinstance(event, ToolCallEnded)] == ["call_a", "call_b"]
    assert events[-1] == Finished("tool-calls")


def test_a_call_without_an_id_gets_one() -> None:
    events = read([delta(tool_calls=[{"index": 0, "function": {"name": "read"}}]), delta("tool_calls")])

    assert events[0] == ToolCallBegun("made_0", "read")


@pytest.mark.parametrize(
    ("chunks", "ending"),
    [
        ([], "cut"),
        ([delta()], "cut"),
        ([delta(content="half")], "broken"),
        ([delta(content="half"), delta("error")], "broken"),
        ([delta("stop")], "empty"),
        ([delta(content=" \n"), delta("stop")], "empty"),
        ([delta(reasoning_content="hm"), delta("stop")], "empty"),
        ([delta("tool_calls")], "empty"),
        ([delta(content="no"), delta("content_filter")], "refused"),
    ],
)
def test_what_is_no_answer_is_a_failure(chunks: list[object], ending: str) -> None:
    with pytest.raises(ModelFailedError) as failure:
        read(chunks)
    assert failure.value.ending == ending


def test_a_blocked_answer_has_the_hosts_name_for_it() -> None:
    with pytest.raises(ModelFailedError) as failure:
        read([delta("content_filter")])
    assert failure.value.error.name == "ContentFilterError"


def test_an_answer_that_reached_its_limit_is_an_answer() -> None:
    assert read([delta("length")]) == [Finished("length")]


def test_an_answer_has_an_end() -> None:
    piece = "x" * (MAX_ANSWER // 2)
    with pytest.raises(ModelFailedError, match="longer than"):
        read([delta(content=piece)] * 3)


def test_an_answer_asks_for_so_many_tools() -> None:
    calls = [{**CALL, "index": number, "id": f"call_{number}"} for number in range(MAX_CALLS + 1)]
    with pytest.raises(ModelFailedError, match="more than"):
        read([delta(tool_calls=calls)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "id",
                    "index",
                    "usage",
                    "finish_reason",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=8))
def test_any_chunks_give_events_or_a_failure(chunks: list[object]) -> None:
    try:
        events = read(chunks)
    except ModelFailedError:
        return
    calls = [event.call_id for event in events if isinstance(event, ToolCallEnded)]
    assert isinstance(events[-1], Finished)
    assert len(calls) == len(set(calls))
