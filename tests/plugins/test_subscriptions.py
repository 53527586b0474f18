"""What a host is asked to send."""

import inspect

from fallback_plugin import hookspecs
from fallback_plugin.hookspecs import ACTIVITY_EVERY_S
from fallback_plugin.plugins.subscriptions import HOOKS, Subscriptions, subscriptions
from fallback_plugin.wire.event import read_event


def test_nothing_is_wanted_when_nothing_is_implemented() -> None:
    wanted = subscriptions([], ["chat_message"])

    assert (wanted.events, wanted.questions) == (frozenset(), frozenset())


def test_a_narrow_hook_wants_its_type_in_the_hosts_words() -> None:
    wanted = subscriptions(["session_idle", "message_part_updated", "host_started"], ["chat_message"])

    assert wanted.events == {"session.idle", "message.part.updated"}


def test_the_hook_event_wants_every_type() -> None:
    wanted = subscriptions(["session_idle", "event"], [])

    assert wanted.events == {"*"}


def test_questions_are_the_first_result_hooks() -> None:
    wanted = subscriptions(["chat_message", "session_idle"], ["chat_message", "tool_before"])

    assert wanted.questions == {"chat_message"}


def test_activity_wants_one_delta_in_a_while() -> None:
    wanted = subscriptions(["message_activity", "session_idle"], [])

    expected = Subscriptions(frozenset({"session.idle"}), sampled={"message.part.delta": ACTIVITY_EVERY_S})
    assert wanted == expected


def test_where_every_delta_is_sent_none_is_sampled() -> None:
    wanted = subscriptions(["message_activity", "event"], [])

    assert wanted == Subscriptions(frozenset({"*"}))


def test_each_class_of_event_has_the_hook_that_takes_it() -> None:
    for kind, hook in HOOKS.items():
        signature = inspect.signature(getattr(hookspecs, hook))
        assert signature.parameters["event"].annotation is kind


def test_each_narrow_hook_wants_the_type_that_is_read_as_its_class() -> None:
    properties = {
        "sessionID": "s",
        "status": {"type": "busy"},
        "error": {},
        "messageID": "m",
        "info": {
            "id": "m",
            "sessionID": "s",
            "role": "user",
            "agent": "build",
            "time": {"created": 1},
            "model": {"providerID": "p", "modelID": "m"},
        },
        "part": {"id": "p", "messageID": "m", "sessionID": "s", "type": "text"},
    }
    for kind, hook in HOOKS.items():
        (host_type,) = subscriptions([hook], []).events
        read = read_event({"type": host_type, "properties": properties})
        assert type(read) is kind
