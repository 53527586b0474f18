"""What keeps models from being asked: a key that is missing here, a provider or a model that is not set."""

from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from fallback_plugin.agent.http.guard import Rules
from fallback_plugin.agent.http.server import listening, url_of
from fallback_plugin.agent.unusable_models import HOW_TO_NAME_ONE, model_problems
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.health.opening import open_health
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from tests.agent.test_changed_settings import serving
from tests.agent.whole_host import complete, new_session, running_host, served, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream

WITHOUT_KEY: Final = ModelRef("acme", "large")
NO_KEY: Final = "the environment variable ACME_KEY holds no key"


def problems(environ: dict[str, str] | None = None, **tables: Any) -> list[str]:
    return list(model_problems(Settings.model_validate(tables), environ or {}))


def acme(**more: Any) -> dict[str, Any]:
    values = {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "ACME_KEY", "models": ["large"]}
    return {"acme": {**values, **more}}


def test_a_missing_key_is_said_with_its_variable() -> None:
    assert problems(providers=acme()) == [f"[providers.acme]: {NO_KEY}; its models are passed over"]
    assert problems({"ACME_KEY": "x"}, providers=acme()) == []


@pytest.mark.parametrize("providers", [{}, acme(models=[], api_key_env=None), acme(base_url=None)])
def test_a_host_without_any_model_says_what_to_set(providers: dict[str, Any]) -> None:
    (problem,) = problems(providers=providers)

    assert problem.startswith("no model can be asked: ")
    assert "[providers.<id>]" in problem
    assert "[serve] model" in problem


@pytest.mark.parametrize("model", ["acme/other", "other/large"])
def test_a_first_choice_that_is_not_set_is_said(model: str) -> None:
    provider = model.partition("/")[0]
    found = problems({"ACME_KEY": "x"}, providers=acme(), serve={"model": model})

    assert found == [f"[serve] model: {model} is not in [providers.{provider}] models"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model", "reason"),
    [(WITHOUT_KEY, f"acme: {NO_KEY}"), (ModelRef("fake", "gone"), "Model not found: fake/gone")],
)
async def test_a_key_or_a_model_that_is_missing_here_closes_nothing_for_others(
    provider: ScriptedProvider, tmp_path: Path, model: ModelRef, reason: str
) -> None:
    provider.script("first", stream("Here."))
    settings = with_acme(provider, tmp_path)
    async with running_host(tmp_path, settings, {"fallback": FallbackPlugin()}) as host:
        session = await new_session(host)
        run = await complete(host, session, model=model)
        (note,) = (await host.history(session))[-1]["info"]["fallbacks"]

    assert run.outcome == "completed"
    assert note["message"].startswith(reason)
    assert closed(settings) == []


@pytest.mark.anyio
async def test_serve_says_at_its_start_what_cannot_be_asked_and_names_it_to_who_asks(
    provider: ScriptedProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listening("127.0.0.1", 0)
    async with (
        serving(listener, provider, tmp_path, text="[providers]\n"),
        httpx2.AsyncClient(base_url=url_of(listener)) as http,
    ):
        said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        session = (await http.post("/session", json={})).json()["id"]
        parts = [{"type": "text", "text": "hello"}]
        refused = await http.post(f"/session/{session}/message", json={"parts": parts})

    assert said == [f"no model can be asked: {HOW_TO_NAME_ONE}"]
    assert refused.status_code == 400
    assert f"no model: name one in the prompt, or {HOW_TO_NAME_ONE}" in refused.text


@pytest.mark.anyio
async def test_serve_says_at_its_start_whose_key_is_missing(
    provider: ScriptedProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = (
        '[providers.acme]\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "ACME_KEY"\nmodels = ["large"]\n'
    )
    async with serving(listening("127.0.0.1", 0), provider, tmp_path, more=more):
        said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]

    assert said == [f"[providers.acme]: {NO_KEY}; its models are passed over"]


@pytest.mark.anyio
async def test_models_that_cannot_be_asked_are_passed_over_with_the_reason(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", status(429))
    settings = with_acme(provider, tmp_path, chain=["acme/large", "elsewhere/m", "fake/first"])
    async with running_host(tmp_path, settings, {"fallback": FallbackPlugin()}) as host:
        session = await new_session(host)
        await complete(host, session)
        async with served(host, Rules()) as http:
            (chain,) = (await http.get("/health")).json()["chains"]
        error = (await host.history(session))[-1]["info"]["error"]["data"]["message"]

    assert f"acme/large: not asked, {NO_KEY}" in error.splitlines()
    assert (
        "elsewhere/m: not asked, [providers.elsewhere] is not set, or has no base_url" in error.splitlines()
    )
    assert [(each["state"], each.get("reason")) for each in chain["models"]] == [
        ("unavailable", NO_KEY),
        ("unavailable", "[providers.elsewhere] is not set, or has no base_url"),
        ("closed", "rate_limit"),
    ]


def with_acme(provider: ScriptedProvider, folder: Path, chain: list[str] | None = None) -> Settings:
    fake = {"base_url": provider.url, "models": ["first", "second"]}
    return settings_for(
        provider,
        providers={"fake": fake, **acme()},
        fallback={"fallback_models": ["fake/first"] if chain is None else chain},
        health={"file": str(folder / "health.sqlite3")},
    )


def closed(settings: Settings) -> list[Any]:
    store = open_health(settings.health, {}, on_trouble=pytest.fail)
    try:
        return list(store.view(0.0).entries())
    finally:
        store.shut()
