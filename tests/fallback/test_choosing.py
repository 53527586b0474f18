"""Which candidates are passed over, whatever their health, and how a session says so."""

from typing import Any, Final

import pytest

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.wire.model_catalog import ModelCatalog, read_catalog
from tests.fallback.stage import PRIMARY, A, B, Stage, api_error, settings

HOMES: Final = {"primary": "fake", "a": "spare", "b": "third"}


def listed(**models: dict[str, Any]) -> ModelCatalog:
    """Read the host's list of three connected providers with these models, and the primary."""
    of: dict[str, dict[str, Any]] = {home: {"another": {}} for home in HOMES.values()}
    for name, said in {"primary": {}, **models}.items():
        of[HOMES[name]][name] = said
    return read_catalog({"providers": [{"id": home, "models": models} for home, models in of.items()]})


def model(*, context: int = 0, image: bool | None = None, tools: bool | None = None) -> dict[str, Any]:
    """Return what the host says of a model; 0 and None: nothing."""
    return {"limit": {"context": context}, "capabilities": {"toolcall": tools, "input": {"image": image}}}


def asked_after_a_failure(stage: Stage, *, image: bool = False, tokens: int = 0) -> list[Any]:
    """Fail the primary in a turn whose context holds so many tokens."""
    stage.user()
    if image:
        part = {"id": "prt_u", "sessionID": stage.session, "messageID": "msg_1", "type": "file"}
        stage.host("message.part.updated", part={**part, "mime": "image/png", "url": "data:"})
    if tokens:
        stage.answer("msg_2", finish="tool-calls", tokens={"input": tokens, "cache": {"read": 1}})
    stage.answer("msg_3")
    stage.retry()
    if stage.all(effects.Abort):
        stage.aborted()
    return stage.asked


@pytest.mark.parametrize(
    ("a", "turn", "taken"),
    [
        (model(image=False), {"image": True}, [B]),
        (model(image=True), {"image": True}, [A]),
        (model(image=None), {"image": True}, [A]),
        (model(image=False), {}, [A]),
        (model(tools=False), {}, [B]),
        (model(context=1000), {"tokens": 1000}, [B]),
        (model(context=1001), {"tokens": 1000}, [A]),
        (model(context=0), {"tokens": 1000}, [A]),
        (None, {}, [B]),
    ],
)
def test_a_model_that_cannot_take_the_turn_is_passed_over(a: Any, turn: Any, taken: list[Any]) -> None:
    stage = Stage()
    stage.engine.catalog = listed(b={}, **({} if a is None else {"a": a}))
    assert asked_after_a_failure(stage, **turn) == taken


def test_a_provider_that_is_not_connected_is_passed_over() -> None:
    stage = Stage(Engine(settings(("gone/x", "spare/a"))))
    stage.engine.catalog = listed(a={})
    assert asked_after_a_failure(stage) == [A]


def test_where_the_host_says_nothing_every_model_may_be_asked() -> None:
    assert asked_after_a_failure(Stage(), image=True, tokens=10**9) == [A]


@pytest.mark.parametrize(("allowed", "taken"), [(False, [B]), (True, [A])])
def test_a_paid_model_is_taken_only_with_consent(*, allowed: bool, taken: list[Any]) -> None:
    chain = ({"model": "spare/a", "paid": True}, "third/b")
    assert asked_after_a_failure(Stage(Engine(settings(chain, allow_paid=allowed)))) == taken


def test_a_prompt_sent_elsewhere_passes_over_the_same_models() -> None:
    stage = Stage()
    stage.engine.catalog = listed(b={})
    stage.close(PRIMARY, stage.now + 60)
    assert stage.choose() == B


def test_a_sticky_session_stays_on_its_fallback() -> None:
    stage = Stage(Engine(settings(sticky=True)))
    asked_after_a_failure(stage)
    stage.accepted()
    stage.began("msg_4", A)
    stage.idle()
    stage.now += 3600
    assert stage.choose(PRIMARY) == A
    assert [toast.title for toast in stage.toasts] == ["Model fallback", "Model fallback"]


class TestAskingOnceMore:
    """A failure that says nothing costs one more try on the same model, then at most a switch."""

    UNKNOWN: Final = {"name": "UnknownError", "data": {"message": "Unexpected server error"}}

    def failed_once(self) -> Stage:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.error(self.UNKNOWN)
        stage.idle()
        stage.aborted()
        return stage

    def test_the_same_model_is_asked_in_place(self) -> None:
        stage = self.failed_once()
        assert stage.asked == [PRIMARY]
        assert stage.prompts[0].message_id == "msg_1"
        assert [toast.title for toast in stage.toasts] == ["Model retry"]

    def test_an_answer_then_is_the_end_of_it(self) -> None:
        stage = self.failed_once()
        stage.accepted()
        stage.began("msg_3", PRIMARY)
        stage.idle()
        assert [toast.title for toast in stage.toasts] == ["Model retry"]
        assert stage.health.view(stage.now).entries() == ()

    def test_a_second_failure_leaves_the_model(self) -> None:
        stage = self.failed_once()
        stage.accepted()
        stage.user("msg_1")
        stage.answer("msg_3")
        stage.error(self.UNKNOWN)
        stage.idle()
        stage.aborted()
        assert stage.asked == [PRIMARY, A]

    def test_a_model_that_is_closed_for_all_is_not_asked_again(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.close(PRIMARY, stage.now + 60)
        stage.error(self.UNKNOWN)
        stage.idle()
        stage.aborted()
        assert stage.asked == [A]

    def test_a_retry_of_the_hosts_own_is_waited_for(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.retry("Something odd", attempt=1)
        assert not stage.all(effects.Abort)
        stage.retry("Something odd", attempt=2)
        assert stage.all(effects.Abort)

    def test_where_the_host_has_asked_again_itself_no_more_is_spent(self) -> None:
        stage = Stage()
        stage.user()
        stage.answer("msg_2")
        stage.error({"name": "APIError", "data": {"message": "Odd", "isRetryable": True}})
        stage.idle()
        stage.aborted()
        assert stage.asked == [A]

    def test_the_users_stop_is_final_here_as_well(self) -> None:
        stage = self.failed_once()
        stage.accepted()
        stage.began("msg_3", PRIMARY)
        stage.error({"name": "MessageAbortedError", "data": {"message": "Aborted"}})
        stage.idle()
        stage.error(self.UNKNOWN)
        stage.idle()
        assert stage.asked == [PRIMARY]


class TestOverflowTheHostGaveUp:
    """Compaction did not help: only a larger window can."""

    ERROR: Final = {"name": "ContextOverflowError", "data": {"message": "Session too large to compact"}}

    def overflown(self, **windows: int) -> Stage:
        stage = Stage()
        stage.engine.catalog = listed(**{name: model(context=size) for name, size in windows.items()})
        stage.user()
        stage.answer("msg_2")
        stage.error(self.ERROR)
        stage.idle()
        if stage.all(effects.Abort):
            stage.aborted()
        return stage

    def test_the_session_moves_to_a_model_known_to_hold_more(self) -> None:
        assert self.overflown(primary=1000, a=1000, b=2000).asked == [B]

    @pytest.mark.parametrize("windows", [{"primary": 1000, "a": 1000, "b": 0}, {}])
    def test_without_one_nothing_is_sent_and_nothing_said(self, windows: dict[str, int]) -> None:
        stage = self.overflown(**windows)
        assert (stage.asked, stage.toasts) == ([], [])


def test_a_key_refused_says_nothing_against_another_provider() -> None:
    stage = Stage(Engine(settings(("fake/other", "spare/a"))))
    stage.user()
    stage.answer("msg_2")
    stage.error(api_error(401))
    stage.idle()
    stage.aborted()
    assert stage.asked == [A]
