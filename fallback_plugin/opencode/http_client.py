"""OpenCode's calls over HTTP, for hosts that listen: ``opencode serve`` and ``opencode --port``."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx2
from anyio import fail_after, move_on_after

from fallback_plugin.errors import HostCallError, HostCallTimeoutError, WireError
from fallback_plugin.events import SessionStatus, StoredMessage, UserMessage
from fallback_plugin.host_client import OUTDATED, HostKind, Receipt, SessionInfo
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.network import is_this_machine, proxy_problem, trusted_certificates
from fallback_plugin.opencode.answers import (
    FIRST_FAILURE,
    failure_text,
    read_answer,
    read_session,
    refusal_text,
)
from fallback_plugin.opencode.event_stream import open_events
from fallback_plugin.opencode.permission_requests import PermissionReply
from fallback_plugin.opencode.run_ends import NEWEST, RunEnds, gone_on
from fallback_plugin.wire.event import read_event
from fallback_plugin.wire.fields import Json
from fallback_plugin.wire.message import read_history
from fallback_plugin.wire.model_catalog import ModelCatalog, read_catalog
from fallback_plugin.wire.prompt import Prompt, write_prompt
from fallback_plugin.wire.toast import Toast, write_toast

DEFAULT_USER: Final = "opencode"
"""The user name OpenCode asks for unless ``OPENCODE_SERVER_USERNAME`` names another."""

_CONNECT_S: Final = 5.0
_OUR_CALL: Final = {"x-fallback-plugin": "ours"}
"""Tells a plugin in the same OpenCode that a stop is not the user's (hooks/opencode/stops.js)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long the host may take for a call, in seconds, from the first byte sent to the last one read.

    The first call for a folder loads its configuration and plugins; ``boot_s`` is for those.
    """

    change_s: float = 10.0
    abort_s: float = 60.0
    history_s: float = 10.0
    lookup_s: float = 3.0
    toast_s: float = 3.0
    boot_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Health:
    """What a server says about itself."""

    healthy: bool
    version: str


@asynccontextmanager
async def connect(
    url: str,
    *,
    directory: str = "",
    password: str | None = None,
    user: str = DEFAULT_USER,
    deadlines: Deadlines | None = None,
) -> AsyncIterator["OpenCodeHttpClient"]:
    """Open a client for the server at ``url`` and one of its project folders, by default the server's own.

    Nothing is sent before the first call. A user and password inside the URL count unless ``password`` is
    given, and are taken out of it, since URLs are logged. Proxies of the environment are used, but not for
    this machine.

    Raises:
        HostCallError: if ``url`` is not one of http or https with a host, or if the proxies or certificates
            that the environment names cannot be used.
    """
    address = _address(url)
    is_local = is_this_machine(address.host)
    if not is_local and (problem := proxy_problem()):
        raise HostCallError(problem)
    found = (user, password) if password is not None else (address.username or user, address.password)
    try:
        client = httpx2.AsyncClient(
            base_url=address.copy_with(username=None, password=None),
            auth=httpx2.BasicAuth(*found) if found[1] else None,
            timeout=httpx2.Timeout(None, connect=_CONNECT_S),
            verify=trusted_certificates(),
            trust_env=not is_local,
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        raise HostCallError(f"the connection cannot be set up: {error}") from error
    async with client as http:
        yield OpenCodeHttpClient(http, directory=directory, deadlines=deadlines or Deadlines())


class OpenCodeHttpClient:
    """Implements `HostCalls` over HTTP; made by `connect`.

    Every call raises `HostCallError` with the host's own words and status, or `HostCallTimeoutError`.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        directory: str,
        deadlines: Deadlines,
        run_ends: RunEnds | None = None,
    ) -> None:
        self._http = http
        self._run_ends = run_ends or RunEnds()
        self._directory = directory
        folder = {"x-opencode-directory": _header_text(directory)} if directory else {}
        self._headers = {**folder, **_OUR_CALL}
        self._deadlines = deadlines

    def at(self, directory: str) -> "OpenCodeHttpClient":
        """Return a client for another folder of the server, over the same connections."""
        return OpenCodeHttpClient(
            self._http, directory=directory, deadlines=self._deadlines, run_ends=self._run_ends
        )

    @property
    def kind(self) -> HostKind:
        """How the host runs: a server this process is attached to."""
        return "attach"

    @property
    def directory(self) -> str:
        """The project folder whose sessions and events these are; empty for the server's own."""
        return self._directory

    async def health(self) -> Health:
        """Ask the server whether it is well, and for its version."""
        answer = await self._object("GET", "/global/health", self._deadlines.lookup_s)
        return Health(answer.get("healthy") is True, str(answer.get("version", "")))

    async def own_directory(self) -> str:
        """Ask for the path of this folder, on the server's machine."""
        answer = await self._object("GET", "/path", self._deadlines.boot_s)
        directory = answer.get("directory")
        if not isinstance(directory, str) or not directory:
            raise HostCallError("GET /path: the answer names no folder; is this OpenCode?")
        return directory

    async def config(self) -> Json:
        """Return the folder's configuration, as OpenCode has merged it. It may hold keys of providers."""
        return await self._object("GET", "/config", self._deadlines.boot_s)

    async def create_session(
        self,
        *,
        title: str | None = None,
        parent_id: str | None = None,
        agent: str | None = None,
        model: ModelRef | None = None,
    ) -> SessionInfo:
        """Create a session. One with a title of its own spares the host the request for one."""
        body: dict[str, Any] = {"title": title, "parentID": parent_id, "agent": agent}
        if model:
            # Here the host spells the model's key `id`, and takes the variant inside.
            body["model"] = {"id": model.model, "providerID": model.provider}
            if model.variant:
                body["model"]["variant"] = model.variant
        body = {key: value for key, value in body.items() if value is not None}
        return _session(await self._object("POST", "/session", self._deadlines.boot_s, body))

    async def session(self, session_id: str) -> SessionInfo:
        """Look one session up."""
        return _session(await self._object("GET", _path(session_id), self._deadlines.lookup_s))

    async def status(self) -> dict[str, SessionStatus]:
        """Return what each session is doing that is not idle, by session id."""
        answer = await self._object("GET", "/session/status", self._deadlines.lookup_s)
        return {
            session_id: status for session_id, raw in answer.items() if (status := _status(session_id, raw))
        }

    async def messages(self, session_id: str) -> list[StoredMessage]:
        """Return the session's history, oldest first."""
        return read_history(await self.stored_messages(session_id))

    async def newest_messages(self, session_id: str, count: int) -> list[StoredMessage]:
        """Return the end of the session's history, oldest first."""
        path = f"{_path(session_id, 'message')}?limit={count}"
        return read_history(await self._call("GET", path, self._deadlines.history_s))

    async def stored_messages(self, session_id: str) -> object:
        """Return the session's history as the host stores it."""
        return await self._call("GET", _path(session_id, "message"), self._deadlines.history_s)

    async def models(self) -> ModelCatalog:
        """Return the connected providers, their models, and what the host knows of these."""
        return read_catalog(await self._object("GET", "/config/providers", self._deadlines.boot_s))

    async def abort(self, session_id: str, *, after: int | None = None, run_over: bool = False) -> Receipt:  # noqa: ARG002 -- cannot tell
        """Stop the session's run. The host answers once the run is over, and a second abort at once.

        A run that is ending by itself is left to end: an abort of ours would hide the user's.
        """
        receipt = None
        try:
            with move_on_after(self._deadlines.change_s):
                receipt = await self._run_ends.own_end(self, session_id)
        except HostCallError as error:
            if error.status == OUTDATED:
                raise
        if receipt is not None:
            return receipt
        if run_over and session_id in await self.status():
            raise gone_on()
        await self._call("POST", _path(session_id, "abort"), self._deadlines.abort_s)
        try:
            return Receipt(ended=session_id not in await self.status())
        except HostCallError:
            return Receipt()

    async def prompt(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        after: int | None = None,  # noqa: ARG002 -- cannot tell
    ) -> Receipt:
        """Hand a prompt in; success means accepted, not that it runs.

        One that runs a message again is refused if the user has sent another one since: OpenCode answers only
        the last of them to begin, and never comes back to the other.
        """
        if prompt.message_id is not None and await self._has_another_message(session_id, prompt.message_id):
            raise gone_on()
        path = _path(session_id, "prompt_async")
        await self._call("POST", path, self._deadlines.change_s, write_prompt(prompt))
        return Receipt()

    async def _has_another_message(self, session_id: str, message_id: str) -> bool:
        newest: list[StoredMessage] = []
        with suppress(HostCallError):
            newest = await self.newest_messages(session_id, NEWEST)
        users = [each.info.id for each in newest if isinstance(each.info, UserMessage)]
        return bool(users) and users[-1] != message_id

    async def run_turn(self, session_id: str, prompt: Prompt, *, deadline_s: float) -> StoredMessage:
        """Hand a prompt in and wait for its turn to end."""
        path = _path(session_id, "message")
        return read_answer(await self._call("POST", path, deadline_s, write_prompt(prompt)), f"POST {path}")

    async def revert(self, session_id: str, message_id: str) -> None:
        """Hide a message and all after it; the next prompt deletes them. Refused while the session runs."""
        path = _path(session_id, "revert")
        await self._call("POST", path, self._deadlines.change_s, {"messageID": message_id})

    async def unrevert(self, session_id: str) -> None:
        """Show again what a revert hid, and redo its changes to files. Refused while the session runs."""
        await self._call("POST", _path(session_id, "unrevert"), self._deadlines.change_s)

    async def delete_message(self, session_id: str, message_id: str) -> None:
        """Take one message out of the history. Refused while the session runs."""
        path = _path(session_id, "message/" + quote(message_id, safe=""))
        await self._call("DELETE", path, self._deadlines.change_s)

    async def reply_to_permission(
        self, request_id: str, reply: PermissionReply, message: str | None = None
    ) -> None:
        """Answer a permission request; refused with status 404 if it is no longer open."""
        body = {"reply": reply, "message": message} if message else {"reply": reply}
        path = f"/permission/{quote(request_id, safe='')}/reply"
        await self._call("POST", path, self._deadlines.change_s, body)

    async def give_up(self, session_id: str, agent: str | None, *, flowing: bool = False) -> None:  # noqa: ARG002 -- the protocol's
        """Refuse: the requests of a server are out of reach over HTTP."""
        raise HostCallError("give_up: attach does not see the requests of the server's models", status=404)

    async def toast(self, toast: Toast, *, session_id: str | None = None, after: int | None = None) -> None:  # noqa: ARG002 -- cannot tell
        """Show a note to everybody attached to this folder. The host accepts it also when nobody is."""
        await self._call("POST", "/tui/show-toast", self._deadlines.toast_s, write_toast(toast))

    def events(self, *, heartbeats: bool = False) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """Listen to the folder's events; see `open_events`."""
        return open_events(self._http, headers=self._headers, heartbeats=heartbeats)

    def all_events(self) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """Listen to the events of all folders, ``{directory, payload}`` each; see `open_events`."""
        return open_events(self._http, "/global/event")

    async def _object(
        self, method: str, path: str, deadline_s: float, body: Mapping[str, Any] | None = None
    ) -> Json:
        answer = await self._call(method, path, deadline_s, body)
        if not isinstance(answer, dict):
            raise HostCallError(f"{method} {path}: expected an object, got {type(answer).__name__}")
        return answer

    async def _call(
        self, method: str, path: str, deadline_s: float, body: Mapping[str, Any] | None = None
    ) -> object:
        """Make a call and return the JSON of its answer, None for one without a body."""
        where = f"{method} {path}"
        try:
            with fail_after(deadline_s):
                response = await self._http.request(method, path, json=body, headers=self._headers)
        except (TimeoutError, httpx2.TimeoutException):
            raise HostCallTimeoutError(f"{where}: no answer from OpenCode within {deadline_s:g} s") from None
        except httpx2.HTTPError as error:
            raise HostCallError(f"{where}: {self._http.base_url}: {failure_text(error)}") from error
        status, answer = response.status_code, _json(response)
        if status >= FIRST_FAILURE:
            raise HostCallError(f"{where}: {refusal_text(status, answer)} (HTTP {status})", status=status)
        if answer is None and response.content:
            # The host answers paths it does not know with its web page.
            raise HostCallError(f"{where}: the answer is not JSON; is this OpenCode?", status=status)
        return answer


def _address(url: str) -> httpx2.URL:
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise HostCallError(f"this is no URL of a server: {error}") from None
    if address.scheme not in {"http", "https"} or not address.host:
        raise HostCallError("the URL of a server begins with http:// or https:// and names a host")
    return address


def _header_text(directory: str) -> str:
    """Encode a folder's path: OpenCode reads the raw header as Latin-1 and undoes one percent-encoding."""
    return quote(directory, safe="/")


def _path(session_id: str, call: str = "") -> str:
    return "/session/" + quote(session_id, safe="") + (f"/{call}" if call else "")


def _session(raw: Json) -> SessionInfo:
    try:
        return read_session(raw)
    except WireError as error:
        raise HostCallError(f"the host's answer is no session: {error}") from error


def _status(session_id: str, raw: object) -> SessionStatus | None:
    try:
        event = read_event({"type": "session.status", "properties": {"sessionID": session_id, "status": raw}})
    except WireError:
        return None
    return event if isinstance(event, SessionStatus) else None


def _json(response: httpx2.Response) -> object:
    try:
        return response.json()
    except ValueError:
        return None
