"""Which implementations an event goes to, plugin by plugin."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from fallback_plugin.events import Event, SessionCreated, SessionDeleted
from fallback_plugin.plugins.registry import Implementation, Registry
from fallback_plugin.plugins.runner import PluginRunner
from fallback_plugin.plugins.subscriptions import HOOKS

_REMEMBERED_DELETIONS: Final = 256

Route = tuple[PluginRunner, tuple[Implementation, ...]]
"""A plugin and what to call in it, in order."""


class Router:
    """Look up an event's routes: ``event`` first, then the narrow hook of its class.

    ``session_deleted`` is the last narrow hook about a session: what a host still says about it afterwards
    goes to ``event`` alone. The latest deletions are remembered for that.
    """

    def __init__(self, registry: Registry, runners: Iterable[PluginRunner]) -> None:
        runners = tuple(runners)
        self._everything = tuple(_routes(registry, runners, ("event",)))
        self._narrow = {
            kind: tuple(_routes(registry, runners, ("event", hook))) for kind, hook in HOOKS.items()
        }
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def routes(self, event: Event) -> tuple[Route, ...]:
        """Return where the host's next event goes."""
        routes = self._narrow.get(type(event), self._everything)
        session_id = event.session_id
        if session_id is None:
            return routes
        if isinstance(event, SessionCreated):
            self._deleted.pop(session_id, None)
        elif session_id in self._deleted:
            return self._everything
        elif isinstance(event, SessionDeleted):
            self._deleted[session_id] = None
            if len(self._deleted) > _REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)
        return routes


def _routes(registry: Registry, runners: Iterable[PluginRunner], hooks: tuple[str, ...]) -> Iterator[Route]:
    wanted = [implementation for hook in hooks for implementation in registry.implementations(hook)]
    for runner in runners:
        own = tuple(found for found in wanted if found.plugin == runner.plugin)
        if own:
            yield runner, own
