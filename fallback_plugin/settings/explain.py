"""Settings as a flat list: each key with its value and where the value came from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fallback_plugin.settings.layer import Origin, dotted
from fallback_plugin.settings.load import LoadedSettings
from fallback_plugin.settings.toml_positions import KeyPath


@dataclass(frozen=True, slots=True)
class Explained:
    """One setting: its dotted key, its value as JSON has it, its origin."""

    key: str
    value: object
    origin: Origin

    def is_under(self, key: str) -> bool:
        """Tell whether this is the setting ``key`` or stands in the table ``key``; quotes are optional."""
        own, asked = self.key.replace('"', ""), key.replace('"', "")
        return own == asked or own.startswith(f"{asked}.")


def explained(loaded: LoadedSettings) -> list[Explained]:
    """Return every setting in force, in the order of the tables. Durations are in seconds."""
    return [
        Explained(dotted(path), value, loaded.origins.get(dotted(path), Origin("default")))
        for path, value in _values(loaded.settings.model_dump(mode="json"), ())
    ]


def _values(table: Mapping[str, object], path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _values(value, (*path, key))
        else:
            yield (*path, key), value
