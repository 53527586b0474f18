"""A second way for the host's questions: two named pipes, at which it waits for the answer on the spot."""

import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import anyio

from fallback_plugin.opencode.json_rpc import INTERNAL_ERROR, OnRequest, Params, Peer, RemoteError
from fallback_plugin.opencode.stdio import FdReceiveStream, FdSendStream
from fallback_plugin.wire.fields import integer

logger = logging.getLogger(__name__)

WAITS_S: Final = 1.0
"""How long a question waits for what the host wrote before it; the host gives it up by then."""

_GREETING: Final = 1
"""The host's first line, which was read before the peer began."""


class SyncChannel:
    """Our ends of both pipes, in a folder that no other user can look into.

    The host removes the folder once it has opened its ends.

    Raises:
        OSError: if there is no place for them, or the system has no named pipes.
    """

    def __init__(self) -> None:
        if not hasattr(os, "mkfifo"):
            raise OSError("this system has no named pipes")
        self.folder: Final = Path(tempfile.mkdtemp(prefix="fallback-plugin-"))
        self.questions: Final = FdReceiveStream(_new_pipe(self.folder / "questions"))
        self.answers: Final = FdSendStream(_new_pipe(self.folder / "answers"))

    async def aclose(self) -> None:
        """Close both, and remove what the host has not."""
        await self.questions.aclose()
        await self.answers.aclose()
        shutil.rmtree(self.folder, ignore_errors=True)


async def serve(host: Peer, answer: OnRequest, *, waits_s: float = WAITS_S) -> None:
    """Offer ``host`` the channel, and answer what comes over it until cancelled.

    A question is read after all lines that were written to the usual pipe before it: ``after`` says how many.
    """

    async def in_turn(method: str, params: Params) -> Any:  # noqa: ANN401 -- any JSON
        logger.debug("asked on the spot: %s", method)
        try:
            with anyio.fail_after(waits_s):
                await host.has_taken((integer(params, "after") or 0) - _GREETING)
        except TimeoutError:
            raise RemoteError(INTERNAL_ERROR, "what was written before it has not come") from None
        return await answer(method, params)

    try:
        channel = SyncChannel()
    except OSError as error:
        logger.info("questions are not answered on the spot: %s", error)
        return
    try:
        host.notify("syncChannel", {"folder": str(channel.folder)})
        await Peer(channel.questions, channel.answers, on_notification=_ignore, on_request=in_turn).run()
    finally:
        await channel.aclose()


def _new_pipe(file: Path) -> int:
    os.mkfifo(file, mode=0o600)
    # Open for both directions: it never ends, and the host may open its end whenever it likes.
    return os.open(file, os.O_RDWR | os.O_NONBLOCK)


def _ignore(method: str, _params: Params) -> None:
    logger.debug("ignored the notification %r", method)
