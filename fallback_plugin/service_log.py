"""The log of a service that runs until it is ended: lines on standard error."""

import logging
import sys
from typing import Final

_CHATTY: Final = ("asyncio", "httpcore", "httpcore2", "httpx", "httpx2", "openai")
"""Libraries whose own news, request lines among them, are kept out below warning."""


def write_log_to_stderr(level: str) -> None:
    """Send all logging of this process to standard error, from ``level`` on."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    set_log_level(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def set_log_level(level: str) -> None:
    """Keep messages from ``level`` on: ``debug``, ``info``, ``warning`` or ``error``."""
    logging.getLogger().setLevel(level.upper())
