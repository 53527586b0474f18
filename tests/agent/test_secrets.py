"""Secrets of the environment stay out of the environment of a model's commands."""

import os
from pathlib import Path

import pytest

from fallback_plugin.agent.secrets import secret_variables
from fallback_plugin.settings import Settings
from tests.agent.whole_host import complete, new_session, running_host, settings_for
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream, tool_call

SECRETS = {
    "OPENCODE_SERVER_PASSWORD": "the-password",
    "MY_KEY": "sk-the-key",
    "MY_REDIS": "redis://:the-redis@127.0.0.1:1/0",
    "FALLBACK_PLUGIN__HEALTH__URL": "redis://:another@127.0.0.1:1/0",
}
TABLES = {
    "health": {"url_env": "MY_REDIS"},
    "providers": {"p": {"api_key_env": "MY_KEY"}, "q": {}},
}


def test_H11_what_the_settings_name_is_secret_and_so_is_our_own() -> None:
    settings = Settings.model_validate(TABLES)

    assert secret_variables(settings, SECRETS) == frozenset(SECRETS)
    assert secret_variables(Settings(), {}) >= {"OPENCODE_SERVER_PASSWORD"}


def test_H11_a_copy_under_another_name_is_secret_too() -> None:
    environ = {**SECRETS, "OPENAI_API_KEY": "sk-the-key", "PATH": "/bin", "EMPTY": ""}

    hidden = secret_variables(Settings.model_validate(TABLES), environ)

    assert "OPENAI_API_KEY" in hidden
    assert not hidden & {"PATH", "EMPTY"}


def test_H11_a_short_secret_hides_nothing_else() -> None:
    hidden = secret_variables(Settings(), {"OPENCODE_SERVER_PASSWORD": "1", "SHLVL": "1"})

    assert "SHLVL" not in hidden


@pytest.mark.anyio
async def test_H11_a_command_of_the_model_sees_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HARMLESS", "seen")
    with ScriptedProvider({"first": [tool_call("bash", {"command": "env"}), stream("Done.")]}) as provider:
        settings = settings_for(provider, permissions={"bash": "allow"}, health=TABLES["health"])
        fake = settings.providers["fake"].model_copy(update={"api_key_env": "MY_KEY"})
        settings = settings.model_copy(update={"providers": {"fake": fake}})
        async with running_host(tmp_path, settings, environ=os.environ) as host:
            session = await new_session(host)
            assert (await complete(host, session)).outcome == "completed"
            history = await host.history(session)

    (output,) = [
        part["state"]["output"] for stored in history for part in stored["parts"] if part["type"] == "tool"
    ]
    assert "HARMLESS=seen" in output
    assert [name for name in (*SECRETS, *SECRETS.values()) if name in output] == []
    assert provider.requests("first")[0].headers["authorization"] == "Bearer sk-the-key"
