"""A user's plugin in a host of its own process, which makes the calls that a test asks for."""

import json
import socket
import threading
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

NAME: Final = "calls_its_host"

_LIMIT_S: Final = 25.0
_PLUGIN: Final = """
import json
from dataclasses import asdict, is_dataclass

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from fallback_plugin import ModelRef, Prompt, Toast, hookimpl
from fallback_plugin.errors import HostCallError

PORT = {port}
sending = anyio.Lock()
failed = []


@hookimpl
def host_started(host):
    host.start_soon(serve, host)


@hookimpl
def model_attempt_failed(attempt):
    failed.append([attempt.session_id, str(attempt.model), attempt.ending])
    reachable = [model for model in attempt.reachable if model.model == "stand-in"]
    return reachable[0] if reachable and attempt.ending == "silent" else None


async def serve(host):
    stream = await anyio.connect_tcp("127.0.0.1", PORT)
    async with stream:
        lines = BufferedByteReceiveStream(stream)
        while True:
            request = json.loads(await lines.receive_until(b"\\n", 1 << 20))
            host.start_soon(answer, host, stream, request["number"], request["call"], request["arguments"])


async def answer(host, stream, number, call, arguments):
    try:
        said = {{"result": plain(await CALLS[call](host, *arguments))}}
    except HostCallError as error:
        said = {{"refusal": [type(error).__name__, error.status, str(error)]}}
    except Exception as error:
        said = {{"mistake": repr(error)}}
    async with sending:
        await stream.send(json.dumps({{"number": number, **said}}, default=str).encode() + b"\\n")


def plain(value):
    if isinstance(value, list):
        return [plain(each) for each in value]
    return asdict(value) if is_dataclass(value) else value


def prompt_of(fields):
    return Prompt(**{{**fields, "model": ModelRef.parse(fields["model"])}})


async def about(host):
    return [host.kind, host.directory]


async def attempts(host):
    return failed


async def work_that_fails():
    raise RuntimeError("this work fails on purpose")


async def start_work(host):
    host.start_soon(work_that_fails)


CALLS = {{
    "about": about,
    "attempts": attempts,
    "start_work": start_work,
    "session": lambda host, session: host.session(session),
    "messages": lambda host, session: host.messages(session),
    "models": lambda host: host.models(),
    "prompt": lambda host, session, fields: host.prompt(session, prompt_of(fields)),
    "run_turn": lambda host, session, fields, deadline_s: host.run_turn(
        session, prompt_of(fields), deadline_s=deadline_s
    ),
    "give_up": lambda host, session, agent: host.give_up(session, agent),
    "abort": lambda host, session: host.abort(session),
    "revert": lambda host, session, message: host.revert(session, message),
    "unrevert": lambda host, session: host.unrevert(session),
    "delete_message": lambda host, session, message: host.delete_message(session, message),
    "toast": lambda host, fields: host.toast(Toast(**fields)),
}}
"""


class Refused(Exception):  # noqa: N818 -- what the plugin's call raised, not an error of the test's
    """A call raised `HostCallError` or a subclass, whose name is ``kind``."""

    def __init__(self, kind: str, status: int | None, words: str) -> None:
        super().__init__(words)
        self.kind: Final = kind
        self.status: Final = status


class CallingPlugin:
    """Write the plugin into ``folder``, and talk to it once its host has started it."""

    def __init__(self, folder: Path) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(_LIMIT_S)
        self._answers: dict[int, Future[Any]] = {}
        self._numbers = count()
        self._connection: socket.socket | None = None
        port = self._listening.getsockname()[1]
        (folder / f"{NAME}.py").write_text(_PLUGIN.format(port=port))

    def __enter__(self) -> Self:
        """Take the port, which the plugin connects to."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the plugin."""
        if self._connection is not None:
            self._connection.close()
        self._listening.close()

    def begin(self, call: str, *arguments: object) -> Future[Any]:
        """Have a call made, and return what becomes of it: its result, or `Refused`."""
        if self._connection is None:
            self._connection, _ = self._listening.accept()
            threading.Thread(target=self._read, args=(self._connection,), daemon=True).start()
        number = next(self._numbers)
        future = self._answers[number] = Future[Any]()
        request = {"number": number, "call": call, "arguments": arguments}
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        return future

    def call(self, name: str, *arguments: object) -> Any:
        """Have a call made and return its result.

        Raises:
            Refused: if it raised `HostCallError`.
        """
        return self.begin(name, *arguments).result(_LIMIT_S)

    def _read(self, connection: socket.socket) -> None:
        with connection.makefile() as lines:
            for line in lines:
                answer = json.loads(line)
                future = self._answers.pop(answer["number"])
                if "refusal" in answer:
                    future.set_exception(Refused(*answer["refusal"]))
                elif "mistake" in answer:
                    future.set_exception(AssertionError(answer["mistake"]))
                else:
                    future.set_result(answer["result"])
