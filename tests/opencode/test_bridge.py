"""The bridge process from its first line to its last, as a host sees it."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.opencode.bridge_process import BridgeProcess, bridge_process

pytestmark = pytest.mark.timeout(30)

WATCHER = """
    from fallback_plugin import ModelRef, Toast, hookimpl

    @hookimpl
    async def settings_changed(settings, host):
        chain = [str(model) for agent in settings.agents.values() for model in agent.fallback_models]
        text = f"attempts {settings.fallback.max_attempts} {chain}"
        await host.toast(Toast(title="settings", message=text))

    @hookimpl
    async def session_idle(event, host):
        print("a stray line on stdout")
        await host.toast(Toast(title="idle", message=f"idle {event.session_id} {event.sequence}"))

    @hookimpl
    async def message_part_updated(event, host):
        await host.toast(Toast(title="part", message=f"part {len(event.part.text)}"))

    @hookimpl
    def chat_message(request, host):
        return ModelRef("q", "other") if request.model == ModelRef("p", "primary") else None
"""


COLLECTOR = """
    import gc
    from fallback_plugin import Toast, hookimpl

    @hookimpl
    async def host_started(host):
        await host.toast(Toast(title="at start", message=f"collects {gc.isenabled()}"))

    @hookimpl
    async def session_idle(event, host):
        kept = "much" if gc.get_freeze_count() > len(gc.get_objects()) else "little"
        await host.toast(Toast(title="later", message=f"collects {gc.isenabled()}, leaves out {kept}"))
"""


def write_user_file(home: Path, text: str) -> None:
    file = home / "config" / "fallback-plugin" / "fallback.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose only plugin is `WATCHER`."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "watcher.py").write_text(dedent(WATCHER))
    return tmp_path


@pytest.fixture
def bridge(home: Path) -> Iterator[BridgeProcess]:
    environ = {
        "FALLBACK_PLUGIN_BLOCK": "fallback",
        "FALLBACK_PLUGIN__PLUGINS__DIRS": f'["{home / "plugins"}"]',
    }
    with bridge_process(home, **environ) as process:
        yield process


def ready(bridge: BridgeProcess) -> None:
    bridge.greet()
    assert bridge.toast() == "attempts 10 []"
    bridge.until("subscribe")


def test_the_handshake_comes_first_and_the_subscriptions_follow(bridge: BridgeProcess) -> None:
    assert bridge.greet()["result"]["server"]["name"] == "fallback-plugin"
    bridge.toast()
    assert bridge.until("subscribe")["params"] == {
        "events": ["message.part.updated", "session.idle"],
        "questions": ["chat.message"],
        "sampled": {},
        "switching": "auto",
    }


def test_garbage_is_looked_for_once_the_bridge_is_ready_and_not_in_what_its_start_made(
    home: Path, bridge: BridgeProcess
) -> None:
    (home / "plugins" / "watcher.py").write_text(dedent(COLLECTOR))
    bridge.greet()
    assert bridge.toast() == "collects False"
    bridge.until("subscribe")

    bridge.event(1, "session.idle", sessionID="ses_1")

    assert bridge.toast() == "collects True, leaves out much"


def test_another_protocol_version_is_refused_with_words_and_exit_status_2(bridge: BridgeProcess) -> None:
    answer = bridge.greet(version=2)
    assert "speaks protocol 1" in answer["error"]["message"]
    assert bridge.leave() == 2


def test_a_first_line_that_is_no_handshake_is_refused(bridge: BridgeProcess) -> None:
    bridge.write(b"GET / HTTP/1.1\r\n")
    assert "fallback-plugin install opencode" in bridge.receive()["error"]["message"]
    assert bridge.leave() == 2


def test_a_host_that_leaves_before_its_first_line_is_no_error(bridge: BridgeProcess) -> None:
    assert bridge.leave() == 0


def test_a_host_may_leave_while_plugins_are_loaded(bridge: BridgeProcess) -> None:
    bridge.greet()
    assert bridge.leave() == 0


def test_the_end_of_input_ends_the_process(bridge: BridgeProcess) -> None:
    ready(bridge)
    bridge.write(b'{"jsonrpc":"2.0","method":"ev')
    assert bridge.leave() == 0


def test_an_event_reaches_plugins_with_its_number_and_a_stray_print_does_no_harm(
    bridge: BridgeProcess,
) -> None:
    ready(bridge)
    bridge.event(7, "session.idle", sessionID="ses_1")
    assert bridge.toast() == "idle ses_1 7"


def test_events_and_lines_that_make_no_sense_are_ignored(bridge: BridgeProcess) -> None:
    ready(bridge)
    bridge.event(1, "session.idle")
    bridge.event(2, "from.the.future", sessionID="ses_1")
    bridge.send({"method": "event", "params": {"event": 3}})
    bridge.send({"method": "unknown"})
    bridge.write(b"nonsense\n\n\xff\n")
    bridge.event(3, "session.idle", sessionID="ses_1")
    assert bridge.toast() == "idle ses_1 3"


def test_an_event_of_ten_megabytes_arrives_whole(bridge: BridgeProcess) -> None:
    ready(bridge)
    text = "x" * 10_000_000
    part = {"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "text", "text": text}
    bridge.event(1, "message.part.updated", part=part)
    assert bridge.toast() == "part 10000000"


def test_a_prompt_is_redirected_by_the_plugin_that_answers(bridge: BridgeProcess) -> None:
    ready(bridge)
    model = {"providerID": "p", "modelID": "primary"}
    answer = bridge.ask("chat.message", sessionID="ses_1", model=model)
    assert answer["result"] == {"model": {"providerID": "q", "modelID": "other"}}


@pytest.mark.parametrize(
    ("question", "code"),
    [("chat.message", -32602), ("chat.unheard.of", -32601)],
    ids=["no session", "unknown"],
)
def test_a_question_that_makes_no_sense_is_an_error(bridge: BridgeProcess, question: str, code: int) -> None:
    ready(bridge)
    assert bridge.ask(question)["error"]["code"] == code


def test_chains_of_the_host_take_effect(bridge: BridgeProcess) -> None:
    ready(bridge)
    bridge.send({"method": "config", "params": {"agents": {"build": {"fallback_models": ["p/b"]}}}})
    assert bridge.toast() == "attempts 10 ['p/b']"


def test_a_changed_file_takes_effect_while_running(bridge: BridgeProcess, home: Path) -> None:
    ready(bridge)
    write_user_file(home, "[fallback]\nmax_attempts = 3\n")
    assert bridge.toast() == "attempts 3 []"


def test_the_host_is_told_when_another_way_to_switch_is_set(bridge: BridgeProcess, home: Path) -> None:
    ready(bridge)
    write_user_file(home, '[fallback]\nswitching = "inline"\n')
    assert bridge.until("subscribe")["params"]["switching"] == "inline"


def test_a_broken_file_is_said_and_the_last_good_settings_stay(bridge: BridgeProcess, home: Path) -> None:
    write_user_file(home, "[fallback]\nmax_attempts = 3\n")
    bridge.greet()
    assert bridge.toast() == "attempts 3 []"
    write_user_file(home, "[fallback\n")
    broken = bridge.toast()
    assert "fallback.toml:1:" in broken
    assert "the last good settings stay" in broken


def test_a_file_that_is_broken_from_the_start_is_said_and_does_not_stop_the_bridge(
    bridge: BridgeProcess, home: Path
) -> None:
    write_user_file(home, "max_attempts == 3\n")
    bridge.greet()
    broken = bridge.toast()
    subscribed = bridge.until("subscribe")["params"]
    assert "fallback.toml:1:" in broken
    assert "defaults are used" in broken
    assert subscribed["questions"] == ["chat.message"], "the environment counts all the same"
    log = home / "state" / "fallback-plugin" / "fallback-plugin.log"
    assert "fallback.toml:1:" in log.read_text()


def test_P11_a_fresh_process_takes_what_a_broken_file_held_before(home: Path) -> None:
    environ = {
        "FALLBACK_PLUGIN_BLOCK": "fallback",
        "FALLBACK_PLUGIN__PLUGINS__DIRS": f'["{home / "plugins"}"]',
    }
    write_user_file(home, "[fallback]\nmax_attempts = 3\n")
    with bridge_process(home, **environ) as first:
        first.greet()
        assert first.toast() == "attempts 3 []"
    write_user_file(home, "[fallback]\nmax_attempts == 4\n")

    with bridge_process(home, **environ) as second:
        second.greet()
        said = {second.toast(), second.toast()}
        assert "attempts 3 []" in said
        (broken,) = said - {"attempts 3 []"}
        assert "fallback.toml:2:" in broken
        assert "the last good settings stay" in broken

        # A mended file is taken, and that is said.
        write_user_file(home, "[fallback]\nmax_attempts = 5\n")
        assert {second.toast(), second.toast()} == {"attempts 5 []", "Settings in force."}


def test_plugins_that_cannot_be_loaded_are_named_in_one_toast(bridge: BridgeProcess, home: Path) -> None:
    (home / "plugins" / "broken.py").write_text("raise RuntimeError('broken on purpose')\n")
    bridge.greet()
    told = {bridge.toast(), bridge.toast()}
    assert "attempts 10 []" in told
    assert any("broken" in text for text in told)


def test_at_info_level_the_log_holds_no_text_of_a_prompt(bridge: BridgeProcess, home: Path) -> None:
    ready(bridge)
    part = {"id": "p", "messageID": "m", "sessionID": "s", "type": "text", "text": "my secret prompt"}
    bridge.event(1, "message.part.updated", part=part)
    bridge.event(2, "message.part.updated", part={"text": "my secret prompt"})
    bridge.write(b'{"my secret prompt\n')
    bridge.event(3, "session.idle", sessionID="s")
    bridge.toast()
    bridge.leave()
    log = (home / "state" / "fallback-plugin" / "fallback-plugin.log").read_text()
    assert "not JSON" in log
    assert "secret" not in log
