"""What has to be done now and then while a host runs."""

import logging
from typing import Final

import anyio

from fallback_plugin.agent.store import Store, events
from fallback_plugin.errors import StoreError

logger = logging.getLogger(__name__)

EVERY_S: Final = 3600.0


async def keep_house(store: Store, *, every_s: float = EVERY_S) -> None:
    """Let go of the events nobody can still be waiting for, at once and then every hour, until cancelled."""
    while True:
        try:
            folded = await store.write(lambda tx: events.fold(tx.rows, tx.now), durable=False)
        except StoreError as error:
            logger.warning("old events stay for now: %s", error)
        else:
            if folded:
                logger.info("%d old events were let go", folded)
        await anyio.sleep(every_s)
