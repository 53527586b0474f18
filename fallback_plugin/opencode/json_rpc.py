"""A JSON-RPC 2.0 peer over a byte stream: one object a line, both sides may ask at any time."""

import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream, TaskGroup

from fallback_plugin.errors import ProtocolError
from fallback_plugin.opencode.line_splitter import LONGEST_LINE, LineSplitter

logger = logging.getLogger(__name__)

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

Params: TypeAlias = Mapping[str, Any]
OnNotification: TypeAlias = Callable[[str, Params], None]
OnRequest: TypeAlias = Callable[[str, Params], Awaitable[Any]]


class RemoteError(ProtocolError):
    """The other side answered with an error; raised in a request handler, the answer to the other side."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class PeerGoneError(ProtocolError):
    """The other side closed the stream."""


class Peer:
    """One end of a JSON-RPC conversation. Keep `run` running; ask and notify meanwhile.

    ``on_notification`` is called in the order of arrival and must not block. ``on_request`` runs in a task of
    its own; what it returns is the result, a `RemoteError` it raises the error.
    """

    def __init__(
        self,
        receive: AnyByteReceiveStream,
        send: AnyByteSendStream,
        *,
        on_notification: OnNotification,
        on_request: OnRequest,
        longest_line: int = LONGEST_LINE,
    ) -> None:
        self._receive = receive
        self._send = send
        self._on_notification = on_notification
        self._on_request = on_request
        self._splitter = LineSplitter(longest_line)
        self._outbox, self._to_write = anyio.create_memory_object_stream[bytes](math.inf)
        self._open: dict[int, _OpenRequest] = {}
        self._next_id = 1
        self._gone = False
        self._taken = 0
        self._more_taken = anyio.Event()

    async def run(self) -> None:
        """Carry messages until the other side closes the stream; unanswered requests then fail."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write)
                async for line in self._lines():
                    self._take(line, tasks)
                tasks.cancel_scope.cancel()
        finally:
            self._gone = True
            for waiting in self._open.values():
                waiting.fail(PeerGoneError("the host closed the connection"))
            self._outbox.close()
            self._to_write.close()

    def notify(self, method: str, params: Params) -> None:
        """Send a notification; it is dropped if the other side is gone."""
        self._post({"method": method, "params": params})

    async def has_taken(self, lines: int) -> None:
        """Wait until the other side's first ``lines`` lines were taken, those that make no sense included."""
        while self._taken + self._splitter.skipped < lines:
            await self._more_taken.wait()

    async def request(self, method: str, params: Params, *, deadline_s: float) -> Any:  # noqa: ANN401 -- any JSON
        """Ask the other side and return its result.

        Raises:
            RemoteError: if it answers with an error.
            PeerGoneError: if it goes before it answers.
            TimeoutError: without an answer in time; a late one is ignored.
        """
        if self._gone:
            raise PeerGoneError("the host closed the connection")
        number, self._next_id = self._next_id, self._next_id + 1
        waiting = self._open[number] = _OpenRequest()
        try:
            self._post({"id": number, "method": method, "params": params})
            with anyio.fail_after(deadline_s):
                return await waiting.answer()
        finally:
            del self._open[number]

    def _post(self, message: Mapping[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        if not self._gone:
            self._outbox.send_nowait(line)

    async def _write(self) -> None:
        try:
            async for line in self._to_write:
                await self._send.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("the host reads no more")

    async def _lines(self) -> AsyncIterator[bytes]:
        skipped = 0
        while True:
            try:
                chunk = await self._receive.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            for line in self._splitter.feed(chunk):
                yield line
                self._taken += 1
            if self._splitter.skipped > skipped:
                skipped = self._splitter.skipped
                logger.warning("skipped a line that is too long (%d so far)", skipped)
            self._more_taken.set()
            self._more_taken = anyio.Event()

    def _take(self, line: bytes, tasks: TaskGroup) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            logger.warning("skipped a line of %d bytes that is not JSON", len(line))
            return
        if not isinstance(message, dict):
            logger.warning("skipped a line that is no JSON object")
            return
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            self._take_answer(message)
        elif "id" in message:
            tasks.start_soon(self._answer, message["id"], method, params)
        else:
            self._on_notification(method, params)

    def _take_answer(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        waiting = self._open.get(number) if isinstance(number, int) else None
        if waiting is None:
            logger.debug("ignored an answer nobody waits for")
        elif isinstance(error := message.get("error"), dict):
            code, text = error.get("code"), error.get("message")
            waiting.fail(RemoteError(code if isinstance(code, int) else INTERNAL_ERROR, str(text)))
        else:
            waiting.succeed(message.get("result"))

    async def _answer(self, number: object, method: str, params: Params) -> None:
        try:
            result = await self._on_request(method, params)
            self._post({"id": number, "result": result})
        except RemoteError as error:
            self._post({"id": number, "error": {"code": error.number, "message": str(error)}})
        except Exception:
            logger.exception("could not answer %s", method)
            self._post(
                {"id": number, "error": {"code": INTERNAL_ERROR, "message": "see fallback-plugin's log"}}
            )


class _OpenRequest:
    def __init__(self) -> None:
        self._answered = anyio.Event()
        self._result: Any = None
        self._error: Exception | None = None

    def succeed(self, result: object) -> None:
        self._result = result
        self._answered.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._answered.set()

    async def answer(self) -> Any:  # noqa: ANN401 -- any JSON
        await self._answered.wait()
        if self._error is not None:
            raise self._error
        return self._result
