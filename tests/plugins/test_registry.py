"""Loading plugins: what is taken, what is refused and how that is said."""

from collections.abc import AsyncIterator, Iterator

import pytest

from fallback_plugin import hookimpl
from fallback_plugin.plugins.discovery import Found, passed_in
from fallback_plugin.plugins.registry import Registry


class Idle:
    @hookimpl
    def session_idle(self) -> None: ...


class First:
    @hookimpl(tryfirst=True)
    def session_idle(self) -> None: ...


class Misspelt:
    @hookimpl
    def session_idel(self) -> None: ...


class OptionalHook:
    @hookimpl(optionalhook=True)
    def of_a_later_release(self) -> None: ...

    @hookimpl
    def session_idle(self) -> None: ...


class WrongArgument:
    @hookimpl
    def session_idle(self, evnt: object) -> None: ...


class Wrapper:
    @hookimpl(wrapper=True)
    def chat_message(self) -> Iterator[None]:
        yield


class OldWrapper:
    @hookimpl(hookwrapper=True)
    def chat_message(self) -> Iterator[None]:
        yield


class AsyncGenerator:
    @hookimpl
    async def session_idle(self) -> AsyncIterator[None]:
        yield


class AsyncCommands:
    @hookimpl
    async def register_commands(self) -> None: ...


class KeywordOnly:
    @hookimpl
    def session_idle(self, *, event: object) -> None: ...


class NoHook:
    def session_idle(self) -> None: ...


class NeedsArguments:
    def __init__(self, needed: int) -> None: ...


class SpecName:
    @hookimpl(specname="session_idle")
    def second(self) -> None: ...

    @hookimpl(specname="session_idle")
    def first(self) -> None: ...


def exiting() -> object:
    raise SystemExit(3)


def load(plugin: object) -> tuple[Registry, list[str]]:
    registry = Registry()
    errors = registry.load(passed_in({"mine": plugin}))
    return registry, [str(error) for error in errors]


def test_the_hooks_are_those_of_hookspecs() -> None:
    registry = Registry()

    assert {"event", "chat_message", "settings_changed"} <= registry.hooks
    assert "chat_message" in registry.first_result
    assert "event" not in registry.first_result


@pytest.mark.parametrize("plugin", [Idle, Idle()], ids=["class", "object"])
def test_a_class_is_as_good_as_its_object(plugin: object) -> None:
    registry, errors = load(plugin)

    assert errors == []
    assert [found.plugin.name for found in registry.implementations("session_idle")] == ["mine"]


def test_the_last_one_registered_comes_first_unless_it_says_otherwise() -> None:
    registry = Registry()
    registry.load(passed_in({"a": First(), "b": Idle(), "c": Idle()}))

    order = [found.plugin.name for found in registry.implementations("session_idle")]

    assert order == ["a", "c", "b"]


def test_one_plugin_may_implement_a_hook_twice() -> None:
    registry, errors = load(SpecName)

    assert errors == []
    assert len(registry.implementations("session_idle")) == 2


def test_a_hook_that_may_be_missing_is_no_error() -> None:
    registry, errors = load(OptionalHook)

    assert errors == []
    assert len(registry.implementations("session_idle")) == 1


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (Misspelt, ["'session_idel', which is no hook", "is it 'session_idle'?"]),
        (WrongArgument, ["evnt"]),
        (Wrapper, ["wraps 'chat_message'", "not supported"]),
        (OldWrapper, ["wraps 'chat_message'", "not supported"]),
        (AsyncGenerator, ["generator for 'session_idle'"]),
        (AsyncCommands, ["async 'register_commands'"]),
        (KeywordOnly, ["'session_idle' by keyword only"]),
        (NoHook, ["implements no hook", "@hookimpl"]),
        (NeedsArguments, ["cannot be imported", "TypeError"]),
    ],
)
def test_what_could_never_work_is_refused_with_its_name_and_reason(plugin: object, words: list[str]) -> None:
    registry, errors = load(plugin)

    assert len(errors) == 1
    assert all(word in errors[0] for word in ["plugin 'mine' (explicit)", *words])
    assert registry.plugins == ()
    assert registry.implementations("session_idle") == ()


def test_a_refused_plugin_leaves_its_name_free() -> None:
    registry = Registry()
    registry.load(passed_in({"mine": WrongArgument}))

    errors = registry.load(passed_in({"mine": Idle}))

    assert errors == ()


def test_an_import_that_leaves_the_interpreter_is_only_a_failed_import() -> None:
    registry = Registry()

    (error,) = registry.load([Found("rude", "rude-dist 1.0", exiting), *passed_in({"polite": Idle})])

    assert "plugin 'rude' (rude-dist 1.0) cannot be imported: SystemExit: 3" in str(error)
    assert [plugin.name for plugin in registry.plugins] == ["polite"]


def test_a_name_belongs_to_the_first_plugin_that_has_it() -> None:
    registry = Registry()

    (error,) = registry.load([*passed_in({"mine": Idle}), Found("mine", "late 1.0", Idle)])

    assert "plugin 'mine' (late 1.0) is skipped: explicit already has a plugin of that name" in str(error)


def test_one_object_is_registered_once() -> None:
    registry = Registry()
    plugin = Idle()

    (error,) = registry.load(passed_in({"one": plugin, "two": plugin}))

    assert "plugin 'two' (explicit) cannot be registered" in str(error)
    assert [found.name for found in registry.plugins] == ["one"]


@pytest.mark.parametrize("block", ["my-plugin", "My_Plugin"])
def test_a_blocked_plugin_is_not_even_imported(block: str) -> None:
    imported = []
    registry = Registry()

    errors = registry.load([Found("my_plugin", "dist 1.0", lambda: imported.append(1))], block=[block])

    assert (errors, registry.plugins, imported) == ((), (), [])


def test_what_went_wrong_is_left_to_the_caller_to_report_with_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (error,) = Registry().load(passed_in({"mine": NeedsArguments}))

    assert caplog.records == []
    assert isinstance(error.__cause__, TypeError)
