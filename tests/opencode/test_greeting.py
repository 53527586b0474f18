import json
from typing import Any

import pytest

from fallback_plugin.opencode.greeting import Greeting, RefusedError, read_greeting, refuse, welcome
from fallback_plugin.opencode.handshake import USUAL_ANSWER, USUAL_START


def first_line(**params: object) -> bytes:
    given: dict[str, Any] = {
        "protocolVersion": 1,
        "host": {"name": "opencode", "version": None, "kind": "tui"},
        "directory": "/project",
        **params,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": given}
    return json.dumps(message, separators=(",", ":")).encode()


def test_a_greeting_says_who_the_host_is_and_where_it_works() -> None:
    assert read_greeting(first_line(worktree="/repository", bridge="0.1.0")) == Greeting(
        request_id=1,
        name="opencode",
        kind="tui",
        directory="/project",
        worktree="/repository",
        bridge_version="0.1.0",
    )


def test_P3_an_editors_agent_is_a_kind_of_its_own() -> None:
    assert read_greeting(first_line(host={"name": "opencode", "kind": "acp"})).kind == "acp"


def test_a_kind_of_host_from_the_future_counts_as_a_server() -> None:
    assert read_greeting(first_line(host={"name": "opencode", "kind": "hologram"})).kind == "serve"


def test_the_quick_answer_is_the_one_that_the_parsed_line_gets() -> None:
    line = first_line()
    assert line.startswith(USUAL_START)
    assert welcome(read_greeting(line)) == USUAL_ANSWER


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello", "JSON-RPC request"),
        (b'{"method":"initial', "JSON-RPC request"),
        (b"[]", "'initialize'"),
        (b'{"jsonrpc":"2.0","id":1,"method":"event"}', "'initialize'"),
        (b'{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":1}}', "'initialize'"),
        (first_line(protocolVersion=2), "speaks protocol 1, the bridge file 2"),
        (first_line(protocolVersion=None), "the bridge file None"),
        (first_line(directory=""), "'directory'"),
    ],
)
def test_any_other_first_line_is_refused_with_words(line: bytes, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        read_greeting(line)


def test_a_refusal_is_a_json_rpc_error_with_the_id_of_the_request() -> None:
    with pytest.raises(RefusedError) as refused:
        read_greeting(first_line(protocolVersion=7))
    answer = json.loads(refuse(refused.value))
    assert answer["id"] == 1
    assert answer["error"]["code"] == -32602
