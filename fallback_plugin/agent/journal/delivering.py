"""A prompt becomes a message: new at the session's end, or a stored one that is to be answered again."""

import dataclasses
from typing import NamedTuple

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.shapes import user_info
from fallback_plugin.agent.prompt_defaults import agent_of, model_of
from fallback_plugin.agent.records import Run, Session, UserPrompt
from fallback_plugin.agent.store import Transaction, messages, parts, sessions
from fallback_plugin.agent.store.messages import MessageRow
from fallback_plugin.model_ref import ModelRef


class Delivered(NamedTuple):
    """The run with its model and agent settled, and the session after it."""

    run: Run
    session: Session


def deliver(tx: Transaction, run: Run, defaults: Defaults, *, writer: Run | None = None) -> Delivered:
    """Store a run's prompt as a message of ``writer``, by default of the run itself."""
    session = drop_reverted(tx, sessions.get(tx.rows, run.session_id))
    run = settled(run, session, defaults)
    prompt, owner = run.prompt, (writer or run).id
    stored = messages.find(tx.rows, session.id, run.message_id)
    if stored is not None:
        session = _make_room(tx, session, stored)
    info = user_info(run, session.id, tx.now)
    message = messages.put(tx.rows, session.id, info, run_id=owner)
    publishing.message_updated(tx, message)
    if stored is None:
        for given in prompt.parts:
            part_id = given.get("id") or defaults.new_id("prt")
            part = {**given, "id": part_id, "messageID": message.id, "sessionID": session.id}
            parts.put(tx.rows, message.key, part, is_open=False)
            publishing.part_updated(tx, part, owner)
    model = _model_to_keep(prompt, session, defaults)
    session = sessions.put(tx.rows, session, model=model, agent=prompt.agent, updated_at=tx.now)
    publishing.session_updated(tx, session)
    return Delivered(run, session)


def settled(run: Run, session: Session, defaults: Defaults) -> Run:
    """Return a run whose prompt names its model and agent: its own, its session's or the default ones."""
    model = model_of(
        run.prompt, session, own=defaults.own_model, default=defaults.model(), knows=defaults.knows
    )
    prompt = dataclasses.replace(run.prompt, model=model, agent=agent_of(run.prompt, session))
    return dataclasses.replace(run, prompt=prompt)


def _model_to_keep(prompt: UserPrompt, session: Session, defaults: Defaults) -> ModelRef | None:
    """Return the model of a session from a prompt on: the one the prompt is for, if there is such a model."""
    wanted = prompt.instead_of or prompt.model
    if wanted is None or defaults.knows(wanted):
        return wanted
    return prompt.model if wanted == session.model else session.model


def drop_reverted(tx: Transaction, session: Session) -> Session:
    """Delete what a revert hid: the next prompt takes its place."""
    if session.reverted_to is None:
        return session
    hidden = messages.find(tx.rows, session.id, session.reverted_to)
    lost = messages.since(tx.rows, session.id, hidden.position) if hidden else []
    remove(tx, session.id, lost)
    return sessions.put(tx.rows, session, reverted_to=None, revision=session.revision + 1)


def remove(tx: Transaction, session_id: str, lost: list[MessageRow], run_id: str | None = None) -> None:
    """Take messages away and tell of it."""
    for message in lost:
        messages.delete(tx.rows, message)
        publishing.message_removed(tx, session_id, message.id, run_id)


def _make_room(tx: Transaction, session: Session, question: MessageRow) -> Session:
    """Remove the old answers of a message. What tools did stays: it happened, and is gone on from."""
    lost = [
        answer
        for answer in messages.since(tx.rows, session.id, question.position + 1)
        if answer.info.get("parentID") == question.id
        and not any(part.get("type") == "tool" for part in parts.of_message(tx.rows, answer.key))
    ]
    if not lost:
        return session
    remove(tx, session.id, lost)
    return sessions.put(tx.rows, session, revision=session.revision + 1)
