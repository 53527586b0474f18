import os
from collections.abc import Iterator

import anyio
import pytest

from fallback_plugin.opencode.stdio import FdReceiveStream, FdSendStream

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    receive, send = os.pipe()
    yield receive, send
    for fd in (receive, send):
        try:
            os.close(fd)
        except OSError:
            continue


async def test_bytes_read_before_come_first(pipe: tuple[int, int]) -> None:
    receive, send = pipe
    stream = FdReceiveStream(receive, already_read=b"early")
    os.write(send, b"late")
    assert [await stream.receive(3), await stream.receive(), await stream.receive()] == [
        b"ear",
        b"ly",
        b"late",
    ]


async def test_a_closed_other_end_is_the_end_of_the_stream(pipe: tuple[int, int]) -> None:
    receive, send = pipe
    os.close(send)
    with pytest.raises(anyio.EndOfStream):
        await FdReceiveStream(receive).receive()


async def test_more_than_a_pipe_holds_is_written_while_it_is_read(pipe: tuple[int, int]) -> None:
    receive, send = pipe
    incoming, outgoing = FdReceiveStream(receive), FdSendStream(send)
    sent = os.urandom(1_000_000)
    received = b""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outgoing.send, sent)
        while len(received) < len(sent):
            received += await incoming.receive()
    assert received == sent


async def test_writing_to_nobody_is_a_broken_stream(pipe: tuple[int, int]) -> None:
    receive, send = pipe
    os.close(receive)
    with pytest.raises(anyio.BrokenResourceError):
        await FdSendStream(send).send(b"x")


async def test_closing_a_stream_closes_its_descriptor(pipe: tuple[int, int]) -> None:
    receive, send = pipe
    await FdReceiveStream(receive).aclose()
    await FdSendStream(send).aclose()
    for fd in pipe:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
