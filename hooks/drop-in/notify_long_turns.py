"""Show a toast when a turn took longer than a minute.

Copy this file into a folder that ``[plugins] dirs`` of your own fallback.toml names. To change it, take any
other hook of docs/plugins.md: the name of a method says which events it gets.
"""

from collections.abc import Callable
from time import monotonic

from fallback_plugin import HostClient, Toast, hookimpl
from fallback_plugin.events import SessionDeleted, SessionIdle, SessionStatus


class NotifyLongTurns:
    """Remember when each session became busy, and look at the clock when it is idle again."""

    def __init__(self, *, threshold_s: float = 60.0, clock: Callable[[], float] = monotonic) -> None:
        self._threshold_s = threshold_s
        self._clock = clock
        self._began_at: dict[str, float] = {}

    @hookimpl
    def session_status(self, event: SessionStatus) -> None:
        """Note the time of the first ``busy`` of a turn; a turn has one for each of its steps."""
        if event.status == "busy":
            self._began_at.setdefault(event.session_id, self._clock())

    @hookimpl
    async def session_idle(self, event: SessionIdle, host: HostClient) -> None:
        """Tell the person, if the turn was long and theirs; a tool's own sessions are no news."""
        began_at = self._began_at.pop(event.session_id, None)
        if began_at is None or (took_s := self._clock() - began_at) < self._threshold_s:
            return
        session = await host.session(event.session_id)
        if session.parent_id is None:
            minutes, seconds = divmod(round(took_s), 60)
            await host.toast(Toast(title="Turn finished", message=f"It took {minutes} min {seconds} s."))

    @hookimpl
    def session_deleted(self, event: SessionDeleted) -> None:
        """Forget the session: whatever a plugin keeps per session has to end with it."""
        self._began_at.pop(event.session_id, None)


plugin = NotifyLongTurns()
