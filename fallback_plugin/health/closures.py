"""The records that are known, in memory."""

from collections.abc import Mapping
from types import MappingProxyType

from fallback_plugin.health.closure import Closure, remembered
from fallback_plugin.health.scope import Key


class Closures:
    """The record of each key. What was handed out stays as it is: it is copied before the next change."""

    def __init__(self) -> None:
        self._records: dict[Key, Closure] = {}
        self._handed_out: Mapping[Key, Closure] | None = None

    def get(self, key: Key) -> Closure | None:
        """Return the record of a key, None if it is open."""
        return self._records.get(key)

    def put(self, key: Key, record: Closure | None) -> None:
        """Write a key's record down, or strike it out."""
        if record == self._records.get(key) and (
            record is None or record.shared == self._records[key].shared
        ):
            return
        self._make_own()
        if record is None:
            self._records.pop(key, None)
        else:
            self._records[key] = record

    def replace(self, records: Mapping[Key, Closure]) -> None:
        """Forget what was known and take other knowledge in."""
        self._records = dict(records)
        self._handed_out = None

    def forget(self, now: float) -> None:
        """Strike out what is too old to say anything."""
        if not all(remembered(record, now) for record in self._records.values()):
            self.replace({key: record for key, record in self._records.items() if remembered(record, now)})

    def all(self) -> Mapping[Key, Closure]:
        """Return all records, read-only: the same object again as long as nothing changed."""
        if self._handed_out is None:
            self._handed_out = MappingProxyType(self._records)
        return self._handed_out

    def _make_own(self) -> None:
        if self._handed_out is not None:
            self._records = dict(self._records)
            self._handed_out = None
