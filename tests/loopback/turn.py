"""One turn on a real OpenCode with scripted models: who was asked, and what the person sees of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from tests.loopback.event_log import Raw, session_of
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import Request, ScriptedProvider

PROMPT: Final = "Who answers?"


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt handed in to a session.

    ``began`` is the position of its first event, ``asked_before`` how many requests the session had made.
    """

    server: OpenCodeServer
    provider: ScriptedProvider
    session: str
    began: int
    asked_before: int

    @classmethod
    def begin(
        cls,
        server: OpenCodeServer,
        provider: ScriptedProvider,
        model: str,
        *,
        agent: str = "build",
        session: str | None = None,
        text: str = PROMPT,
    ) -> Self:
        """Hand a prompt in, to a new session unless one is named. ``model`` is ``provider/model``."""
        session = session or server.create_session()
        turn = cls(server, provider, session, server.events.position, len(provider.requests(session=session)))
        server.prompt(session, text, model, agent=agent)
        return turn

    def requests(self) -> list[Request]:
        """Return the requests to any model since the turn began."""
        return self.provider.requests(session=self.session)[self.asked_before :]

    def asked(self) -> list[str]:
        """Return the models that were asked, in this order."""
        return [request.model for request in self.requests()]

    def wait_for_answer(self, text: str) -> Self:
        """Wait until a text is there, and its run over."""
        self.server.wait_for_answer(self.session, text, since=self.began)
        return self

    def wait_for_switch(self, text: str) -> Self:
        """Wait until a fallback's answer is there, its run over, and the switch announced."""
        self.wait_for_answer(text)
        self.server.events.wait_for_toast("success", since=self.began)
        return self

    def wait_for_delta(self, text: str) -> Self:
        """Wait until this piece of a text arrives."""
        return self._wait_for("message.part.delta", lambda properties: bool(properties["delta"] == text))

    def wait_for_retry(self) -> Self:
        """Wait until the host waits to ask the same model again."""
        return self._wait_for(
            "session.status", lambda properties: bool(properties["status"]["type"] == "retry")
        )

    def wait_for_error(self) -> Self:
        """Wait until an answer is closed with an error."""
        return self._wait_for("message.updated", lambda properties: "error" in properties["info"])

    def stop(self) -> Self:
        """Abort the session, as the person does."""
        self.server.abort(self.session)
        return self

    def is_quiet(self, window_s: float) -> bool:
        """Watch for ``window_s`` whether no model is asked anything more."""
        asked = len(self.provider.requests(session=self.session))
        return self.provider.is_quiet(self.session, after=asked, window_s=window_s)

    def user_texts(self) -> list[list[str]]:
        """Return the texts of each user message in the session's transcript."""
        return [
            [part["text"] for part in message["parts"] if part["type"] == "text"]
            for message in self.server.messages(self.session)
            if message["info"]["role"] == "user"
        ]

    def authors(self) -> list[str]:
        """Return the models that the transcript names as authors of its answers."""
        return [
            message["info"]["modelID"]
            for message in self.server.messages(self.session)
            if message["info"]["role"] == "assistant"
        ]

    def toasts(self, mention: str = "") -> list[Raw]:
        """Return the toasts since the turn began; ``mention`` tells its own from those of other sessions."""
        return [toast for toast in self.server.events.toasts(self.began) if mention in toast["message"]]

    def said(self) -> list[str]:
        """Return the variants of the toasts since the turn began, but for what is said of the settings."""
        of_settings = "Fallback models passed over"
        return [toast["variant"] for toast in self.toasts() if toast["title"] != of_settings]

    def _wait_for(self, kind: str, wanted: Callable[[Raw], bool]) -> Self:
        def found(event: Raw) -> bool:
            if event["type"] != kind or session_of(event) != self.session:
                return False
            return wanted(event["properties"])

        self.server.events.wait_for(found, since=self.began)
        return self
