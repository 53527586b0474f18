"""Recordings of the real OpenCode, played into the engine.

A recording is one run of the host as it was; the engine's abort and prompt are answered at the place where
the recorder's own were, or at once where it had none. What the host went on to do then is stale news.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from fallback_plugin.events import StoredMessage
from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Done, Effect, Fetched
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Settings
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.message import read_history
from fallback_plugin.wire.prompt import write_prompt
from tests.fallback.stage import settings

RECORDINGS: Final = Path(__file__).parents[1] / "opencode" / "recordings"
TRACES: Final = Path(__file__).parents[1] / "opencode" / "host_traces.jsonl"

A: Final = ModelRef("spare", "fallback-a")


def chain_settings() -> Settings:
    return settings(chain=("spare/fallback-a", "third/fallback-b"))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@dataclass
class Player:
    """Plays a host's events into an engine.

    With ``answer_at_once`` calls are answered as soon as they are made, otherwise by `answer`.
    """

    engine: Engine = field(default_factory=lambda: Engine(chain_settings()))
    effects: list[Effect] = field(default_factory=list)
    open_calls: list[Effect] = field(default_factory=list)
    answer_at_once: bool = True
    sequence: int = 0
    history: Sequence[StoredMessage] = ()

    def event(self, raw: dict[str, Any], now: float) -> None:
        self.sequence += 1
        self._take(self.engine.handle(read_event(raw, sequence=self.sequence), now), now)

    def answer(self, kind: type[Effect], now: float) -> None:
        """Answer the open calls of a kind."""
        for call in [call for call in self.open_calls if isinstance(call, kind)]:
            self.open_calls.remove(call)
            self._take(self.engine.finished(call, Done(), now), now)

    def _take(self, new: list[Effect], now: float) -> None:
        self.effects += new
        for effect in new:
            if isinstance(effect, effects.FetchSession):
                self.engine.finished(effect, Fetched(), now)
            elif isinstance(effect, effects.Claim | effects.Revert | effects.DeleteMessage):
                self._take(self.engine.finished(effect, Done(), now), now)
            elif isinstance(effect, effects.FetchMessages):
                self._take(self.engine.finished(effect, Fetched(messages=tuple(self.history)), now), now)
            elif isinstance(effect, effects.Abort | effects.Prompt):
                self.open_calls.append(effect)
                if self.answer_at_once:
                    self.answer(type(effect), now)

    def count(self, kind: type[Effect]) -> int:
        return sum(isinstance(effect, kind) for effect in self.effects)

    @property
    def asked(self) -> list[ModelRef]:
        return [effect.body.model for effect in self.effects if isinstance(effect, effects.Prompt)]

    @property
    def titles(self) -> list[str]:
        return [effect.body.title for effect in self.effects if isinstance(effect, effects.Toast)]

    @property
    def decisions(self) -> list[str]:
        return [effect.decision for effect in self.effects if isinstance(effect, effects.Record)]


def play(name: str, engine: Engine | None = None) -> Player:
    recorded = list(lines(RECORDINGS / f"{name}.jsonl"))
    player = Player(engine or Engine(chain_settings()))
    player.history = next(
        (read_history(line["client"]["response"]) for line in recorded if is_history(line)), ()
    )
    for line in recorded:
        raw = line.get("event")
        if raw is not None:
            player.event(raw.get("payload", raw), line["t"])
    return player


def is_history(line: dict[str, Any]) -> bool:
    return str(line.get("client", {}).get("did", "")).startswith("GET /session/:id/message")


SWITCHING: Final = [
    "429",
    "429-retry-after-long",
    "429-quota",
    "429-retry-after",
    "429-retry-after-ms",
    "429-retry-after-date",
    "401",
    "402",
    "403",
    "404",
    "500",
    "502-html",
    "503",
    "529",
    "reset",
    "close",
    "error-first",
    "error-mid",
    "timeout-hang",
    "timeout-hang-after-headers",
    "timeout-hang-mid",
    "cut-mid",
    "reset-mid",
    "empty-nothing",
]


@pytest.mark.parametrize("name", SWITCHING)
def test_a_failure_the_host_shows_is_answered_by_one_prompt_to_the_next_model(name: str) -> None:
    player = play(name)
    assert player.asked == [A]
    assert player.count(effects.Abort) == 1
    assert player.titles == ["Model fallback"]


@pytest.mark.parametrize("name", SWITCHING)
def test_the_prompt_runs_the_stored_turn_again_in_place(name: str) -> None:
    sent = next(effect for effect in play(name).effects if isinstance(effect, effects.Prompt))
    user = next(
        line["event"]["properties"]["info"]
        for line in lines(RECORDINGS / f"{name}.jsonl")
        if line.get("event", {}).get("type") == "message.updated"
    )
    assert write_prompt(sent.body) == {
        "messageID": user["id"],
        "parts": [],
        "agent": "build",
        "model": {"providerID": "spare", "modelID": "fallback-a"},
    }


@pytest.mark.parametrize("name", ["empty"])
def test_an_empty_answer_is_deleted_and_its_turn_run_again(name: str) -> None:
    player = play(name)
    assert player.asked == [A]
    assert player.count(effects.Abort) == 0
    assert player.count(effects.DeleteMessage) == 1
    assert player.count(effects.Revert) == 0
    (sent,) = [effect.body for effect in player.effects if isinstance(effect, effects.Prompt)]
    assert sent.message_id is not None
    assert sent.parts == ()


UNTOUCHED: Final = ["ok", "tool", "length", "400", "400-context", "filter"]


@pytest.mark.parametrize("name", UNTOUCHED)
def test_success_and_what_no_other_model_can_mend_send_nothing(name: str) -> None:
    player = play(name)
    assert player.count(effects.Abort) == player.count(effects.Prompt) == player.count(effects.Toast) == 0


@pytest.mark.parametrize("name", ["hang", "hang-after-headers", "hang-mid"])
def test_the_recorders_abort_is_the_users_word_and_sends_nothing(name: str) -> None:
    player = play(name)
    assert player.count(effects.Abort) == player.count(effects.Prompt) == 0
    assert "user stopped" in player.decisions


HAND_MADE: Final = [
    "fallback-same-messageid-noparts",
    "fallback-same-messageid-partid",
    "fallback-after-401-same-messageid",
]


@pytest.mark.parametrize("name", HAND_MADE)
def test_a_switch_made_by_hand_is_followed_to_its_good_end(name: str) -> None:
    # The recorded fallback is of the failed one's provider: its key is taken for one of the model alone.
    one_key_each = [{"pattern": "api key", "kind": "auth", "scope": "model"}]
    player = Player(Engine(settings(chain=("fake/fallback-a",), rules=one_key_each)), answer_at_once=False)
    for line in lines(RECORDINGS / f"{name}.jsonl"):
        did = line.get("client", {})
        if "event" in line:
            player.event(line["event"], line["t"])
        elif did.get("did") == "response" and did["status"] == 200:
            player.answer(effects.Abort, line["t"])
        elif did.get("did") == "response" and did["status"] == 204:
            player.answer(effects.Prompt, line["t"])
    assert player.asked == [ModelRef("fake", "fallback-a")]
    assert player.count(effects.Abort) == 1
    assert player.titles == ["Model fallback", "Model fallback"]
    assert player.decisions[-1] == "switched"


def test_the_global_stream_says_the_same_as_the_directorys() -> None:
    player = Player()
    for line in lines(RECORDINGS / "global-event-401.jsonl"):
        raw = line.get("event", {}).get("payload")
        if raw is not None and raw["type"] != "sync":
            player.event(raw, line["t"])
    assert player.asked == [A]


def trace(name: str) -> Player:
    player = Player()
    for line in lines(TRACES):
        if line["trace"] == name and not line["type"].startswith("HOOK"):
            player.event(line, line["t_ms"] / 1000)
    return player


@pytest.mark.parametrize("name", ["rl", "quota", "five", "five-long", "auth", "pay", "mid", "nope"])
def test_a_traced_failure_is_answered_once(name: str) -> None:
    player = trace(name)
    assert player.asked == [A]
    assert player.count(effects.Abort) == 1


@pytest.mark.parametrize("name", ["ok", "redir", "bad", "ctx"])
def test_a_trace_without_a_failure_of_the_models_sends_nothing(name: str) -> None:
    player = trace(name)
    assert player.count(effects.Abort) == player.count(effects.Prompt) == 0


def test_each_session_of_the_served_trace_is_answered_at_most_once_a_turn() -> None:
    player = trace("serve")
    prompts = [effect for effect in player.effects if isinstance(effect, effects.Prompt)]
    turns = [(prompt.session_id, prompt.body.message_id) for prompt in prompts]
    assert len(turns) == len(set(turns))


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_no_recording_leaves_a_session_in_flight(path: Path) -> None:
    player = play(path.stem)
    assert list(player.engine.switching.in_flight) == []
