"""A prompt is accepted once: a repeated request gets the run that the first one had begun."""

from collections import Counter
from typing import Final

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.delivering import settled
from fallback_plugin.agent.journal.shapes import no_model
from fallback_plugin.agent.protocols import Accepted
from fallback_plugin.agent.records import Json, Run, Session, UserPrompt
from fallback_plugin.agent.store import Transaction, messages, runs, sessions
from fallback_plugin.errors import AgentError


def accept(
    tx: Transaction, session_id: str, prompt: UserPrompt, sequence: int, defaults: Defaults
) -> Accepted:
    """Keep a prompt of a session, or of the one that carries it on."""
    _check_parts(prompt)
    session = sessions.latest(tx.rows, session_id)
    if (earlier := _repeated(tx, session_id, session, prompt)) is not None:
        return Accepted(earlier, is_new=False)
    _check_message(tx, session, prompt)
    run_id = defaults.new_id("run")
    run = Run(
        id=run_id,
        session_id=session.id,
        sequence=sequence,
        message_id=prompt.message_id or defaults.new_id("msg"),
        prompt=prompt,
        accepted_at=tx.now,
    )
    if settled(run, session, defaults).prompt.model is None:
        raise no_model()
    key = prompt.client_key or run.message_id
    if runs.by_key(tx.rows, session.id, key) is not None:
        key = run_id  # The stored message is answered again: its own key stays with the run that was first.
    runs.insert(tx.rows, run, client_key=key, boot=tx.boot)
    publishing.run_updated(tx, run)
    return Accepted(run, is_new=True)


def _repeated(tx: Transaction, session_id: str, session: Session, prompt: UserPrompt) -> Run | None:
    for place in {session.id: session, session_id: sessions.get(tx.rows, session_id)}.values():
        if prompt.client_key is not None:
            found = runs.by_key(tx.rows, place.id, prompt.client_key)
        elif prompt.message_id is None:
            return None
        elif prompt.parts:
            found = runs.by_key(tx.rows, place.id, prompt.message_id)
            if found and found.state == "ended" and not messages.visible(tx.rows, place, found.message_id):
                found = None  # Its message was taken away since, and is sent anew.
        else:
            found = runs.by_message(tx.rows, place.id, prompt.message_id)
            if found and found.state == "ended":
                found = None  # A prompt without parts asks to answer the stored message again.
        if found is None and prompt.message_id is not None:
            found = _waiting_with(tx, place.id, prompt.message_id)
        if found is not None:
            _check_same(found, prompt)
            return found
    return None


def _waiting_with(tx: Transaction, session_id: str, message_id: str) -> Run | None:
    """Return a run whose message has that id and is not stored yet, whatever its key."""
    found = runs.by_message(tx.rows, session_id, message_id)
    return found if found is not None and found.state in runs.WAITING else None


def _check_same(found: Run, prompt: UserPrompt) -> None:
    """Refuse other words under the name of a prompt that was accepted: they would be lost.

    Model and agent stay those of the first request, and new names for the same parts are no difference. A
    prompt without parts says nothing that could be lost.
    """
    is_same = _unnamed(prompt) == _unnamed(found.prompt) and all(
        getattr(prompt, name) == getattr(found.prompt, name) for name in _UNCHANGED
    )
    if prompt.parts and not is_same:
        raise AgentError(
            f"run {found.id} was accepted under this messageID or Idempotency-Key with another content; "
            "send a new prompt under a new one",
            status=409,
        )


_UNCHANGED: Final = ("system", "tools", "format", "no_reply", "delivery")


def _unnamed(prompt: UserPrompt) -> list[Json]:
    return [{name: value for name, value in part.items() if name != "id"} for part in prompt.parts]


def _check_parts(prompt: UserPrompt) -> None:
    named = Counter(str(part["id"]) for part in prompt.parts if part.get("id"))
    if (twice := next((part_id for part_id, count in named.items() if count > 1), None)) is not None:
        raise AgentError(f"two parts of the prompt have the id {twice}; give each its own, or none")


def _check_message(tx: Transaction, session: Session, prompt: UserPrompt) -> None:
    stored = messages.visible(tx.rows, session, prompt.message_id) if prompt.message_id else None
    if stored is None:
        if not prompt.parts:
            raise AgentError("the prompt is empty: give it parts, or the messageID of a stored message")
        return
    if prompt.parts:
        raise AgentError(
            f"message {stored.id} is stored already; leave its parts out to have it answered again",
            status=409,
        )
    last = messages.last_user(tx.rows, session.id)
    if last is None or stored.id != last.id:
        raise AgentError(
            f"message {stored.id} is not the last prompt of session {session.id}; revert to it first",
            status=409,
        )
