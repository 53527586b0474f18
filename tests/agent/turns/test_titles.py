from pathlib import Path

import pytest

from fallback_plugin.agent.turns.titles import MAX_TITLE, suggested_title
from tests.agent.turns.stage import FIRST, stage
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Reply, status, stream

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("reply", "title"),
    [
        (stream('"Making', ' tea"\n'), "Making tea"),
        (stream("x" * 500), "x" * MAX_TITLE),
        (status(429), None),
        (stream(), None),
    ],
)
async def test_a_title_is_suggested_or_nothing_is_said(
    provider: ScriptedProvider, tmp_path: Path, reply: Reply, title: str | None
) -> None:
    provider.script("first", reply)
    async with stage(provider, tmp_path) as on:
        assert await suggested_title(on.providers, FIRST, "ses_1", "make tea") == title
