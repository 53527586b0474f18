"""The sessions of a project that was moved since the last start are told where it is now."""

import logging
from pathlib import Path

import anyio.to_thread

from fallback_plugin.agent.project_record import ProjectRecord
from fallback_plugin.agent.store import Store, sessions

logger = logging.getLogger(__name__)


async def follow_project(store: Store, directory: Path) -> None:
    """Record where a data folder's project is; if what was recorded is gone, its sessions go along."""
    data = store.file.parent
    before = await anyio.to_thread.run_sync(ProjectRecord.read, data)
    now = await anyio.to_thread.run_sync(ProjectRecord.of, directory)
    if before is not None and before.root != now.root and before.is_gone:
        moved = await store.write(lambda tx: sessions.move(tx.rows, str(before.root), str(now.root)))
        logger.warning("%s is now %s: %d sessions go on here", before.root, now.root, moved)
    if before != now:
        try:
            await anyio.to_thread.run_sync(now.write, data)
        except OSError as error:
            logger.warning("a move of this project will not be noticed: %s", error)
