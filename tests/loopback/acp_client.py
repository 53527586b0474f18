"""An editor of the Agent Client Protocol: JSON-RPC over an agent's stdio, all of it recorded."""

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self, TypeAlias

from tests.loopback.opencode_home import OpenCodeHome

Raw: TypeAlias = Mapping[str, Any]

PROMPT: Final = "Who answers?"

_LIMIT_S: Final = 40.0
_EXIT_LIMIT_S: Final = 10.0
_CAPABILITIES: Final = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


@dataclass(frozen=True, slots=True)
class Reply:
    """An agent's answer to a request, and how many messages it had sent before that."""

    message: Raw
    position: int

    @property
    def stop_reason(self) -> str | None:
        """Why a prompt ended; None if it failed."""
        reason: str | None = self.message.get("result", {}).get("stopReason")
        return reason

    @property
    def error(self) -> str:
        """The message of the JSON-RPC error, empty if there is none."""
        return str(self.message.get("error", {}).get("message", ""))


class AcpClient:
    """Start an agent and speak to it as an editor does.

    ``choose`` names the kind of option that permission requests are answered with, None to leave them open.
    """

    def __init__(
        self, command: Sequence[str | Path], home: OpenCodeHome, *, choose: str | None = "allow_once"
    ) -> None:
        self.home: Final = home
        self._command: Final = command
        self._choose: Final = choose
        self._received: list[Raw] = []
        self._waiting: dict[int, Future[Reply]] = {}
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._next_id = 0
        self._reader = threading.Thread(target=self._read, name="acp-client", daemon=True)

    def __enter__(self) -> Self:
        """Start the agent and agree on the protocol."""
        self._output: IO[bytes] = self.home.output_file.open("ab")
        self._process = subprocess.Popen(
            self._command,
            env=self.home.environment,
            cwd=self.home.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
        )
        self._reader.start()
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": _CAPABILITIES})
        return self

    def __exit__(self, *_: object) -> None:
        """Leave as an editor does, by closing the pipe."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_EXIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._output.close()

    def call(self, method: str, params: Raw, *, timeout_s: float = _LIMIT_S) -> Raw:
        """Make a request and return its result."""
        reply = self.request(method, params).result(timeout_s)
        if "error" in reply.message:
            raise AssertionError(f"{method} was refused: {reply.message['error']}")
        result: Raw = reply.message["result"]
        return result

    def request(self, method: str, params: Raw) -> Future[Reply]:
        """Make a request; its reply comes in the future."""
        reply, message = self._prepared(method, params)
        self._send(message)
        return reply

    def new_session(self, model: str) -> str:
        """Begin a session in the project folder on a model, ``provider/model``."""
        result = self.call("session/new", {"cwd": str(self.home.directory), "mcpServers": []})
        session: str = result["sessionId"]
        self.set_option(session, "model", model)
        return session

    def load_session(self, session: str) -> list[Raw]:
        """Load a session and return the updates its history is shown with."""
        before = self.position
        self.call("session/load", {"sessionId": session, "cwd": str(self.home.directory), "mcpServers": []})
        return self.updates(session, since=before)

    def set_option(self, session: str, option: str, value: str) -> None:
        """Choose a model or a mode."""
        self.call("session/set_config_option", {"sessionId": session, "configId": option, "value": value})

    def prompt(self, session: str, text: str = PROMPT) -> Future[Reply]:
        """Prompt a session; the reply comes when the agent has ended the turn."""
        reply, message = self._prepared("session/prompt", _prompt(session, text))
        self._send(message)
        return reply

    def prompt_twice(self, session: str) -> tuple[Future[Reply], Future[Reply]]:
        """Send two prompts in one write."""
        first, one = self._prepared("session/prompt", _prompt(session, PROMPT))
        second, other = self._prepared("session/prompt", _prompt(session, PROMPT))
        self._send(one, other)
        return first, second

    def cancel(self, session: str) -> None:
        """Stop the turn of a session."""
        self._send(_cancel(session))

    def cancel_and_prompt(self, session: str) -> Future[Reply]:
        """Stop the turn of a session and prompt it, in one write."""
        reply, message = self._prepared("session/prompt", _prompt(session, PROMPT))
        self._send(_cancel(session), message)
        return reply

    @property
    def position(self) -> int:
        """How many messages came from the agent."""
        return len(self._received)

    def received(self, since: int = 0, until: int | None = None) -> list[Raw]:
        """Return the agent's messages from one position up to another."""
        with self._changed:
            return self._received[since:until]

    def updates(self, session: str, *, since: int = 0, until: int | None = None) -> list[Raw]:
        """Return what the agent showed of a session."""
        return [
            message["params"]["update"]
            for message in self.received(since, until)
            if message.get("method") == "session/update" and message["params"]["sessionId"] == session
        ]

    def text(self, session: str, *, since: int = 0, until: int | None = None) -> str:
        """Return the text of the answers that an editor has shown of a session."""
        return "".join(
            update["content"]["text"]
            for update in self.updates(session, since=since, until=until)
            if update["sessionUpdate"] == "agent_message_chunk"
        )

    def wait_for(self, wanted: Callable[[Raw], bool], *, since: int = 0, timeout_s: float = _LIMIT_S) -> Raw:
        """Return the first message of the agent from ``since`` on for which ``wanted`` is true."""
        found: list[Raw] = []

        def look() -> bool:
            found.extend(message for message in self._received[since:] if wanted(message))
            return bool(found)

        with self._changed:
            if not self._changed.wait_for(look, timeout_s):
                raise AssertionError(f"not within {timeout_s} s; since then came {self._received[since:]}")
        return found[0]

    def wait_for_text(self, session: str, text: str, *, since: int = 0) -> None:
        """Wait until an editor has shown a text of a session."""
        self.wait_for(lambda _: text in self._shown(session, since), since=since)

    def _shown(self, session: str, since: int) -> str:
        return "".join(
            message["params"]["update"]["content"]["text"]
            for message in self._received[since:]
            if message.get("method") == "session/update"
            and message["params"]["sessionId"] == session
            and message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        )

    def _prepared(self, method: str, params: Raw) -> tuple[Future[Reply], Raw]:
        """Return a request that is to be sent, and where its reply comes."""
        reply: Future[Reply] = Future()
        with self._changed:
            self._next_id += 1
            number = self._next_id
            self._waiting[number] = reply
        return reply, {"id": number, "method": method, "params": params}

    def _send(self, *messages: Raw) -> None:
        assert self._process.stdin is not None
        lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
        with self._writing:
            self._process.stdin.write(b"".join(lines))
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: Raw = json.loads(line)
            with self._changed:
                reply = None if "method" in message else self._waiting.pop(message["id"], None)
                if reply is not None:
                    reply.set_result(Reply(message, len(self._received)))
                self._received.append(message)
                self._changed.notify_all()
            if "method" in message and "id" in message:
                self._answer(message)
        with self._changed:
            for reply in self._waiting.values():
                reply.set_exception(AssertionError("the agent has ended"))
            self._waiting.clear()

    def _answer(self, request: Raw) -> None:
        """Answer a permission request; nothing else was offered to the agent."""
        if request["method"] != "session/request_permission":
            self._send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        elif self._choose is not None:
            options = request["params"]["options"]
            chosen = next(option["optionId"] for option in options if option["kind"] == self._choose)
            self._send(
                {"id": request["id"], "result": {"outcome": {"outcome": "selected", "optionId": chosen}}}
            )


def _prompt(session: str, text: str) -> Raw:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def _cancel(session: str) -> Raw:
    return {"method": "session/cancel", "params": {"sessionId": session}}
