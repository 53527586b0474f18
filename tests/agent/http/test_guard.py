"""What is refused before a call is looked at, played against the bare ASGI interface."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest

from fallback_plugin.agent.http.guard import Guard, Message, Receive, Rules, Send

pytestmark = pytest.mark.anyio

HERE = {"host": "localhost:4096"}


class Served:
    """Plays the server around a guard: sends it the pieces of a body and takes down what it answers."""

    def __init__(self, rules: Rules) -> None:
        self.bodies: list[bytes] = []
        self.sent: list[Message] = []
        self.query = b""
        self._guard = Guard(self._app, rules)

    async def _app(self, scope: Message, receive: Receive, send: Send) -> None:
        del scope
        self.bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def call(self, headers: Mapping[str, str], pieces: Sequence[bytes] = (b"",)) -> int:
        """Make a call; after the last piece the client says no more. Return the status."""
        waiting = list(pieces)

        async def receive() -> Message:
            if not waiting:
                await anyio.sleep_forever()
            piece = waiting.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(waiting) or piece == b"more"}

        async def send(message: Message) -> None:
            self.sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._guard({"type": "http", "headers": raw, "query_string": self.query}, receive, send)
        status = self.sent[0]["status"]
        assert isinstance(status, int)
        return status


def basic(user: str, password: str) -> dict[str, str]:
    return HERE | {"authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:1",
        "127.0.0.1:4096",
        "[::1]:4096",
        "192.168.1.7:4096",
        "LOCALHOST",
        "build.lan:1",
    ],
)
async def test_a_server_is_called_by_its_own_names_and_by_addresses(host: str) -> None:
    assert await Served(Rules(host_names=frozenset({"build.lan"}))).call({"host": host}) == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example:4096", "127.0.0.1.evil.example", "[", "a:b:c"]
)
async def test_another_name_is_turned_away(host: str) -> None:
    served = Served(Rules())

    assert await served.call({"host": host}) == 421
    assert served.bodies == []


async def test_a_page_of_another_site_may_not_call() -> None:
    served = Served(Rules())

    assert await served.call(HERE | {"origin": "http://evil.example"}) == 403
    assert served.bodies == []


@pytest.mark.parametrize("origin", ["null", "http://localhost:4097", "http://["])
async def test_nor_may_one_of_another_port_or_of_none(origin: str) -> None:
    assert await Served(Rules()).call(HERE | {"origin": origin}) == 403


async def test_the_servers_own_page_may() -> None:
    assert await Served(Rules()).call(HERE | {"origin": "http://localhost:4096"}) == 200


async def test_the_password_is_asked_for_the_way_opencode_does() -> None:
    served = Served(Rules(password="open sesame"))

    assert await served.call(HERE) == 401
    assert (b"www-authenticate", b'Basic realm="Secure Area"') in served.sent[0]["headers"]
    assert served.sent[1]["body"] == b""


@pytest.mark.parametrize(
    "authorization", ["Basic", "Basic !", "Bearer b3BlbmNvZGU6b3BlbiBzZXNhbWU=", "Basic b3BlbmNvZGU6b3Blbg=="]
)
async def test_anything_else_is_no_password(authorization: str) -> None:
    assert await Served(Rules(password="open sesame")).call(HERE | {"authorization": authorization}) == 401


async def test_user_and_password_let_in() -> None:
    rules = Rules(password="pässword")

    assert await Served(rules).call(basic("opencode", "pässword")) == 200
    assert await Served(rules).call(basic("somebody", "pässword")) == 401


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("auth_token=b3BlbmNvZGU6Pj4+Pw==", 200),
        ("directory=x&auth_token=b3BlbmNvZGU6Pj4%2BPw%3D%3D", 200),
        ("auth_token=b3BlbmNvZGU6Pw==", 401),
        ("auth_token=!", 401),
        ("auth_token=", 401),
    ],
)
async def test_both_may_stand_in_the_query(query: str, status: int) -> None:
    served = Served(Rules(password=">>>?"))
    served.query = query.encode()

    assert await served.call(HERE) == status


async def test_a_header_counts_before_the_query() -> None:
    served = Served(Rules(password=">>>?"))
    served.query = b"auth_token=b3BlbmNvZGU6Pj4+Pw=="

    assert await served.call(basic("opencode", "another")) == 401


async def test_a_body_is_handed_over_whole() -> None:
    served = Served(Rules())

    assert await served.call(HERE, [b"one ", b"two ", b"three"]) == 200
    assert served.bodies == [b"one two three"]


@pytest.mark.parametrize(
    ("headers", "pieces"),
    [
        ({"content-length": "11"}, [b"more"]),
        ({}, [b"01234", b"56789", b"x", b"more"]),
        ({"content-length": "3"}, [b"01234", b"56789x", b"more"]),
    ],
)
async def test_a_body_that_is_too_long_is_refused(
    headers: Mapping[str, str], pieces: Sequence[bytes]
) -> None:
    served = Served(Rules(largest_body=10, body_within_s=1))

    assert await served.call(HERE | dict(headers), pieces) == 413
    assert served.bodies == []


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    served = Served(Rules(body_within_s=0))

    assert await served.call(HERE, [b"more"]) == 408
    assert served.bodies == []


async def test_other_kinds_of_connections_pass() -> None:
    seen: list[Any] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        del receive, send
        seen.append(scope["type"])

    async def nothing(*_: object) -> Any:
        raise AssertionError

    await Guard(app, Rules())({"type": "lifespan"}, nothing, nothing)

    assert seen == ["lifespan"]
