"""Every answer is what it says it is: no browser guesses another type from what is in it."""

from typing import Final

from fallback_plugin.agent.http.guard import App, Message, Receive, Send

_HEADER: Final = (b"x-content-type-options", b"nosniff")


class NoSniffing:
    """Let ``app`` answer, whatever it answers, with the header that says so."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection of uvicorn's."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), _HEADER]}
            await send(message)

        await self._app(scope, receive, answer)
