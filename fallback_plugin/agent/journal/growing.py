"""Text that grew and is not written down yet."""

from dataclasses import dataclass

from fallback_plugin.errors import AgentError


@dataclass(frozen=True, slots=True)
class Growth:
    """More text of a part; with it the part's text has ``end`` characters."""

    message_id: str
    part_id: str
    text: str
    end: int


class GrowingText:
    """The open texts of one turn."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}
        self._ends: dict[str, int] = {}
        self._pending: dict[str, list[str]] = {}
        self.size = 0
        """Bytes that are not taken yet."""

    def put(self, message_id: str, part_id: str, text: str | None, *, is_open: bool) -> None:
        """Note a part as it was written; None for a text that stays as it is."""
        if not is_open:
            self._messages.pop(part_id, None)
            self._ends.pop(part_id, None)
            return
        self._messages[part_id] = message_id
        self._ends[part_id] = self._ends.get(part_id, 0) if text is None else len(text)

    def append(self, part_id: str, text: str) -> None:
        """Let a part's text grow.

        Raises:
            AgentError: if the part is not open.
        """
        if part_id not in self._messages:
            raise AgentError(f"part {part_id} is not open: put it before its text grows", status=409)
        self._pending.setdefault(part_id, []).append(text)
        self.size += len(text.encode())

    def take(self) -> list[Growth]:
        """Return what came since the last call, the parts in the order in which they grew."""
        taken = []
        for part_id, texts in self._pending.items():
            text = "".join(texts)
            self._ends[part_id] += len(text)
            taken.append(Growth(self._messages[part_id], part_id, text, self._ends[part_id]))
        self._pending.clear()
        self.size = 0
        return taken
