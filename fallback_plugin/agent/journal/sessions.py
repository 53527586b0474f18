"""What a person does with sessions: begin, name, fork, take back, delete."""

from typing import Final

from fallback_plugin.agent.journal import publishing
from fallback_plugin.agent.journal.copying import copy_messages
from fallback_plugin.agent.journal.defaults import Defaults
from fallback_plugin.agent.journal.delivering import drop_reverted, remove
from fallback_plugin.agent.journal.ending import leave
from fallback_plugin.agent.journal.undoing import Undone, unbusy, undo
from fallback_plugin.agent.records import RunState, Session, TitledBy
from fallback_plugin.agent.store import Store, Transaction, messages, parts, runs, sessions
from fallback_plugin.errors import AgentError
from fallback_plugin.model_ref import ModelRef


class StoredSessions:
    """Changes to sessions outside their runs.

    Calls that lose messages take the revision the caller has seen, and refuse with 409 if it is another by
    now; None stands for whatever it is. They refuse with 409 too while a run is active: stop it first.
    """

    def __init__(self, store: Store, defaults: Defaults) -> None:
        self._store: Final = store
        self._defaults: Final = defaults

    async def create(
        self,
        directory: str,
        *,
        title: str | None = None,
        parent_id: str | None = None,
        agent: str | None = None,
        model: ModelRef | None = None,
    ) -> Session:
        """Begin a session. Raises `AgentError` 404 without the parent."""
        session_id = self._defaults.new_id("ses")

        def work(tx: Transaction) -> Session:
            if parent_id is not None:
                sessions.get(tx.rows, parent_id)
            session = Session(
                id=session_id,
                directory=directory,
                title="New session" if title is None else title,
                titled_by="host" if title is None else "person",
                created_at=tx.now,
                updated_at=tx.now,
                parent_id=parent_id,
                agent=agent,
                model=model,
            )
            sessions.insert(tx.rows, session)
            publishing.session_created(tx, session)
            return session

        return await self._store.write(work)

    async def rename(self, session_id: str, title: str, *, by: TitledBy = "person") -> Session:
        """Give a session a title, under all its ids, and return it. A model's never replaces a person's.

        Only a person's counts as a change of the session; a model's leaves its place in the list.
        """

        def work(tx: Transaction) -> Session:
            current = sessions.latest(tx.rows, session_id)
            if by != "person" and current.titled_by == "person":
                return sessions.get(tx.rows, session_id)
            for each in sessions.ids_of(tx.rows, session_id):
                session = sessions.get(tx.rows, each)
                is_change = by == "person" and each == current.id
                updated_at = tx.now if is_change else session.updated_at
                session = sessions.put(tx.rows, session, title=title, titled_by=by, updated_at=updated_at)
                publishing.session_updated(tx, session)
            return sessions.get(tx.rows, session_id)

        return await self._store.write(work)

    async def delete(self, session_id: str) -> list[str]:
        """Delete a session under all its ids, also a busy one: its runs end. Its children go with it.

        Returns the ids of all that are gone.
        """
        return await self._store.write(lambda tx: _delete(tx, sessions.latest(tx.rows, session_id)))

    async def delete_earlier(self, session_id: str) -> list[str]:
        """Delete what a compacted session was before: the history under an old id and all still older ones.

        The session goes on under its present id; the children of the old ones become its own. Returns the
        ids of all that are gone.

        Raises:
            AgentError: 404 without such a session, 409 if the id is the present one.
        """
        return await self._store.write(lambda tx: _delete_earlier(tx, session_id))

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Begin a session with a copy of what stands before a message, or of everything."""
        fork_id = self._defaults.new_id("ses")

        def work(tx: Transaction) -> Session:
            source = sessions.get(tx.rows, session_id)
            end = messages.get(tx.rows, session_id, message_id).position if message_id else None
            fork = Session(
                id=fork_id,
                directory=source.directory,
                title=f"{source.title} (fork)",
                titled_by=source.titled_by,
                created_at=tx.now,
                updated_at=tx.now,
                agent=source.agent,
                model=source.model,
            )
            sessions.insert(tx.rows, fork)
            publishing.session_created(tx, fork)
            kept = [
                row for row in messages.since(tx.rows, session_id, 0) if end is None or row.position < end
            ]
            copy_messages(tx, kept, fork_id, new_id=self._defaults.new_id)
            return fork

        return await self._store.write(work)

    async def revert(self, session_id: str, message_id: str, *, revision: int | None = None) -> Session:
        """Hide a message and all after it; the next prompt deletes them, `unrevert` shows them again."""

        def work(tx: Transaction) -> Session:
            session = unbusy(tx, session_id, revision)
            message = messages.get(tx.rows, session_id, message_id)
            return _mark_reverted(tx, session, message.id)

        return await self._store.write(work)

    async def unrevert(self, session_id: str, *, revision: int | None = None) -> Session:
        """Show again what `revert` hid."""
        return await self._store.write(lambda tx: _mark_reverted(tx, unbusy(tx, session_id, revision), None))

    async def truncate(self, session_id: str, message_id: str, *, revision: int | None = None) -> Session:
        """Delete a message and all after it."""

        def work(tx: Transaction) -> Session:
            session = unbusy(tx, session_id, revision)
            messages.get(tx.rows, session_id, message_id)
            session = drop_reverted(tx, _mark_reverted(tx, session, message_id))
            publishing.session_updated(tx, session)
            return session

        return await self._store.write(work)

    async def undo(self, session_id: str, *, revision: int | None = None) -> Undone:
        """Delete the last prompt with everything after it, and return its text."""
        return await self._store.write(lambda tx: undo(tx, session_id, revision))

    async def delete_message(self, session_id: str, message_id: str, *, revision: int | None = None) -> None:
        """Delete one message, with its parts."""

        def work(tx: Transaction) -> None:
            session = unbusy(tx, session_id, revision)
            remove(tx, session_id, [messages.get(tx.rows, session_id, message_id)])
            reverted_to = session.reverted_to if session.reverted_to != message_id else None
            sessions.put(tx.rows, session, revision=session.revision + 1, reverted_to=reverted_to)

        await self._store.write(work)

    async def delete_part(self, session_id: str, message_id: str, part_id: str) -> None:
        """Delete one part of a message."""

        def work(tx: Transaction) -> None:
            session = unbusy(tx, session_id, None)
            message = messages.get(tx.rows, session_id, message_id)
            if not parts.delete(tx.rows, message.key, part_id):
                raise AgentError(f"Part not found: {part_id}", status=404)
            sessions.put(tx.rows, session, revision=session.revision + 1)
            publishing.part_removed(tx, session_id, message_id, part_id)

        await self._store.write(work)


def _mark_reverted(tx: Transaction, session: Session, message_id: str | None) -> Session:
    session = sessions.put(tx.rows, session, reverted_to=message_id, revision=session.revision + 1)
    publishing.session_updated(tx, session)
    return session


def _delete(tx: Transaction, session: Session) -> list[str]:
    gone = [each for child in sessions.children(tx.rows, session.id) for each in _delete(tx, child)]
    unended = runs.in_states(tx.rows, _UNENDED, session_id=session.id)
    sessions.delete(tx.rows, session.id, tx.now)
    for run in unended:
        leave(tx, run, "cancelled")
    publishing.session_deleted(tx, session)
    gone.append(session.id)
    if session.continues and (earlier := sessions.find(tx.rows, session.continues)) is not None:
        gone += _delete(tx, earlier)
    return gone


def _delete_earlier(tx: Transaction, session_id: str) -> list[str]:
    session = sessions.get(tx.rows, session_id)
    if session.continued_by is None:
        raise AgentError(f"session {session_id} is no earlier history of another one", status=409)
    ids = sessions.ids_of(tx.rows, session_id)
    for old_id in ids[: ids.index(session_id) + 1]:
        for child in sessions.children(tx.rows, old_id):
            publishing.session_updated(tx, sessions.put(tx.rows, child, parent_id=ids[-1]))
    following = sessions.get(tx.rows, session.continued_by)
    publishing.session_updated(tx, sessions.put(tx.rows, following, continues=None))
    return _delete(tx, session)


_UNENDED: Final[frozenset[RunState]] = runs.WAITING | {"active"}
