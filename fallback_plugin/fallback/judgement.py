"""A verdict on anything a host may show of a turn, with nothing else known: for the `classify` command.

The engine judges what it follows; here one object stands for all: a host's error, a bare text, an event,
an answer's text, or a tool's output. What a model or a tool wrote is never an error by what it talks about.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.fallback.evidence import plain
from fallback_plugin.fallback.follow import COMPACTION_AGENT
from fallback_plugin.fallback.policy import Action, decide
from fallback_plugin.fallback.signals import CUT, EMPTY_ENDS, empty_answer
from fallback_plugin.settings import FailureKind, Settings
from fallback_plugin.wire.error import read_error
from fallback_plugin.wire.fields import Json, integer, optional_object, text

JudgedKind: TypeAlias = FailureKind | Literal["negative", "ok"]
JudgedAction: TypeAlias = Action | Literal["self_abort"]

MAX_NOTICE: Final = 400
"""An answer that is longer is an answer, and no provider's notice in place of one."""

_NOTICE: Final = (
    r"^\W{0,4}(?:you(?:'ve| have) (?:hit|reached|exceeded|used up)|your (?:quota|usage|credit)"
    r"|(?:usage|rate|weekly|daily|monthly|5-hour) .{0,20}limit (?:reached|exceeded|exhausted))"
)
_EMPTY_ENDS: Final = EMPTY_ENDS | {"end_turn", "end-turn", "max_tokens"}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be made of one report.

    Attributes:
        retries: how often the model is asked once more before it is left, where another one is usable.
        rule: what decided.
    """

    kind: JudgedKind
    action: JudgedAction
    retries: int = 0
    scope: str | None = None
    retry_after_s: float | None = None
    rule: str = ""


def judge(
    report: Json, now: float, *, provider: str | None = None, settings: Settings | None = None
) -> Judgement:
    """Judge ``{name, data}``, ``{text}``, ``{event, …}``, ``{assistant_text, …}`` or ``{tool_output}``.

    ``settings`` are the person's, for rules and policy. Raises nothing for any JSON object.
    """
    settings = settings or Settings()
    if "tool_output" in report:
        return Judgement("negative", "no_fallback", rule="the output of a tool")
    if "assistant_text" in report:
        return _of_answer(report, now, provider, settings)
    if "event" in report:
        return _of_event(report, now, provider, settings)
    compacting = report.get("agent") == COMPACTION_AGENT
    return _of_error(_error(report), now, provider, settings, ours=_ours(report), compacting=compacting)


def _error(report: Json) -> HostError:
    """Read the error object, or a bare text with what is known beside it."""
    said = text(report, "text")
    if said is None:
        return read_error(report)
    return HostError(
        name=text(report, "name") or "", message=said, status_code=integer(report, "http_status")
    )


def _ours(report: Json) -> bool:
    data = optional_object(report, "data") or {}
    return report.get("own_abort_open") is True or data.get("own_abort_open") is True


def _of_error(
    error: HostError,
    now: float,
    provider: str | None,
    settings: Settings,
    *,
    ours: bool = False,
    compacting: bool = False,
    wait_s: float | None = None,
) -> Judgement:
    rules = settings.fallback.rules
    failure = classify(error, now, rules=rules, provider=provider, compacting=compacting)
    if wait_s is not None:
        failure = failure.with_host_wait(wait_s)
    if failure.kind == "abort" and ours:
        return Judgement("abort", "self_abort", rule="an abort of ours is open")
    return _judged(failure, provider, settings)


def _judged(failure: Failure, provider: str | None, settings: Settings) -> Judgement:
    verdict = decide(failure, settings, provider=provider)
    return Judgement(
        failure.kind, verdict.action, verdict.retries, failure.scope, failure.retry_after_s, failure.evidence
    )


def _of_answer(report: Json, now: float, provider: str | None, settings: Settings) -> Judgement:
    """Judge an answer's text: a notice of a limit counts only where nothing was asked of the model at all."""
    said = text(report, "assistant_text") or ""
    tokens = optional_object(report, "tokens")
    unasked = tokens is not None and not any(integer(tokens, key) for key in ("input", "output"))
    notice = len(said) <= MAX_NOTICE and _notice().search(plain(said))
    if not (unasked and notice and not integer(report, "tools")):
        return Judgement("negative", "no_fallback", rule="the words of an answer")
    return _of_error(HostError(name="", message=said), now, provider, settings)


def _of_event(report: Json, now: float, provider: str | None, settings: Settings) -> Judgement:
    match report.get("event"):
        case "session.status":
            status = optional_object(report, "status") or {}
            return _of_status(status, report, now, provider, settings)
        case "message.updated":
            return _of_message(optional_object(report, "info") or {}, report, now, provider, settings)
        case "session.error":
            raw = report.get("error") or (optional_object(report, "properties") or {}).get("error")
            return _of_error(read_error(raw), now, provider, settings, ours=_ours(report))
        case "message.part.updated":
            part = optional_object(report, "part") or {}
            if part.get("type") == "error":
                said = text(part, "text") or text(part, "error") or ""
                return _of_error(HostError(name="", message=said), now, provider, settings)
    return Judgement("ok", "no_fallback", rule="no failure")


def _of_status(status: Json, report: Json, now: float, provider: str | None, settings: Settings) -> Judgement:
    if status.get("type") != "retry":
        return Judgement("ok", "no_fallback", rule="no failure")
    error = HostError(name="", message=text(status, "message") or "")
    return _of_error(error, now, provider, settings, wait_s=_next_in_s(status, report, now))


def _next_in_s(status: Json, report: Json, now: float) -> float | None:
    told = report.get("next_in_s")
    if isinstance(told, int | float) and not isinstance(told, bool):
        return float(told)
    moment = status.get("next")
    return moment / 1000 - now if isinstance(moment, int | float) and not isinstance(moment, bool) else None


def _of_message(info: Json, report: Json, now: float, provider: str | None, settings: Settings) -> Judgement:
    if info.get("error"):
        return _of_error(read_error(info["error"]), now, provider, settings, ours=_ours(report))
    finish = text(info, "finish")
    completed = (optional_object(info, "time") or {}).get("completed") is not None
    if finish is None and completed:
        # An abort ends a retry wait so: a completed message without a finish and without an error.
        action: JudgedAction = "self_abort" if _ours(report) else "user_abort"
        return Judgement("abort", action, rule="completed without a finish")
    if finish == "unknown":
        return _judged(CUT, provider, settings)
    if finish is not None and finish in _EMPTY_ENDS and not _speaks(report.get("parts", info.get("parts"))):
        return _judged(empty_answer(finish), provider, settings)
    return Judgement("ok", "no_fallback", rule="no failure")


def _speaks(parts: object) -> bool:
    """Tell whether an answer holds text or a tool call."""
    return any(_is_content(part) for part in parts) if isinstance(parts, list) else False


def _is_content(part: Any) -> bool:  # noqa: ANN401 -- any JSON value
    if not isinstance(part, Mapping):
        return False
    return part.get("type") == "tool" or (
        part.get("type") == "text" and bool(str(part.get("text") or "").strip())
    )


@cache
def _notice() -> re.Pattern[str]:
    return re.compile(_NOTICE)
