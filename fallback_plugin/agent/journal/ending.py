"""A run's end: whatever is open is closed, and the one terminal event follows from what is stored."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.delivering import settled
from fallback_plugin.agent.journal.shapes import (
    ABORTED,
    INTERRUPTED,
    UNKNOWN_ERROR,
    ended_answer,
    milliseconds,
    plain_text,
)
from fallback_plugin.agent.records import Json, Outcome, Run, Session
from fallback_plugin.agent.store import Transaction, messages, parts, runs, sessions
from fallback_plugin.agent.store.messages import MessageRow
from fallback_plugin.agent.store.parts import GROWING
from fallback_plugin.wire.fields import optional_object

_OWN_ERROR: Final[Mapping[Outcome, Json]] = {"cancelled": ABORTED, "interrupted": INTERRUPTED}
_NEEDS_ERROR: Final[frozenset[Outcome]] = frozenset({"failed", "cancelled", "interrupted"})


def end_run(tx: Transaction, run: Run, outcome: Outcome, error: Json | None, defaults: Defaults) -> Run:
    """End a run that has not ended: close its parts and answers, and append its terminal event."""
    if outcome in _NEEDS_ERROR:
        error = error or _OWN_ERROR.get(outcome, UNKNOWN_ERROR)
    session = sessions.get(tx.rows, run.session_id)
    close_parts(tx, run.id, outcome)
    answers = [row for row in messages.of_run(tx.rows, run.id, session.id) if not row.is_user]
    for answer in answers:
        _close_answer(tx, answer, run, outcome, error)
    if error and outcome in _NEEDS_ERROR and not _shows_error(tx, session, answers):
        info = ended_answer(defaults.new_id("msg"), settled(run, session, defaults), session, tx.now)
        answers.append(_put_answer(tx, run, outcome, {**info, "error": error}))
    if error and outcome == "failed":
        publishing.session_failed(tx, run, error)
    session = sessions.put(tx.rows, session, updated_at=tx.now)
    publishing.session_updated(tx, session)
    return leave(tx, run, outcome, error, answers[-1] if answers else None)


def leave(
    tx: Transaction, run: Run, outcome: Outcome, error: Json | None = None, answer: MessageRow | None = None
) -> Run:
    """End a run without a look at its messages. Every run's end comes through here, once."""
    run = dataclasses.replace(run, state="ended", outcome=outcome, error=error, writer=None, ended_at=tx.now)
    runs.put(tx.rows, run, boot=tx.boot)
    text = plain_text(parts.of_message(tx.rows, answer.key)) if answer else ""
    publishing.run_ended(tx, run, message_id=answer.id if answer else None, text=text)
    return run


def close_parts(tx: Transaction, run_id: str, outcome: Outcome) -> None:
    """Give every open part of a run an end: tools an error, so that the next request is valid."""
    for found in parts.open_in_run(tx.rows, run_id):
        closed = closed_part(found.body, outcome, milliseconds(tx.now))
        message = messages.get(tx.rows, found.session_id, found.message_id)
        parts.put(tx.rows, message.key, closed, is_open=False)
        publishing.part_updated(tx, closed, run_id)


def closed_part(part: Mapping[str, Any], outcome: Outcome, now_ms: int) -> dict[str, Any]:
    """Return an open part as it stands after its run ended before it did."""
    if part.get("type") in GROWING:
        return {**part, "time": {"start": now_ms, **(optional_object(part, "time") or {}), "end": now_ms}}
    if part.get("type") != "tool":
        return dict(part)
    state = optional_object(part, "state") or {}
    word = {"cancelled": "Cancelled", "interrupted": "Interrupted by a restart of the host"}.get(
        outcome, "Ended"
    )
    started = state.get("status") == "running"
    effect = "while it ran: whether it took effect is not known" if started else "before it ran"
    time = {"start": now_ms, **(optional_object(state, "time") or {}), "end": now_ms}
    kept = {name: state[name] for name in ("metadata",) if name in state}
    closed = {
        "status": "error",
        "input": optional_object(state, "input") or {},
        "error": f"{word} {effect}",
        "time": time,
    }
    return {**part, "state": {**kept, **closed}}


def _close_answer(
    tx: Transaction, answer: MessageRow, run: Run, outcome: Outcome, error: Json | None
) -> None:
    time = optional_object(answer.info, "time") or {}
    if time.get("completed") is None:
        shown = {"error": error} if error and outcome in _NEEDS_ERROR else {}
        completed = {"time": {**time, "completed": milliseconds(tx.now)}}
        _put_answer(tx, run, outcome, {**shown, **answer.info, **completed})


def _put_answer(tx: Transaction, run: Run, outcome: Outcome, info: Json) -> MessageRow:
    if outcome == "interrupted":
        info = {**info, "finish": outcome}
    answer = messages.put(tx.rows, run.session_id, info, run_id=run.id)
    publishing.message_updated(tx, answer)
    return answer


def _shows_error(tx: Transaction, session: Session, answers: list[MessageRow]) -> bool:
    return bool(answers) and "error" in messages.get(tx.rows, session.id, answers[-1].id).info
