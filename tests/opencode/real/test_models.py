"""What the real OpenCode knows of its models, through the bridge and over HTTP, and what it does with it."""

import json
from dataclasses import asdict
from typing import Any, Final

import pytest

from fallback_plugin.opencode.http_client import connect
from fallback_plugin.wire.model_catalog import ModelCatalog, ModelFacts
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import SMALL_MODEL, ScriptedProvider
from tests.loopback.reply import stream
from tests.opencode.real.conftest import StartServer

pytestmark = pytest.mark.real_host

KEY: Final = "a key that must not leave the host"
MODELS: Final = {
    "seeing": {
        "tool_call": False,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 200_000, "input": 150_000, "output": 8_000},
        "cost": {"input": 1.5, "output": 6},
    },
    "undescribed": {},
    SMALL_MODEL: {},
}
PLUGIN: Final = """
import json
from dataclasses import asdict

from fallback_plugin import Toast, hookimpl


async def tell(host):
    catalog = await host.models()
    await host.toast(Toast(title="Models", message=json.dumps(asdict(catalog))))


@hookimpl
def host_started(host):
    host.start_soon(tell, host)
"""
PICTURE: Final = {
    "type": "file",
    "mime": "image/png",
    "filename": "dot.png",
    "url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",  # noqa: E501
}


@pytest.fixture(scope="module")
def server(
    start_server: StartServer, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> OpenCodeServer:
    for model in MODELS:
        provider.script(model, stream("Seen."))
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "tells_the_models.py").write_text(PLUGIN)
    described = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": provider.url, "apiKey": KEY},
        "models": MODELS,
    }
    return start_server(
        models={"known": list(MODELS), "switched-off": ["any"]},
        settings=f'[plugins]\nblock = ["fallback"]\ndirs = ["{folder}"]\n',
        config={
            "provider": {"known": described, "switched-off": described},
            "disabled_providers": ["switched-off"],
        },
    )


def test_a_plugin_learns_of_the_connected_providers_models(server: OpenCodeServer) -> None:
    server.create_session()

    told = server.events.wait_for_toast()["message"]

    (models,) = json.loads(told)["providers"].values()
    assert models["seeing"] == asdict(
        ModelFacts(
            context_tokens=150_000,
            output_tokens=8_000,
            images=True,
            tools=False,
            input_price=1.5,
            output_price=6,
        )
    )
    # What nobody described the host takes for a model of text and tools.
    assert models["undescribed"] == asdict(ModelFacts(images=False, tools=True))
    assert KEY not in server.home.plugin_log_file.read_text()


@pytest.mark.anyio
async def test_over_http_the_list_is_the_same(server: OpenCodeServer) -> None:
    server.create_session()
    told = json.loads(server.events.wait_for_toast()["message"])

    async with connect(server.url, directory=str(server.home.directory)) as client:
        catalog: ModelCatalog = await client.models()

    assert asdict(catalog) == told


@pytest.mark.parametrize(("model", "sees"), [("seeing", True), ("undescribed", False)])
def test_the_host_sends_images_only_to_models_that_take_them(
    server: OpenCodeServer, provider: ScriptedProvider, model: str, *, sees: bool
) -> None:
    session = server.create_session()

    parts: list[Any] = [{"type": "text", "text": "What is this?"}, PICTURE]
    server.prompt(session, "", f"known/{model}", parts=parts)

    server.wait_for_answer(session, "Seen.")
    (request,) = provider.requests(model, session=session)
    assert ("image_url" in json.dumps(request.body["messages"])) is sees
