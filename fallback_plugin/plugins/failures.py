"""Say each failure of a plugin once, however often it happens."""

import logging
from typing import Final

from fallback_plugin.plugins.registry import LoadedPlugin

logger = logging.getLogger(__name__)

MAX_DISTINCT: Final = 1_000
"""How many failures are told apart; beyond it new ones are logged like repeated ones."""


class FailureLog:
    """Log failures: the first of its kind at error with its traceback, its repetitions at debug.

    Two failures are the same if plugin, hook, exception type and message are.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, type[BaseException], str], int] = {}

    def record(self, plugin: LoadedPlugin, hook: str, error: BaseException) -> None:
        """Log one failure of a plugin in a hook."""
        key = (plugin.name, hook, type(error), str(error))
        count = self._counts.get(key, 0) + 1
        if count > 1 or len(self._counts) < MAX_DISTINCT:
            self._counts[key] = count
            first = count == 1
        else:
            first = False
        if first:
            logger.error(
                "plugin %r (%s) failed in %s; other plugins are not affected",
                plugin.name,
                plugin.origin,
                hook,
                exc_info=error,
            )
        else:
            kind = type(error).__name__
            logger.debug("plugin %r failed in %s again: %s, %d times", plugin.name, hook, kind, count)
