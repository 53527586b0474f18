"""The plugin as a host sees it: hooks in, calls out."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from anyio.abc import TaskGroup

from fallback_plugin.errors import HostCallError
from fallback_plugin.events import AssistantMessage, HostError, Part, SessionEvent, StoredMessage
from fallback_plugin.fallback.decisions import beside, last_answers, read_decisions
from fallback_plugin.fallback.engine import SESSION_LIFE_S
from fallback_plugin.fallback.plugin import FallbackPlugin
from fallback_plugin.health import MemoryHealth
from fallback_plugin.hookspecs import LastWords, ModelAttempt, PromptRequest, ToolCall, ToolResult
from fallback_plugin.host_client import HostKind, Receipt, SessionInfo
from fallback_plugin.plugins import PluginHost
from fallback_plugin.settings import HealthSettings, ProviderSettings
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.model_catalog import EVERYTHING, ModelCatalog, read_catalog
from fallback_plugin.wire.prompt import Prompt
from fallback_plugin.wire.toast import Toast
from tests.fallback.stage import PRIMARY, A, B, api_error, settings

pytestmark = pytest.mark.anyio


@dataclass
class Host:
    """A host that answers every call at once and keeps what was asked; ``changed`` is set at each call."""

    tasks: TaskGroup
    kind: HostKind = "serve"
    directory: str = "/project"
    aborts: list[str] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    toasts: list[Toast] = field(default_factory=list)
    history: Sequence[StoredMessage] = ()
    catalog: ModelCatalog = EVERYTHING
    abort_error: Exception | None = None
    answers: list[StoredMessage] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    hangs: bool = False
    released: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:  # noqa: ARG002 -- the protocol's
        self.aborts.append(session_id)
        if self.abort_error:
            raise self.abort_error
        return Receipt()

    async def session(self, session_id: str) -> SessionInfo:
        return SessionInfo(id=session_id)

    async def messages(self, session_id: str) -> list[StoredMessage]:  # noqa: ARG002 -- the protocol's
        return list(self.history)

    async def models(self) -> ModelCatalog:
        return self.catalog

    async def prompt(self, session_id: str, prompt: Prompt, *, after: int | None = None) -> Receipt:  # noqa: ARG002 -- the protocol's
        self.prompts.append(prompt)
        return Receipt()

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:  # noqa: ARG002 -- the protocol's
        self.prompts.append(prompt)
        if self.hangs:
            await self.released.wait()
        answer = self.answers.pop(0)
        self.history = [*self.history, answer]
        return answer

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:  # noqa: ARG002 -- the protocol's
        self.given_up.append(session_id)

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message."""

    async def unrevert(self, session_id: str) -> None:
        """Show it again."""

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Delete a message."""

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:  # noqa: ARG002 -- the protocol's
        self.toasts.append(toast)
        self.changed.set()
        self.changed = anyio.Event()

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        self.tasks.start_soon(function, *args)  # type: ignore[arg-type]  # coroutines all the same

    async def toasted(self, count: int) -> None:
        while len(self.toasts) < count:
            await self.changed.wait()


@asynccontextmanager
async def a_host() -> AsyncIterator[Host]:
    async with anyio.create_task_group() as tasks:
        yield Host(tasks)
        tasks.cancel_scope.cancel()


def a_plugin(host: Host, **changes: Any) -> FallbackPlugin:
    plugin = FallbackPlugin(clock=lambda: 1_000.0, health=MemoryHealth())
    plugin.settings_changed(settings(**changes), host)
    return plugin


def event(kind: str, session: str = "ses_1", **properties: Any) -> Any:
    found = read_event({"type": kind, "properties": {"sessionID": session, **properties}})
    assert isinstance(found, SessionEvent)
    return found


def message(number: int, role: str, session: str = "ses_1", **info: Any) -> Any:
    info = {"id": f"msg_{number}", "sessionID": session, "role": role, "agent": "build", **info}
    return event("message.updated", session, info=info)


def begin_turn(plugin: FallbackPlugin, host: Host, session: str = "ses_1") -> None:
    model = {"providerID": PRIMARY.provider, "modelID": PRIMARY.model}
    plugin.message_updated(message(1, "user", session, model=model), host)
    plugin.message_updated(message(2, "assistant", session, parentID="msg_1", **model), host)


LIMITED: Final = ModelAttempt(
    session_id="ses_1",
    message_id="msg_1",
    agent="build",
    host_model=PRIMARY,
    model=PRIMARY,
    tried=(PRIMARY,),
    error=HostError(name="", status_code=429),
    reachable=frozenset({A, B}),
)
"""A request of the turn's that was refused with 429."""


def answer_by_the_next_model(plugin: FallbackPlugin, host: Host) -> None:
    """Let the request of a turn be refused with 429, and the next model answer it."""
    assert plugin.model_attempt_failed(LIMITED, host) == A
    part = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_2", "type": "text", "text": "Hi"}
    plugin.message_part_updated(event("message.part.updated", part=part), host)
    model = {"providerID": PRIMARY.provider, "modelID": PRIMARY.model}
    ended = {"created": 1, "completed": 2}
    plugin.message_updated(
        message(2, "assistant", parentID="msg_1", **model, finish="stop", time=ended), host
    )


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (None, "Set fallback_models in {file}."),
        ("[fallback]", "Set fallback_models in {file}."),
        (
            "[fallback]\nfallback_models = 'p/a, q/b'",
            (
                "The settings are broken and not in force; mend {file}:2:1: fallback.fallback_models[0]: "
                '\'p/a, q/b\' is several models in one string; write a list: ["p/a", "q/b"]'
            ),
        ),
    ],
)
@pytest.mark.parametrize("place", ["user's", "named"])
async def test_without_a_chain_the_file_is_named_that_sets_one_or_is_to_be_mended(
    text: str | None, advice: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / ("fallback-plugin/fallback.toml" if place == "user's" else "other.toml")
    if text is not None or place == "named":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text or "")
    async with a_host() as host:
        host.directory = str(tmp_path / "project")
        plugin = FallbackPlugin(
            clock=lambda: 1_000.0, health=MemoryHealth(), settings_file=file if place == "named" else None
        )
        plugin.settings_changed(settings(()), host)
        plugin.host_started(host)
        begin_turn(plugin, host)
        assert plugin.model_attempt_failed(LIMITED, host) is None
        await host.toasted(1)
    (toast,) = host.toasts
    assert toast.message == f"{PRIMARY}: rate limited (429). {advice.format(file=file)}"


def test_it_implements_the_hooks_it_needs_and_no_others() -> None:
    hooks = {
        name for name in dir(FallbackPlugin) if hasattr(getattr(FallbackPlugin, name), "fallback_plugin_impl")
    }
    assert hooks == {
        "chat_message",
        "background_model",
        "confirm_prompt",
        "host_started",
        "host_stopping",
        "message_activity",
        "message_part_updated",
        "message_removed",
        "message_updated",
        "model_attempt_failed",
        "model_requested",
        "run_ending",
        "session_abort_requested",
        "session_created",
        "session_deleted",
        "session_error",
        "session_idle",
        "session_status",
        "settings_changed",
        "tool_after",
    }


def test_it_comes_with_the_package() -> None:
    host = PluginHost(calls=Host(tasks=None))  # type: ignore[arg-type]  # nothing is started here
    assert host.load(entry_points=False) == ()
    assert [plugin.name for plugin in host.plugins] == ["fallback"]
    assert "message.part.delta" not in host.subscriptions.events


async def test_complaint_51_models_that_the_host_does_not_list_are_said_once_and_passed_over() -> None:
    async with a_host() as host:
        host.catalog = read_catalog(
            {"providers": [{"id": "fake", "models": {"primary": {}}}, {"id": "third", "models": {"b": {}}}]}
        )
        plugin = a_plugin(host)
        plugin.host_started(host)
        await host.toasted(1)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        await host.toasted(2)
        assert [toast.title for toast in host.toasts] == ["Fallback models passed over", "Model fallback"]
        assert "spare/a" in host.toasts[0].message
        assert [prompt.model for prompt in host.prompts] == [B]


async def test_a_model_that_a_change_of_settings_misspells_is_said_once() -> None:
    async with a_host() as host:
        host.catalog = read_catalog({"providers": [{"id": "spare", "models": {"a": {}}}]})
        plugin = a_plugin(host, fallback_models=["spare/a"])
        plugin.host_started(host)
        await anyio.wait_all_tasks_blocked()
        assert host.toasts == []

        for chain in (("spare/b", "spare/a"), ("spare/b",), ("spare/b", "gone/c")):
            plugin.settings_changed(settings(chain), host)
            await anyio.wait_all_tasks_blocked()

        named = [toast.message.removeprefix("Not in the host's list: ") for toast in host.toasts]
        assert [message.partition(". ")[0] for message in named] == ["spare/b", "gone/c"]


async def test_a_provider_that_is_not_connected_is_said_with_the_reason() -> None:
    async with a_host() as host:
        host.catalog = ModelCatalog({"third": {}}, {"spare": "the environment variable KEY holds no key"})
        a_plugin(host).host_started(host)
        await host.toasted(1)
        assert "spare/a (the environment variable KEY holds no key)." in host.toasts[0].message


async def test_what_the_first_failure_would_wait_for_is_done_beside_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[int] = []
    pieces = map(done.append, range(3))
    monkeypatch.setattr("fallback_plugin.fallback.plugin.warm_up", lambda: pieces)
    async with a_host() as host:
        a_plugin(host).host_started(host)
        assert done == []
        await anyio.wait_all_tasks_blocked()
    assert done == [0, 1, 2]


async def test_a_model_of_a_changed_provider_is_not_passed_over() -> None:
    async with a_host() as host:
        host.catalog = read_catalog({"providers": [{"id": "fake", "models": {"primary": {}}}]})
        plugin = a_plugin(host, notify=False)
        plugin.host_started(host)
        await anyio.wait_all_tasks_blocked()
        assert not plugin.engine.catalog.connected(A.provider)

        host.catalog = EVERYTHING
        changed = settings().model_copy(update={"providers": {A.provider: ProviderSettings()}})
        plugin.settings_changed(changed, host)
        await anyio.wait_all_tasks_blocked()
        assert plugin.engine.catalog.connected(A.provider)


async def test_an_error_leads_to_an_abort_a_prompt_and_a_toast() -> None:
    async with a_host() as host:
        plugin = a_plugin(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        await host.toasted(1)
        assert host.aborts == ["ses_1"]
        assert [(prompt.model, prompt.message_id) for prompt in host.prompts] == [(A, "msg_1")]


@pytest.mark.parametrize("later_s", [1.0, 3600.0])
async def test_exhaustion_is_said_once_also_by_a_process_that_takes_the_turn_up_later(later_s: float) -> None:
    health, now = MemoryHealth(), [1_000.0]
    async with a_host() as host:
        for _ in range(2):
            plugin = FallbackPlugin(clock=lambda: now[0], health=health)
            plugin.settings_changed(settings(chain=(str(PRIMARY),)), host)
            begin_turn(plugin, host)
            plugin.session_error(event("session.error", error=api_error(401)), host)
            await anyio.wait_all_tasks_blocked()
            now[0] += later_s
        assert [toast.title for toast in host.toasts] == ["All fallbacks exhausted"]


async def test_exhaustion_is_said_once_also_by_a_process_that_had_forgotten_the_turn() -> None:
    async with a_host() as host:
        plugin = a_plugin(host, chain=(str(PRIMARY),))
        for _ in range(2):
            begin_turn(plugin, host)
            plugin.session_error(event("session.error", error=api_error(401)), host)
            await anyio.wait_all_tasks_blocked()
            plugin.engine.prune(1_000.0 + 2 * SESSION_LIFE_S)
        assert [toast.title for toast in host.toasts] == ["All fallbacks exhausted"]


async def test_what_was_decided_is_kept_beside_the_health_file(tmp_path: Path) -> None:
    async with a_host() as host:
        plugin = FallbackPlugin(clock=lambda: 1_000.0)
        file = tmp_path / "health.sqlite3"
        kept = settings().model_copy(update={"health": HealthSettings(file=file)})
        plugin.settings_changed(kept, host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        await host.toasted(1)
        plugin.host_stopping()
    ((first, *_),) = last_answers(list(read_decisions(beside(file))), "ses_1")
    assert (first["decision"], first["why"]["taken"]) == ("switch", str(A))


def reply(number: int, text: str = "", error: HostError | None = None) -> StoredMessage:
    info = AssistantMessage(
        id=f"msg_{number}", session_id="ses_1", parent_id="msg_1", model=A, created_at=2.0, error=error
    )
    raw = {"id": "prt_1", "type": "text", "text": text}
    part = Part(id="prt_1", message_id=info.id, session_id="ses_1", type="text", text=text, raw=raw)
    return StoredMessage(info=info, parts=(part,) if text else ())


async def test_a_run_that_owes_an_answer_gets_it_before_it_ends() -> None:
    async with a_host() as host:
        host.kind = "run"
        host.answers = [reply(3, error=HostError(name="APIError", status_code=503)), reply(4, "Hi")]
        plugin = a_plugin(host)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        words = await plugin.run_ending("ses_1", host)
        assert [prompt.model for prompt in host.prompts] == [A, B]
        assert words is not None
        assert words.parts == [{"id": "prt_1", "type": "text", "text": "Hi"}]
        assert words.trouble is None
        assert host.aborts == []


async def test_who_waits_for_a_prompt_in_a_server_waits_until_its_turn_is_over() -> None:
    async with a_host() as host:
        plugin = a_plugin(host)
        plugin.host_started(host)
        assert await plugin.run_ending("ses_1", host) is None
        begin_turn(plugin, host)
        words: list[LastWords | None] = []

        async def wait() -> None:
            words.append(await plugin.run_ending("ses_1", host))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            plugin.session_error(event("session.error", error=api_error(401)), host)
            await host.toasted(1)
            assert words == []
            plugin.session_abort_requested(event("session.abort.requested"), host)
        assert words == [LastWords()]
        assert await plugin.run_ending("ses_1", host) is None


async def test_P19_a_run_does_not_end_before_its_notes_are_shown() -> None:
    async with a_host() as host:
        host.kind = "run"
        plugin = a_plugin(host)
        begin_turn(plugin, host)
        plugin.host_started(host)
        answer_by_the_next_model(plugin, host)
        assert host.toasts == []
        assert await plugin.run_ending("ses_1", host) is None
        assert [toast.title for toast in host.toasts] == ["Model fallback"]


async def test_the_note_of_a_switch_names_until_when_the_model_left_rests() -> None:
    async with a_host() as host:
        host.kind = "run"
        plugin = a_plugin(host)
        plugin.host_started(host)
        begin_turn(plugin, host)
        answer_by_the_next_model(plugin, host)
        await host.toasted(1)
        until = datetime.fromtimestamp(1_060.0).astimezone().strftime("%H:%M")
        assert host.toasts[0].message == f"Now on {A}. {PRIMARY}: rate limited (429), rests until {until}."


async def test_a_run_that_was_answered_has_no_last_words() -> None:
    async with a_host() as host:
        host.kind = "run"
        plugin = a_plugin(host)
        plugin.host_started(host)
        begin_turn(plugin, host)
        assert await plugin.run_ending("ses_1", host) is None


async def test_a_run_says_why_nobody_answers() -> None:
    async with a_host() as host:
        host.kind = "run"
        refused = HostError(name="APIError", status_code=401)
        host.answers = [reply(3, error=refused), reply(4, error=refused)]
        plugin = a_plugin(host)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        words = await plugin.run_ending("ses_1", host)
        assert words is not None
        assert words.trouble is not None
        assert words.trouble.splitlines() == [
            "no model of the chain answered:",
            *(f"{model}: refused the key (401)" for model in (PRIMARY, A, B)),
        ]


async def test_P9_a_run_says_why_nobody_answers_although_no_toasts_are_wanted() -> None:
    async with a_host() as host:
        host.kind = "run"
        host.answers = [reply(3, error=HostError(name="APIError", status_code=401))]
        plugin = a_plugin(host, notify=False, max_attempts=1)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        words = await plugin.run_ending("ses_1", host)
        assert words is not None
        assert words.trouble is not None
        assert words.trouble.splitlines()[1:] == [
            f"{A}: refused the key (401)",
            f"{PRIMARY}: refused the key (401)",
            f"{B}: not asked, max_attempts is used up",
        ]
        assert host.toasts == []


async def test_a_run_does_not_go_on_for_ever() -> None:
    async with a_host() as host:
        host.kind = "run"
        host.hangs = True
        plugin = a_plugin(host, run_deadline=0.01)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        words = await plugin.run_ending("ses_1", host)
        assert words is not None
        assert "run_deadline" in (words.trouble or "")
        assert host.aborts == ["ses_1"]


async def test_P3_an_editors_turn_is_settled_once_and_without_a_deadline() -> None:
    async with a_host() as host:
        host.kind = "acp"
        host.answers = [reply(3, "Hi")]
        plugin = a_plugin(host, run_deadline=0.001)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        words = [await plugin.run_ending("ses_1", host) for _ in range(2)]
        assert words == [LastWords(parts=[{"id": "prt_1", "type": "text", "text": "Hi"}]), None]
        assert [prompt.model for prompt in host.prompts] == [A]


class Endings:
    """The questions of an editor's prompts of one session, and their answers in the order they come."""

    def __init__(self, plugin: FallbackPlugin, host: Host, tasks: TaskGroup) -> None:
        self.answers: list[tuple[str, LastWords | None]] = []
        self._plugin = plugin
        self._host = host
        self._tasks = tasks

    async def asked(self, name: str) -> None:
        async def ask() -> None:
            self.answers.append((name, await self._plugin.run_ending("ses_1", self._host)))

        self._tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def a_hanging_resend() -> AsyncIterator[tuple[Endings, FallbackPlugin, Host]]:
    """Yield while the turn of the first prompt is sent again to a model that does not answer."""
    async with a_host() as host:
        host.kind = "acp"
        host.hangs = True
        plugin = a_plugin(host)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        async with anyio.create_task_group() as tasks:
            endings = Endings(plugin, host, tasks)
            await endings.asked("first")
            assert (endings.answers, len(host.prompts)) == ([], 1)
            yield endings, plugin, host
            tasks.cancel_scope.cancel()


async def test_P3_two_prompts_of_one_run_wait_for_the_same_answer() -> None:
    async with a_hanging_resend() as (endings, _, host):
        await endings.asked("second")
        assert endings.answers == []
        host.answers = [reply(3, "Hi")]
        host.released.set()
        await anyio.wait_all_tasks_blocked()
        words = LastWords(parts=[{"id": "prt_1", "type": "text", "text": "Hi"}])
        assert sorted(endings.answers, key=str) == [("first", words), ("second", words)]
        assert len(host.prompts) == 1


async def test_P3_the_prompt_after_a_cancelled_one_does_not_wait_for_that_ones_turn() -> None:
    async with a_hanging_resend() as (endings, plugin, host):
        plugin.session_abort_requested(event("session.abort.requested"), host)
        await endings.asked("second")
        assert endings.answers == [("second", None)]
        model = {"providerID": PRIMARY.provider, "modelID": PRIMARY.model}
        plugin.message_updated(message(3, "user", model=model), host)
        await endings.asked("third")
        assert endings.answers[1:] == [("third", None)]


async def test_P3_a_turn_whose_session_is_deleted_while_it_is_sent_again_is_over() -> None:
    async with a_hanging_resend() as (endings, plugin, host):
        plugin.session_deleted(event("session.deleted", info={"id": "ses_1"}), host)
        host.answers = [reply(3, "Hi")]
        host.released.set()
        await anyio.wait_all_tasks_blocked()
        assert [name for name, _ in endings.answers] == ["first"]


async def test_P3_an_editor_is_told_why_nobody_answers_even_without_toasts() -> None:
    async with a_host() as host:
        host.kind = "acp"
        refused = HostError(name="APIError", status_code=401)
        host.answers = [reply(3, error=refused), reply(4, error=refused)]
        plugin = a_plugin(host, notify=False)
        plugin.host_started(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        words = await plugin.run_ending("ses_1", host)
        assert words is not None
        assert all(str(model) in (words.trouble or "") for model in (PRIMARY, A, B))


async def test_a_failed_request_is_answered_with_the_next_model() -> None:
    async with a_host() as host:
        plugin = a_plugin(host, switching="inline")
        begin_turn(plugin, host)
        assert plugin.model_attempt_failed(LIMITED, host) == A
        await host.toasted(1)
        assert (host.aborts, host.prompts) == ([], [])


async def test_every_status_event_is_handed_on() -> None:
    async with a_host() as host:
        plugin = a_plugin(host)
        begin_turn(plugin, host)
        status = {"type": "retry", "attempt": 1, "message": "Rate limit reached", "next": 1_002_000}
        plugin.session_status(event("session.status", status=status), host)
        plugin.session_idle(event("session.idle"), host)
        await host.toasted(1)
        assert len(host.prompts) == 1


async def test_switched_off_no_call_is_made() -> None:
    async with a_host() as host:
        plugin = a_plugin(host, enabled=False)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        await anyio.wait_all_tasks_blocked()
        assert host.aborts == []


async def test_a_deleted_session_is_forgotten() -> None:
    async with a_host() as host:
        plugin = a_plugin(host)
        begin_turn(plugin, host)
        plugin.session_deleted(event("session.deleted"), host)
        assert plugin.engine.session("ses_1") is None


async def test_a_compacted_session_is_tolerated() -> None:
    async with a_host() as host:
        plugin = a_plugin(host)
        begin_turn(plugin, host)
        assert plugin.engine.handle(event("session.compacted"), 1_000.0) == []


@pytest.mark.parametrize("error", [HostCallError("gone"), RuntimeError("a bug")])
async def test_a_call_that_raises_leaves_nothing_in_flight(error: Exception) -> None:
    async with a_host() as host:
        host.abort_error = error
        plugin = a_plugin(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        await host.toasted(1)
        assert host.toasts[-1].title == "Fallback failed"
        assert "ses_1" not in plugin.engine.switching.in_flight


async def test_a_prompt_is_redirected_while_the_primary_cools() -> None:
    async with a_host() as host:
        plugin = a_plugin(host)
        begin_turn(plugin, host)
        plugin.session_error(event("session.error", error=api_error(401)), host)
        await host.toasted(1)
        await anyio.wait_all_tasks_blocked()
        assert plugin.chat_message(PromptRequest(session_id="ses_1", model=PRIMARY), host) == A


async def test_a_silent_model_is_left_when_its_time_is_over() -> None:
    async with a_host() as host:
        plugin = a_plugin(host, first_token_timeout=0.001)
        begin_turn(plugin, host)
        await host.toasted(1)
        assert host.prompts[0].model == A


async def test_a_timer_that_is_stopped_never_fires() -> None:
    async with a_host() as host:
        plugin = a_plugin(host, first_token_timeout="10m")
        begin_turn(plugin, host)
        plugin.session_idle(event("session.idle"), host)
        await anyio.wait_all_tasks_blocked()
        assert len(plugin.timers) == 0


def task_result(output: str, **metadata: str) -> ToolResult:
    return ToolResult(title="Delegate", output=output, metadata=metadata)


EMPTY = '<task id="ses_child" state="completed">\n<task_result>\n\n</task_result>\n</task>'
FILLED = EMPTY.replace("\n\n", "\nI found it.\n")
TASK = ToolCall(session_id="ses_1", call_id="call_1", tool="task")


def answered(*texts: str) -> list[StoredMessage]:
    info = AssistantMessage(id="msg_9", session_id="ses_child", parent_id="msg_8", model=A, created_at=1.0)
    parts = tuple(
        Part(id=f"prt_{number}", message_id="msg_9", session_id="ses_child", type="text", text=text)
        for number, text in enumerate(texts)
    )
    return [StoredMessage(info=info, parts=parts)]


async def test_an_empty_task_result_gets_the_childs_text() -> None:
    async with a_host() as host:
        host.history = answered("I found", "it.")
        result = await a_plugin(host).tool_after(TASK, task_result(EMPTY), host)
        assert result == task_result(FILLED.replace("I found it.", "I found\nit."))


async def test_the_child_named_in_the_metadata_goes_first() -> None:
    async with a_host() as host:
        host.history = answered("I found it.")
        result = await a_plugin(host).tool_after(
            TASK, task_result("<task_result></task_result>", sessionId="ses_c"), host
        )
        assert result is not None
        assert "I found it." in result.output


async def test_it_waits_for_a_child_that_still_works() -> None:
    async with a_host() as host:
        host.history = answered("I found it.")
        plugin = a_plugin(host)
        begin_turn(plugin, host, "ses_child")
        results: list[ToolResult | None] = []

        async def ask() -> None:
            results.append(await plugin.tool_after(TASK, task_result(EMPTY), host))

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert results == []
            plugin.session_idle(event("session.idle", "ses_child"), host)
        assert results == [task_result(FILLED)]


async def test_a_child_that_never_ends_leaves_the_result_as_it_is() -> None:
    async with a_host() as host:
        plugin = a_plugin(host)
        begin_turn(plugin, host, "ses_child")
        with anyio.move_on_after(0.01) as deadline:
            await plugin.tool_after(TASK, task_result(EMPTY), host)
        assert deadline.cancelled_caught


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (ToolCall(session_id="ses_1", call_id="call_1", tool="bash"), EMPTY),
        (TASK, FILLED),
        (TASK, "no result at all"),
        (TASK, "<task_result></task_result>"),
    ],
)
async def test_every_other_result_stays_as_it_is(call: ToolCall, output: str) -> None:
    async with a_host() as host:
        host.history = answered("I found it.")
        assert await a_plugin(host).tool_after(call, task_result(output), host) is None


async def test_a_child_without_text_leaves_the_result_empty() -> None:
    async with a_host() as host:
        assert await a_plugin(host).tool_after(TASK, task_result(EMPTY), host) is None


async def test_P4_a_new_process_sends_a_moved_session_back_to_its_primary(tmp_path: Path) -> None:
    health = HealthSettings(file=tmp_path / "health.sqlite3")
    stored = settings().model_copy(update={"health": health})
    first_prompt = PromptRequest(session_id="ses_1", message_id="msg_1", agent="build", model=PRIMARY)
    async with a_host() as host:
        before = FallbackPlugin(clock=lambda: 1_000.0)
        before.settings_changed(stored, host)
        before._health.close(PRIMARY, "model", 1_060.0, reason="rate_limit", now=1_000.0)
        assert before.chat_message(first_prompt, host) == A
        before.host_stopping()

    after = FallbackPlugin(clock=lambda: 1_061.0)
    async with anyio.create_task_group() as tasks:  # its end waits for what the plugin reads
        after.settings_changed(stored, Host(tasks))
    async with a_host() as host:
        again = PromptRequest(session_id="ses_1", message_id="msg_2", agent="build", model=A)
        assert after.chat_message(again, host) == PRIMARY
        await host.toasted(1)
        assert [toast.message for toast in host.toasts] == [f"Back on {PRIMARY}."]
        after.host_stopping()
