"""Stores of several machines at one server, real or imitated, and a way to wait for what they know."""

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Queue
from typing import TYPE_CHECKING, Final

from fakeredis import FakeRedis, FakeServer

from fallback_plugin.health import MemoryHealth
from fallback_plugin.health.closure import Closure
from fallback_plugin.health.redis import RedisHealth
from fallback_plugin.health.redis_link import RedisLink
from fallback_plugin.health.scope import Key
from fallback_plugin.health.store import LocalHealth
from fallback_plugin.settings.store_url import StoreUrl, store_url

if TYPE_CHECKING:
    from redis import Redis

PATIENCE_S: Final = 8.0


@dataclass
class Machine:
    """A store with the texts that it said; ``health`` is made of them."""

    health: RedisHealth
    said: "Queue[str]" = field(default_factory=Queue)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds, asked again whenever the store learns something."""
        with self.health._turn:
            assert self.health._turn.wait_for(condition, timeout=PATIENCE_S), "it never came"

    def wait_online(self) -> None:
        self.wait_until(lambda: self.health._online)

    def wait_for_entries(self, now: float, entries: tuple[tuple[Key, Closure], ...]) -> None:
        self.wait_until(lambda: self.health.view(now).entries() == entries)

    def hears(self) -> str:
        return self.said.get(timeout=PATIENCE_S)


def machine(link: RedisLink, server: StoreUrl, local: LocalHealth | None = None) -> Machine:
    said: Queue[str] = Queue()
    return Machine(RedisHealth(local or MemoryHealth(), link, server=str(server), on_trouble=said.put), said)


def at_imitation(server: FakeServer, local: LocalHealth | None = None) -> Machine:
    """Return a machine at a server that is an object of this process."""

    def connect(_: StoreUrl, __: float) -> "Redis":
        return FakeRedis(server=server, decode_responses=True)

    url = store_url("redis://user:hunter2@imitation/0")
    return machine(RedisLink(url, connect=connect), url, local)


def at_server(url: str, local: LocalHealth | None = None, *, answer_timeout_s: float = PATIENCE_S) -> Machine:
    """Return a machine at a real server, with time for the answers of one that has little."""
    link = RedisLink(store_url(url), answer_timeout_s=answer_timeout_s)
    return machine(link, store_url(url), local)
