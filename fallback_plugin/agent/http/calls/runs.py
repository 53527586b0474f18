"""Prompts and what becomes of them: handed in, stopped, held, sent after all or discarded."""

from collections.abc import Sequence
from typing import cast, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallback_plugin.agent.dispatch import CancelMode
from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.bodies import agent_name, body_of, optional, required, user_prompt
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.refusals import BadRequestError
from fallback_plugin.agent.journal.shapes import run_info
from fallback_plugin.agent.providers.failure import MODEL_NOT_FOUND
from fallback_plugin.agent.records import UserPrompt
from fallback_plugin.errors import AgentError
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.fields import optional_object, text

PROMPT = {
    "parts": "array!",
    "messageID": "string",
    "model": "object",
    "variant": "string",
    "agent": "string",
    "system": "string",
    "tools": "object",
    "format": "object",
    "noReply": "boolean",
    "delivery": "string",
}


class RunCalls:
    """The calls about runs."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        one = "/session/{sessionID}"
        return (
            Call(
                "POST",
                f"{one}/prompt_async",
                self.prompt,
                "Hand a prompt in; it is stored when the call returns, and answered in its turn",
                PROMPT,
                status=204,
            ),
            Call("POST", f"{one}/message", self.answer, "Hand a prompt in and wait for its answer", PROMPT),
            Call(
                "POST",
                f"{one}/summarize",
                self.summarize,
                "Shorten a session's history; it goes on under the id that session.compacted tells",
                {"providerID": "string", "modelID": "string", "auto": "boolean"},
            ),
            Call("POST", f"{one}/abort", self.abort, "Stop everything in a session"),
            Call(
                "POST",
                f"{one}/cancel",
                self.cancel,
                "Stop a session, and return the prompts that were dropped",
                {"mode": "string"},
            ),
            Call("POST", f"{one}/release", self.release, "Take a run that does not stop off its session"),
            Call(
                "GET", f"{one}/run", self.waiting, "List the prompts that wait, or are held since a restart"
            ),
            Call("GET", "/run", self.all_waiting, "The same of all sessions"),
            Call("POST", "/run/{runID}/send", self.send, "Let a held prompt take its turn"),
            Call(
                "POST",
                "/run/{runID}/discard",
                self.discard,
                "End a prompt that waits or is held, without a turn",
            ),
        )

    async def prompt(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/prompt_async``."""
        prompt = await self._prompt(request)
        accepted = await self._host.dispatcher.accept(request.path_params["sessionID"], prompt)
        headers = {"x-run-id": accepted.run.id, "x-message-id": accepted.run.message_id}
        return Response(status_code=204, headers=headers)

    async def answer(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/message``; the run goes on if the client does not wait.

        The end of the turn is on the event streams first: ``opencode run --attach`` ends with this answer
        and prints what it has heard by then.

        A failed turn is an answer as well, but for OpenCode that of a model which does not exist.
        """
        prompt = await self._prompt(request)
        message = await self._host.answer(request.path_params["sessionID"], prompt)
        await self._host.until_sent()
        error = optional_object(message["info"], "error") or {}
        if error.get("name") == MODEL_NOT_FOUND:
            raise AgentError(text(optional_object(error, "data") or {}, "message") or "", status=500)
        return JSONResponse(message)

    async def summarize(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/summarize`` once that is done."""
        body = await body_of(request)
        named = {key: required(body, key, str) for key in ("providerID", "modelID")} if body else {}
        model = ModelRef(named["providerID"], named["modelID"]) if named else None
        run = await self._host.summarize(request.path_params["sessionID"], model)
        await self._host.until_sent()
        if run.outcome == "failed":
            reason = optional_object(run.error or {}, "data") or {}
            raise AgentError(f"no model gave a summary: {text(reason, 'message')}", status=502)
        return JSONResponse(run.outcome == "completed")

    async def abort(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/abort``; an idle session, or none, is no error to OpenCode."""
        await self._host.stop_session(request.path_params["sessionID"])
        return JSONResponse(content=True)

    async def cancel(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/cancel``: ``all`` by default, or what is ``current``."""
        mode = optional(await body_of(request), "mode", str) or "all"
        if mode not in get_args(CancelMode):
            modes = ", ".join(get_args(CancelMode))
            raise BadRequestError(f'Expected one of {modes}\n  at ["mode"]')
        hit = await self._host.stop_session(request.path_params["sessionID"], cast("CancelMode", mode))
        return JSONResponse(
            {
                "active": hit.active is not None,
                "accepted": hit.accepted,
                "dropped": [{"runID": run.id, "text": run.prompt.text} for run in hit.dropped],
            }
        )

    async def release(self, request: Request) -> Response:
        """Answer ``POST /session/{sessionID}/release``."""
        return JSONResponse(self._host.dispatcher.release(request.path_params["sessionID"]))

    async def waiting(self, request: Request) -> Response:
        """Answer ``GET /session/{sessionID}/run``."""
        session = await self._host.session(request.path_params["sessionID"])
        return JSONResponse([run_info(run) for run in await self._host.waiting_runs(session.id)])

    async def all_waiting(self, request: Request) -> Response:
        """Answer ``GET /run``."""
        del request
        return JSONResponse([run_info(run) for run in await self._host.waiting_runs()])

    async def send(self, request: Request) -> Response:
        """Answer ``POST /run/{runID}/send``."""
        run = await self._host.run_of(request.path_params["runID"])
        await self._host.dispatcher.send(run.session_id, run.id)
        return JSONResponse(content=True)

    async def discard(self, request: Request) -> Response:
        """Answer ``POST /run/{runID}/discard``."""
        run = await self._host.run_of(request.path_params["runID"])
        await self._host.dispatcher.discard(run.session_id, run.id)
        return JSONResponse(content=True)

    async def _prompt(self, request: Request) -> UserPrompt:
        key = request.headers.get("idempotency-key")
        body = await body_of(request)
        agent_name(body, self._host.agents)
        return user_prompt(body, idempotency_key=key)
