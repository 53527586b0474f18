"""Health that several machines share: a Redis or Valkey server, and beside it the store of this machine.

Everything that is known stands in the local store, so that looking costs no way over the network. A thread
listens to what others change and writes it there. What changes here is changed at the server first, if it
answers in time, and in the local store then. While the server cannot be used, the local store goes on alone:
what it closes is marked as not shared, and handed in when the server is back.
"""

from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Final

from fallback_plugin.health.closure import NEVER, Closure, joined, remembered
from fallback_plugin.health.redis_link import Change, LinkDownError, RedisLink
from fallback_plugin.health.scope import Key
from fallback_plugin.health.store import HealthStore, LocalHealth, Move
from fallback_plugin.health.view import HealthView

if TYPE_CHECKING:
    from dataclasses import replace
else:
    from dataclasses import replace

FIRST_WAIT_S: Final = 0.25
"""How long the first lease waits for the server: what another machine took is not taken twice."""

LONGEST_RETRY_S: Final = 5.0
LISTEN_S: Final = 1.0
ASK_AFTER_S: Final = 5.0
"""After so much silence the server is asked whether it is still there."""
