"""The store: one SQLite file, one writer, and events that are rows of the same transactions.

Its other modules hold the statements, one module for each kind of row; their functions take a connection,
which is a `Transaction`'s ``rows`` in a write and what `Store.read` hands out in a read.
"""

from fallback_plugin.agent.store.store import Store
from fallback_plugin.agent.store.transaction import Rows, Transaction

__all__ = ["Rows", "Store", "Transaction"]
