"""Turns that many tests begin with, on a `Stage`."""

from typing import Any

from fallback_plugin.fallback import effects
from fallback_plugin.fallback.effects import Effect, TimerFired
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.model_ref import ModelRef
from tests.fallback.stage import PRIMARY, A, Stage, settings


def running(**changes: Any) -> Stage:
    """A turn the primary has begun to work on; nothing has come yet."""
    stage = Stage(Engine(settings(**changes)))
    stage.user()
    stage.answer("msg_2")
    return stage


def rate_limited(**changes: Any) -> Stage:
    """A turn whose primary waits for its first retry; our abort is open."""
    stage = running(**changes)
    stage.retry()
    return stage


def awaiting(**changes: Any) -> Stage:
    """A turn handed to the first fallback, which has begun and has said nothing yet."""
    stage = rate_limited(**changes)
    stage.aborted()
    stage.accepted()
    stage.user("msg_1", A)
    stage.answer("msg_3", A)
    return stage


def answering(**changes: Any) -> Stage:
    """A turn the first fallback answers."""
    stage = awaiting(**changes)
    stage.content("msg_3")
    return stage


def end(stage: Stage, message: str, model: ModelRef = PRIMARY) -> list[Effect]:
    """Let a model say that its answer is complete, whatever it holds."""
    stage.content(message, "step-finish")
    return stage.answer(message, model, finish="stop", time={"created": 1, "completed": 2})


def answered(**changes: Any) -> Stage:
    """A session whose first turn was answered by the first fallback."""
    stage = answering(**changes)
    end(stage, "msg_3", A)
    stage.idle()
    stage.effects.clear()
    return stage


def next_turn(stage: Stage, **user: Any) -> Stage:
    """Let the person send another message, which the first fallback begins to answer."""
    stage.user("msg_5", A, **user)
    stage.answer("msg_6", A, parent="msg_5")
    return stage


def fire(stage: Stage, after_s: float | None = None) -> list[Effect]:
    """Let the timer that was started last run out, and the clock with it."""
    timer = stage.last(effects.StartTimer)
    stage.now += timer.after_s if after_s is None else after_s
    return stage.tell(TimerFired(timer.session_id, timer.name, timer.attempt))
