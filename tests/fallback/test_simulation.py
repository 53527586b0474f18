"""Recordings of the real host, played without it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from fallback_plugin.events import Event
from fallback_plugin.fallback.simulation import Ending, Step, began_at, simulate
from fallback_plugin.fallback.trace import Moment, read_trace
from fallback_plugin.settings import Settings
from fallback_plugin.wire.event import read_event
from tests.fallback.stage import ABORTED, api_error, settings

OPENCODE: Final = Path(__file__).parents[1] / "opencode"
CHAIN: Final = ("spare/a", "third/b")
NO_ANSWER: Final = "the recording does not show its answer"


class Told:
    """What a simulation tells: its steps and what they came to."""

    def __init__(self, moments: Iterator[Moment], by: Settings) -> None:
        told = list(simulate(moments, by))
        self.steps = [each for each in told if isinstance(each, Step)]
        self.endings = [each for each in told if isinstance(each, Ending)]

    @property
    def effects(self) -> list[str]:
        return [step.effect for step in self.steps]

    @property
    def runs(self) -> list[str]:
        return [effect for effect in self.effects if effect.startswith("run ")]

    @property
    def outcome(self) -> tuple[str, str]:
        (ending,) = self.endings
        return ending.outcome, ending.reason

    def why(self, effect: str) -> list[str]:
        return [step.reason for step in self.steps if step.effect == effect]


def played(file: Path, chain: tuple[str, ...] = CHAIN, **changes: Any) -> Told:
    with file.open(encoding="utf-8") as lines:
        return Told(read_trace(lines), settings(chain, **changes))


def recording(name: str) -> Path:
    return OPENCODE / "recordings" / f"{name}.jsonl"


@pytest.mark.parametrize("name", ["429", "401", "402", "503", "error-mid", "close"])
def test_a_recorded_failure_is_answered_once_and_says_why(name: str) -> None:
    told = played(recording(name))
    assert told.effects.count("stop the run") == 1
    assert told.runs == ["run the turn in place on spare/a"]
    (why,) = told.why("decide: switch")
    assert why.startswith(f"fake/{name}: ")
    failure = why.partition(" by ")[0]
    assert told.why("stop the run") == told.why(told.runs[0]) == [failure]
    assert told.outcome == ("switched to spare/a", NO_ANSWER)


def test_an_empty_answer_is_deleted() -> None:
    effects = played(recording("empty")).effects
    assert [effect.split(" msg")[0] for effect in effects if "delete" in effect or "run" in effect] == [
        "delete",
        "run the turn in place on spare/a",
    ]


def test_an_empty_answer_at_the_very_end_is_deleted_as_well() -> None:
    moments = list(read_trace(recording("empty").read_text(encoding="utf-8").split("\n")))
    (found,) = [step.at for step in Told(iter(moments), settings(CHAIN)).steps if _switches(step)]
    told = Told((moment for moment in moments if moment.at <= found), settings(CHAIN))
    assert told.runs == ["run the turn in place on spare/a"]


def _switches(step: Step) -> bool:
    return step.effect == "decide: switch"


@pytest.mark.parametrize("name", ["ok", "tool", "length", "400"])
def test_where_nothing_is_to_be_done_nothing_is_sent(name: str) -> None:
    told = played(recording(name))
    assert not [effect for effect in told.effects if effect.startswith(("run", "stop", "show"))]
    assert told.outcome[0] == "nothing to do"


def test_a_wait_the_host_was_told_of_is_as_long_as_in_the_recording() -> None:
    effects = played(recording("429-retry-after-long")).effects
    assert "close fake/429-retry-after-long (model) for 3600 s" in effects


def test_timers_run_by_the_recordings_clock() -> None:
    told = played(recording("hang"), first_token_timeout="10s")
    (stopped,) = [step.at for step in told.steps if step.effect == "stop the run"]
    assert 10 <= stopped <= 10.5


def test_a_silence_that_would_be_ended_inline_is_told_and_replayed() -> None:
    told = played(recording("hang"), switching="inline", first_token_timeout=2)
    assert "leave the request (no first token)" in told.effects
    assert told.runs == ["run the turn in place on spare/a"]


def test_each_trace_of_a_file_is_played_by_itself() -> None:
    told = played(OPENCODE / "host_traces.jsonl")
    stopped = {step.trace for step in told.steps if step.effect == "stop the run"}
    assert {"auth", "pay", "quota", "rl"} <= stopped
    assert {"ok", "bad"}.isdisjoint(stopped)
    endings = {(each.trace, each.session): each.outcome for each in told.endings}
    assert endings["rl", "ses1"] == "switched to spare/a"
    assert endings["ok", ""] == "nothing to do"


def test_traces_that_take_turns_in_a_file_are_not_mixed_up() -> None:
    lines = (OPENCODE / "host_traces.jsonl").read_text(encoding="utf-8").split("\n")
    by_trace = [[line for line in lines if f'"trace": "{name}"' in line] for name in ("rl", "ok")]
    shuffled = [line for pair in zip(*by_trace, strict=False) for line in pair]
    assert Told(read_trace(shuffled), settings(CHAIN)).effects.count("stop the run") == 1


def user(at: float, message: str = "msg_1", created_s: float = 1_000_000.0, of: str = "ses_1") -> Moment:
    info = {"role": "user", "model": {"providerID": "fake", "modelID": "primary"}}
    return told_at(at, "message.updated", of, info=_message(message, created_s, of, **info))


def answer(
    at: float, message: str, model: str, parent: str = "msg_1", of: str = "ses_1", **info: Any
) -> Moment:
    provider, _, model = model.partition("/")
    info = {"role": "assistant", "parentID": parent, "providerID": provider, "modelID": model, **info}
    return told_at(at, "message.updated", of, info=_message(message, 1_000_000.0, of, **info))


def content(at: float, message: str, kind: str = "text", of: str = "ses_1") -> Moment:
    part = {"id": f"prt_{message}", "sessionID": of, "messageID": message, "type": kind, "text": "Hi"}
    return told_at(at, "message.part.updated", of, part=part)


def error(at: float, error: dict[str, Any] | None = None, of: str = "ses_1") -> Moment:
    return told_at(at, "session.error", of, error=error or api_error(429, "Rate limit reached"))


def failing(at: float, model: str, of: str) -> tuple[Moment, ...]:
    """Return a turn of a session that fails on a model at once."""
    turn, step = f"msg_{of}_1", f"msg_{of}_2"
    return user(at, turn, of=of), answer(at, step, model, turn, of), error(at, of=of)


def told_at(at: float, kind: str, of: str = "ses_1", **properties: Any) -> Moment:
    raw = {"type": kind, "properties": {"sessionID": of, **properties}}
    return Moment("", at, read_event(raw, sequence=round(at * 10)))


def _message(message: str, created_s: float, of: str, **info: Any) -> dict[str, Any]:
    return {"id": message, "sessionID": of, "time": {"created": created_s * 1000}, **info}


FAILED: Final = (user(1), answer(1.1, "msg_2", "fake/primary"), error(2))
A_ANSWERS: Final = (answer(3, "msg_3", "spare/a"), content(3.1, "msg_3"))
A_FAILS: Final = (answer(3, "msg_3", "spare/a"), error(4))


@pytest.mark.parametrize(
    ("moments", "chain", "outcome"),
    [
        (FAILED, CHAIN, ("switched to spare/a", NO_ANSWER)),
        ((*FAILED, *A_ANSWERS), CHAIN, ("switched to spare/a", "it answered")),
        ((*FAILED, *A_FAILS), CHAIN, ("switched to third/b", NO_ANSWER)),
        ((*FAILED, *A_FAILS), CHAIN[:1], ("exhausted", "exhausted")),
        ((*FAILED[:2], error(2, ABORTED)), CHAIN, ("stopped by the user", "aborted, and not by us")),
        (
            (*FAILED[:2], error(2, api_error(400))),
            CHAIN,
            ("nothing to do", "no switch: no_fallback: fake/primary: bad_request"),
        ),
        (FAILED, (), ("nothing to do", "no switch: no chain: fake/primary: rate_limit")),
        (FAILED[:2], CHAIN, ("nothing to do", "nothing failed")),
        ((), CHAIN, ("nothing to do", "nothing failed")),
    ],
    ids=[
        "asked",
        "answered",
        "failed again",
        "none left",
        "stopped",
        "bad request",
        "no chain",
        "no failure",
        "no event",
    ],
)
def test_the_last_word_says_what_it_came_to(
    moments: tuple[Moment, ...], chain: tuple[str, ...], outcome: tuple[str, str]
) -> None:
    assert Told(iter(moments), settings(chain)).outcome == outcome


def test_the_same_model_asked_once_more_is_no_switch() -> None:
    unclear = error(2, {"name": "UnknownError", "data": {"message": "odd"}})
    told = Told(iter((*FAILED[:2], unclear)), settings(CHAIN))
    assert told.outcome == ("asked fake/primary once more", NO_ANSWER)


def test_where_fallback_is_switched_off_that_is_the_reason() -> None:
    told = Told(iter(FAILED), settings(CHAIN, enabled=False))
    assert told.outcome == ("nothing to do", "fallback is switched off in the settings")


def test_a_message_that_was_removed_meanwhile_cannot_be_sent_again() -> None:
    ended = answer(2, "msg_2", "fake/primary", finish="stop", time={"created": 1e9, "completed": 1e9})
    empty = (FAILED[0], content(1, "msg_1"), FAILED[1], content(1.9, "msg_2", "step-finish"), ended)
    assert Told(iter(empty), settings(CHAIN)).runs == ["run the turn in place on spare/a"]
    told = Told(iter((*empty, told_at(2.1, "message.removed", messageID="msg_1"))), settings(CHAIN))
    assert told.runs == []
    assert told.outcome == ("nothing to do", "no prompt: its message was removed")


@pytest.mark.parametrize(
    ("moments", "began"),
    [
        ((), 0.0),
        ((told_at(1, "session.idle"),), 0.0),
        ((user(1, "msg_0", 400_000.0), user(2.5), user(4, "msg_3")), 999_997.5),
        ((user(0.211, created_s=0.195),), 0.0),
        ((user(1, created_s=1e300), user(2, "msg_2")), 999_998.0),
    ],
    ids=["no event", "no message", "an old message too", "relative times", "nonsense"],
)
def test_when_a_recording_began_is_told_by_its_newest_message(
    moments: tuple[Moment, ...], began: float
) -> None:
    assert began_at(moments) == pytest.approx(began)


def test_the_next_message_of_the_persons_is_held_to_its_time_again() -> None:
    silent = (user(5, "msg_5"), answer(5, "msg_6", "fake/primary", "msg_5"), told_at(60, "session.updated"))
    told = Told(iter((*FAILED, *silent)), settings(CHAIN, first_token_timeout="10s"))
    assert [step.at for step in told.steps if step.effect == "stop the run"] == [2, 15]


def test_what_one_session_closed_is_passed_over_by_the_next() -> None:
    moments = (*failing(1, "spare/a", "ses_1"), *failing(2, "fake/primary", "ses_2"))
    told = Told(iter(moments), settings(CHAIN))
    assert told.runs == ["run the turn in place on third/b"] * 2


A_FAILED: Final = failing(1, "spare/a", "ses_1")
PROBE: Final = failing(100, "fake/primary", "ses_2")
PROBED_WELL: Final = (
    answer(101, "msg_ses_2_3", "spare/a", "msg_ses_2_1", "ses_2"),
    content(101, "msg_ses_2_3", of="ses_2"),
)
NEXT: Final = failing(102, "other/x", "ses_3")


@pytest.mark.parametrize(
    ("seen", "taken"), [(PROBED_WELL, "spare/a"), ((), "third/b")], ids=["answered", "still probed"]
)
def test_a_model_that_works_again_is_probed_by_one_session_first(
    seen: tuple[Moment, ...], taken: str
) -> None:
    told = Told(iter((*A_FAILED, *PROBE, *seen, *NEXT)), settings(CHAIN))
    assert told.runs[1:] == ["run the turn in place on spare/a", f"run the turn in place on {taken}"]


def test_an_event_of_no_known_type_changes_nothing() -> None:
    assert Told(iter([Moment("", 0, Event(type="odd"))]), settings(CHAIN)).steps == []
