"""What is counted, as Prometheus reads it."""

import re
from typing import Final

import anyio
import pytest
from anyio.abc import SocketAttribute
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.attach.counted_calls import CountedCalls
from fallback_plugin.attach.metrics import CONTENT_TYPE, ServerCounts, exposition
from fallback_plugin.attach.metrics_server import answer
from fallback_plugin.errors import HostCallError
from fallback_plugin.wire.toast import Toast
from tests.plugins.fake_calls import FakeCalls

SAMPLE: Final = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\d+)')
COMMENT: Final = re.compile(r"# (HELP|TYPE) (\w+) .+")


def some_counts() -> ServerCounts:
    counts = ServerCounts("http://a:1", attached=True, events=7, reconnects=2)
    counts.calls.update({"abort": 2, "prompt": 1})
    counts.failed_calls.update({"abort": 1})
    for decision in ("switched", "switched", "exhausted", "gave up", "dispatched"):
        counts.decided(decision)
    return counts


def test_every_figure_is_a_line() -> None:
    lines = exposition([some_counts()]).splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        'fallback_plugin_attached{server="http://a:1"} 1',
        'fallback_plugin_events_total{server="http://a:1"} 7',
        'fallback_plugin_reconnects_total{server="http://a:1"} 2',
        'fallback_plugin_calls_total{server="http://a:1",call="abort"} 2',
        'fallback_plugin_calls_total{server="http://a:1",call="prompt"} 1',
        'fallback_plugin_failed_calls_total{server="http://a:1",call="abort"} 1',
        'fallback_plugin_switches_total{server="http://a:1"} 2',
        'fallback_plugin_exhausted_total{server="http://a:1"} 1',
        'fallback_plugin_gave_up_total{server="http://a:1"} 1',
    ]


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=3, unique=True))
def test_any_server_makes_well_formed_text(names: list[str]) -> None:
    text = exposition([ServerCounts(name) for name in names])

    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        assert (COMMENT if line.startswith("#") else SAMPLE).fullmatch(line), line


def test_a_family_is_described_once_before_its_samples() -> None:
    lines = exposition([ServerCounts("a"), ServerCounts("b")]).splitlines()

    for position, line in enumerate(lines):
        if line.startswith("# TYPE"):
            name, kind = line.split()[2:]
            assert lines[position - 1].startswith(f"# HELP {name} ")
            assert kind == ("counter" if name.endswith("_total") else "gauge")
    assert len({line for line in lines if line.startswith("#")}) == sum(
        line.startswith("#") for line in lines
    )


@pytest.mark.anyio
async def test_calls_are_counted_and_handed_on() -> None:
    counts, fake = ServerCounts("a"), FakeCalls(kind="attach")
    calls = CountedCalls(fake, counts)

    await calls.abort("ses_1")
    await calls.session("ses_1")
    await calls.messages("ses_1")
    await calls.models()
    await calls.revert("ses_1", "msg_1")
    await calls.unrevert("ses_1")
    await calls.delete_message("ses_1", "msg_1")
    fake.is_gone = True
    with pytest.raises(HostCallError):
        await calls.toast(Toast(title="T", message="M"))

    assert (calls.kind, calls.directory) == ("attach", "/project")
    assert [name for name, _ in fake.calls] == [
        "abort",
        "session",
        "messages",
        "models",
        "revert",
        "unrevert",
        "delete_message",
    ]
    assert set(counts.calls.values()) == {1}
    assert counts.failed_calls == {"toast": 1}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("request_text", "status", "content"),
    [
        ("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", 200, "figures\n"),
        ("GET /metrics?a=b HTTP/1.1\r\n\r\n", 200, "figures\n"),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", 200, ""),
        ("GET / HTTP/1.1\r\n\r\n", 404, "only /metrics is here\n"),
        ("POST /metrics HTTP/1.1\r\n\r\n", 405, "only GET\n"),
        ("\r\n\r\n", 405, "only GET\n"),
    ],
)
async def test_the_figures_are_served(request_text: str, status: int, content: str) -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, lambda stream: answer(stream, lambda: "figures\n"))
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 -- no database here
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            await client.send(request_text.encode())
            received = b"".join([piece async for piece in client])
        tasks.cancel_scope.cancel()

    head, _, body = received.decode().partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert body == content
    assert (f"content-type: {CONTENT_TYPE}" in head) is (status == 200)
