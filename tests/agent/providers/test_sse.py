"""Bodies as servers really send them become events, however they are cut into pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.agent.providers.sse import EventStreamDecoder, ServerSentEvent


def decode(*pieces: bytes) -> list[ServerSentEvent]:
    decoder = EventStreamDecoder()
    return [*(event for piece in pieces for event in decoder.feed(piece)), *decoder.end()]


def data(*values: str) -> list[ServerSentEvent]:
    return [ServerSentEvent("", value) for value in values]


@pytest.mark.parametrize(
    "nothing",
    [
        b"",
        b": a comment\n\n",
        b"retry: 3000\n\n",
        b"id: 7\n\n",
        b"event: message_start\n\n",
        b"data:\n\n",
        b"data\n\n",
        b"nonsense\n\n",
        b"\n\n\n",
        b"\xef\xbb\xbf",
    ],
)
def test_H10_what_holds_no_data_is_no_event(nothing: bytes) -> None:
    assert decode(nothing + b"data: 1\n\n" + nothing.removeprefix(b"\xef\xbb\xbf") + b"data: 2\n\n") == data(
        "1", "2"
    )


def test_an_events_name_is_its_own() -> None:
    assert decode(b"event: error\ndata: 1\n\ndata: 2\n\n") == [
        ServerSentEvent("error", "1"),
        ServerSentEvent("", "2"),
    ]


def test_lines_of_data_are_joined() -> None:
    assert decode(b"data: {\ndata: }\n\n") == data("{\n}")


def test_H10_the_last_event_needs_no_empty_line() -> None:
    assert decode(b"data: 1\n\ndata: [DONE]") == data("1", "[DONE]")


def test_H10_damaged_bytes_are_replaced() -> None:
    assert decode(b"data: a\xff\n\n") == data("a\ufffd")


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\r\n "])
def test_H10_a_body_that_is_json_is_one_event(start: bytes) -> None:
    body = b'{"a":\n\n"data: b"}'
    assert decode(start + body) == [ServerSentEvent("", body.decode(), is_whole=True)]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1), min_size=1, max_size=4
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_events_do_not_depend_on_how_the_body_is_cut(lines: list[str], end: str, cuts: list[int]) -> None:
    body = "".join(f"data: {line}{end}{end}" for line in lines).encode()
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[start:stop] for start, stop in pairwise(places)]

    assert decode(*pieces) == data(*(line for line in lines if line.strip()))
