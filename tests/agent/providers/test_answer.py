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
    assert read([delta("length", content="half")]) == [TextDelta("half"), Finished("length")]


@pytest.mark.parametrize("thoughts", [{}, {"reasoning_content": "hm"}], ids=["nothing", "thoughts"])
def test_P13_a_limit_that_was_reached_before_a_word_is_a_failure(thoughts: dict[str, str]) -> None:
    with pytest.raises(ModelFailedError, match="reached its output limit before it said") as failure:
        read([delta("length", **thoughts)])
    assert failure.value.ending == "empty"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([{"type": "text", "text": "yes"}], [TextDelta("yes")]),
        (["yes", {"text": "!"}, 7, {"type": "image_url"}], [TextDelta("yes"), TextDelta("!")]),
        (
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "yes"},
            ],
            [ReasoningDelta("hm"), TextDelta("yes")],
        ),
    ],
)
def test_H10_content_in_parts_is_read(content: object, said: list[ModelEvent]) -> None:
    assert read([delta(content=content), delta("stop")]) == [*said, Finished("stop")]


def test_H10_the_words_of_a_refusal_are_the_answer() -> None:
    assert read([delta(refusal="No."), delta("stop")]) == [TextDelta("No."), Finished("stop")]


def test_H10_thoughts_that_stand_in_details_alone_are_read() -> None:
    details = [{"type": "reasoning.text", "text": "hm"}]
    events = read([delta(reasoning_details=details), delta(content="yes"), delta("stop")])
    assert events == [ReasoningDelta("hm"), TextDelta("yes"), Finished("stop")]


def call(index: int | None, given_id: str | None, name: str | None, arguments: object) -> dict[str, Any]:
    return {"index": index, "id": given_id, "function": {"name": name, "arguments": arguments}}


def calls_of(*pieces: dict[str, Any]) -> list[tuple[str, str]]:
    events = read([*(delta(tool_calls=[piece]) for piece in pieces), delta("tool_calls")])
    return [(event.tool, event.arguments) for event in events if isinstance(event, ToolCallEnded)]


TWO = [("read", '{"path": "a"}'), ("read", '{"path": "b"}')]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param((call(0, "x", *TWO[0]), call(0, "y", *TWO[1])), id="one number, two ids"),
        pytest.param((call(0, None, *TWO[0]), call(0, None, *TWO[1])), id="one number, no ids"),
        pytest.param((call(None, None, *TWO[0]), call(None, None, *TWO[1])), id="neither"),
        pytest.param(
            (
                call(0, "x", "read", ""),
                call(0, "x2", None, TWO[0][1]),
                call(1, "y", "read", ""),
                call(1, "y2", "", TWO[1][1]),
            ),
            id="a new id in every piece",
        ),
        pytest.param(
            (
                call(0, "x", "read", '{"path"'),
                call(0, "x", "read", ': "a"}'),
                call(0, "y", "read", '{"path"'),
                call(0, "", "", ': "b"}'),
            ),
            id="the name in every piece",
        ),
        pytest.param(
            (
                call(0, None, "read", '{"path"'),
                call(0, None, "read", ': "a"}'),
                call(0, None, "read", '{"path"'),
                call(0, None, "read", ': "b"}'),
            ),
            id="the name in every piece, no ids",
        ),
        pytest.param(
            (
                call(0, "x", "read", ""),
                call(1, "y", "read", ""),
                call(1, None, None, '{"path": '),
                call(0, None, None, '{"path": "a"}'),
                call(1, None, None, '"b"}'),
            ),
            id="in turns",
        ),
    ],
)
def test_H10_parallel_calls_are_told_apart(pieces: tuple[dict[str, Any], ...]) -> None:
    assert calls_of(*pieces) == TWO


def test_H10_calls_with_one_number_and_other_names_are_told_apart() -> None:
    assert calls_of(call(0, None, "read", ""), call(0, None, "write", "{}")) == [
        ("read", ""),
        ("write", "{}"),
    ]


def test_H10_arguments_may_be_an_object() -> None:
    assert calls_of(call(0, "x", "read", {"path": "ä"})) == [("read", '{"path": "ä"}')]


def test_H10_a_legacy_function_call_is_a_tool_call() -> None:
    pieces = [{"name": "read", "arguments": ""}, {"arguments": '{"path": "a"}'}]
    events = read([*(delta(function_call=piece) for piece in pieces), delta("function_call")])
    assert events == [
        ToolCallBegun("made_0", "read"),
        ToolCallEnded("made_0", "read", '{"path": "a"}'),
        Finished("tool-calls"),
    ]


def test_H10_a_whole_completion_is_read() -> None:
    message = {
        "role": "assistant",
        "content": "look",
        "tool_calls": [call(None, None, "read", TWO[0][1]), call(None, None, "read", TWO[1][1])],
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    completion = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": usage,
    }

    events = read([completion])

    assert [event.arguments for event in events if isinstance(event, ToolCallEnded)] == [TWO[0][1], TWO[1][1]]
    assert events[0] == TextDelta("look")
    assert events[-1] == Finished("tool-calls", Usage(input_tokens=3, output_tokens=2))


def test_H10_a_message_beside_the_deltas_is_not_said_twice() -> None:
    message = {"role": "assistant", "content": "yes"}
    chunks = [delta(content="yes"), delta("stop")]
    for chunk in chunks:
        chunk["choices"][0]["message"] = message

    assert read(chunks) == [TextDelta("yes"), Finished("stop")]


def test_H10_arguments_of_any_depth_are_read() -> None:
    deep = '{"a":' * 100_000 + "}"

    assert calls_of(call(0, None, "read", deep), call(0, None, "read", "{}")) == [("read", f"{deep}{{}}")]


def complete(*chunks: object) -> list[ModelEvent]:
    reader = AnswerReader(lambda: "made")
    events = [event for chunk in chunks for event in reader.read(chunk)]
    reader.is_complete = True
    return [*events, *reader.end()]


def test_H10_an_answer_that_is_complete_needs_no_finish_reason() -> None:
    assert complete(delta(content="yes")) == [TextDelta("yes"), Finished("stop")]
    assert complete(delta(tool_calls=[CALL]))[-1] == Finished("tool-calls")
    assert complete(delta(tool_calls=[call(0, "x", "list", "")]))[-1] == Finished("tool-calls")


@pytest.mark.parametrize(
    ("chunks", "ending"),
    [
        ([], "cut"),
        ([delta(reasoning_content="hm")], "empty"),
        ([delta(content="half"), delta("error")], "broken"),
        ([delta(tool_calls=[call(0, "x", "read", '{"path"')])], "broken"),
    ],
)
def test_H10_what_is_complete_may_still_be_no_answer(chunks: list[object], ending: str) -> None:
    with pytest.raises(ModelFailedError) as failure:
        complete(*chunks)
    assert failure.value.ending == ending


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
                    "message",
                    "content",
                    "text",
                    "function_call",
                    "arguments",
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
