"""Everything a host published since we listen, to be waited on and looked through."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx2

Raw: TypeAlias = Mapping[str, Any]

_HEARTBEAT_LIMIT_S: Final = 30.0
_SHOWN: Final = 40


class EventLog:
    """Read ``GET /event`` of a folder, by default the host's own, in a thread until the host ends the stream.

    Positions count events from 0: take `position` before doing something, then look at what came since.
    """

    def __init__(
        self, base_url: str, auth: httpx2.Auth | None = None, *, directory: Path | None = None
    ) -> None:
        self._url: Final = f"{base_url}/event"
        self._auth: Final = auth
        self._headers: Final = folder_header(directory)
        self._events: list[Raw] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="event-log", daemon=True)

    def start(self) -> None:
        """Begin to listen, and return when the host confirmed it."""
        self._thread.start()
        self.wait_for(lambda event: event["type"] == "server.connected")

    def join(self) -> None:
        """Wait for the end of the stream, after the host was stopped."""
        self._thread.join()

    @property
    def position(self) -> int:
        """How many events there are."""
        return len(self._events)

    def since(self, position: int = 0, *, type: str | None = None, session: str | None = None) -> list[Raw]:  # noqa: A002 -- the host's word
        """Return the events from ``position`` on, of one type and of one session if asked for."""
        return [
            event
            for event in self._events[position:]
            if type in (None, event["type"]) and session in (None, session_of(event))
        ]

    def toasts(self, since: int = 0) -> list[Raw]:
        """Return what was shown to the person, as ``{title, message, variant, duration}``."""
        return [toast for event in self.since(since) if (toast := toast_of(event))]

    def wait_for_toast(self, *variants: str, since: int = 0) -> Raw:
        """Return the first toast from ``since`` on, of one of these variants if any are given."""

        def shown(event: Raw) -> bool:
            toast = toast_of(event)
            return toast is not None and (not variants or toast["variant"] in variants)

        toast: Raw = self.wait_for(shown, since=since)["properties"]
        return toast

    def wait_for(self, wanted: Callable[[Raw], bool], *, since: int = 0, timeout_s: float = 60.0) -> Raw:
        """Return the first event from ``since`` on for which ``wanted`` is true, as soon as it is there."""
        found: list[Raw] = []

        def look() -> bool:
            found.extend(event for event in self._events[since:] if wanted(event))
            return bool(found)

        with self._changed:
            if not self._changed.wait_for(look, timeout_s):
                seen = [event["type"] for event in self._events[since:]]
                last = ", ".join(seen[-_SHOWN:]) or "nothing"
                raise AssertionError(
                    f"not within {timeout_s} s; since then came {len(seen)} events, at last {last}"
                )
        return found[0]

    def _read(self) -> None:
        try:
            with httpx2.stream(
                "GET", self._url, auth=self._auth, headers=self._headers, timeout=_HEARTBEAT_LIMIT_S
            ) as response:
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        self._keep(json.loads(line.removeprefix("data:")))
        except httpx2.TransportError:
            # The host was stopped; a test that still waits says what it waits for.
            return

    def _keep(self, event: Raw) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()


def folder_header(directory: Path | None) -> dict[str, str]:
    """Return the header that names a project folder; none for the host's own."""
    return {"x-opencode-directory": str(directory)} if directory else {}


def session_of(event: Raw) -> str | None:
    """Return the session an event is about, if it is about one."""
    properties = event["properties"]
    places = (properties, properties.get("info", {}), properties.get("part", {}))
    found = next((place["sessionID"] for place in places if "sessionID" in place), None)
    return found if isinstance(found, str) else None


def toast_of(event: Raw) -> Raw | None:
    """Return what a toast event shows, or None if it is another event."""
    toast: Raw | None = event["properties"] if event["type"] == "tui.toast.show" else None
    return toast
