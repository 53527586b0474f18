from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.opencode.line_splitter import LineSplitter


def split(stream: bytes, cuts: list[int], splitter: LineSplitter) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    return [line for chunk in chunks for line in splitter.feed(chunk)]


@given(
    stream=st.binary(max_size=200).map(lambda raw: raw.replace(b"\x00", b"\n")), cuts=st.lists(st.integers(0))
)
def test_lines_do_not_depend_on_where_the_stream_was_cut(stream: bytes, cuts: list[int]) -> None:
    *whole, _unfinished = stream.split(b"\n")
    assert split(stream, cuts, LineSplitter()) == whole


@given(cuts=st.lists(st.integers(0)))
def test_a_line_beyond_the_limit_is_skipped_and_counted(cuts: list[int]) -> None:
    splitter = LineSplitter(longest=4)
    assert split(b"1234\n12345\nab\n", cuts, splitter) == [b"1234", b"ab"]
    assert splitter.skipped == 1


def test_an_unfinished_last_line_is_not_given_out() -> None:
    assert list(LineSplitter().feed(b'{"torn":')) == []
