"""Which implementations an event goes to, plugin by plugin."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from fallback_plugin.events import Event, MessagePartDelta, SessionCreated, SessionDeleted, SessionIdle
from fallback_plugin.hookspecs import ACTIVITY_EVERY_S
from fallback_plugin.plugins.copied_history import CopiedHistory
from fallback_plugin.plugins.registry import Implementation, Registry
from fallback_plugin.plugins.runner import PluginRunner
from fallback_plugin.plugins.sampling import Sampler
from fallback_plugin.plugins.subscriptions import HOOKS, SAMPLED_HOOK

_REMEMBERED_DELETIONS: Final = 256

_EARLIEST_S: Final = 0.9 * ACTIVITY_EVERY_S
"""A host that samples by itself may seem early by what its last delta was late; that one still counts."""

Route = tuple[PluginRunner, tuple[Implementation, ...]]
"""A plugin and what to call in it, in order."""


class Router:
    """Look up an event's routes: ``event`` first, then the narrow hook of its class.

    A text delta has no narrow hook but for one in a while.

    ``session_deleted`` is the last narrow hook about a session: what a host still says about it afterwards
    goes to ``event`` alone. The latest deletions are remembered for that. So does history that was copied
    into a fork: nothing happens there.
    """

    def __init__(
        self, registry: Registry, runners: Iterable[PluginRunner], clock: Callable[[], float]
    ) -> None:
        runners = tuple(runners)
        self._everything = tuple(_routes(registry, runners, ("event",)))
        self._narrow = {
            kind: tuple(_routes(registry, runners, ("event", hook))) for kind, hook in HOOKS.items()
        }
        self._activity = tuple(_routes(registry, runners, ("event", SAMPLED_HOOK)))
        self._sampler = Sampler(_EARLIEST_S, clock)
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._copied = CopiedHistory()

    def routes(self, event: Event) -> tuple[Route, ...]:
        """Return where the host's next event goes."""
        routes = self._narrow.get(type(event), self._everything)
        session_id = event.session_id
        if session_id is None:
            return routes
        if self._copied.is_copy(event):
            return self._everything
        if isinstance(event, SessionCreated):
            self._deleted.pop(session_id, None)
        elif session_id in self._deleted:
            return self._everything
        elif isinstance(event, MessagePartDelta):
            return self._activity if self._sampler.is_due(session_id) else self._everything
        elif isinstance(event, SessionIdle):
            self._sampler.forget(session_id)
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
