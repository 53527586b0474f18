"""The models that the host offers, and those of the chains that it does not."""

import logging

from fallback_plugin.errors import HostCallError
from fallback_plugin.fallback import toasts
from fallback_plugin.fallback.choosing import unlisted
from fallback_plugin.fallback.engine import Engine
from fallback_plugin.host_client import HostClient
from fallback_plugin.model_ref import ModelRef

log = logging.getLogger(__name__)


class HostModels:
    """Keeps the engine's catalog; as long as the host says nothing, every model may be asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._said = frozenset[ModelRef]()

    async def read(self, host: HostClient) -> None:
        """Ask the host what it offers."""
        try:
            self._engine.catalog = await host.models()
        except HostCallError as error:
            log.info("the host's models: %s", error)
        else:
            await self.say_unlisted(host)

    async def say_unlisted(self, host: HostClient) -> None:
        """Say once which models of the chains the host does not list."""
        catalog = self._engine.catalog
        unknown = unlisted(self._engine.settings, catalog) - self._said
        if not unknown:
            return
        self._said |= unknown
        named = sorted(unknown, key=str)
        note = toasts.unlisted({model: catalog.unconnected.get(model.provider) for model in named})
        log.warning("%s", note.message)
        if not self._engine.settings.fallback.notify:
            return
        try:
            await host.toast(note)
        except HostCallError as error:
            log.info("the note on models of the chains: %s", error)
