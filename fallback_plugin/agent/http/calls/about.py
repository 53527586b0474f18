"""What a client asks before it begins: who answers, where, with which models; and the notes it shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallback_plugin import __version__
from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.bodies import Body, body_of, optional, required
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.refusals import BadRequestError
from fallback_plugin.wire.model_catalog import ModelFacts

VARIANTS = ("info", "success", "warning", "error")
TOAST_MS = 5000


class AboutCalls:
    """The calls about the host itself."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        toast = {"message": "string!", "variant": "string!", "title": "string", "duration": "integer"}
        return (
            Call("GET", "/global/health", self.health, "Whether the host is well, and its version"),
            Call("GET", "/path", self.path, "The project folder"),
            Call("GET", "/project/current", self.project, "The project"),
            Call("GET", "/config", self.config, "What a client may know of the settings: no keys"),
            Call("GET", "/config/providers", self.providers, "The models that may be asked"),
            Call("GET", "/provider/auth", self.logins, "The ways to log in at a provider: there are none"),
            Call("GET", "/agent", self.agents, "The agents"),
            Call("POST", "/tui/show-toast", self.toast, "Show a note to everybody who looks", toast),
            Call(
                "POST",
                "/tui/publish",
                self.publish,
                "Publish an event of a screen: tui.toast.show",
                {"type": "string!", "properties": "object!"},
            ),
        )

    async def health(self, request: Request) -> Response:
        """Answer ``GET /global/health``."""
        del request
        return JSONResponse({"healthy": True, "version": __version__})

    async def path(self, request: Request) -> Response:
        """Answer ``GET /path``."""
        del request
        directory = str(self._host.directory)
        return JSONResponse({"home": str(Path.home()), "worktree": directory, "directory": directory})

    async def project(self, request: Request) -> Response:
        """Answer ``GET /project/current``."""
        del request
        return JSONResponse({"id": "global", "worktree": str(self._host.directory)})

    async def config(self, request: Request) -> Response:
        """Answer ``GET /config``."""
        del request
        model = self._host.models.default
        agents = {name: {"name": name} for name in self._host.agents}
        return JSONResponse({"agent": agents} | ({"model": str(model)} if model else {}))

    async def providers(self, request: Request) -> Response:
        """Answer ``GET /config/providers``."""
        del request
        catalog = self._host.models.catalog.providers
        listed = [
            {
                "id": provider,
                "name": provider,
                "models": {name: _model(provider, name, facts) for name, facts in models.items()},
            }
            for provider, models in catalog.items()
        ]
        first = {provider: next(iter(models)) for provider, models in catalog.items() if models}
        return JSONResponse({"providers": listed, "default": first})

    async def logins(self, request: Request) -> Response:
        """Answer ``GET /provider/auth``."""
        del request
        return JSONResponse({})

    async def agents(self, request: Request) -> Response:
        """Answer ``GET /agent``."""
        del request
        return JSONResponse([self._agent(name) for name in self._host.agents])

    def _agent(self, name: str) -> dict[str, Any]:
        own = self._host.own_model(name)
        model = {"model": {"providerID": own.provider, "modelID": own.model}} if own else {}
        return {"name": name, "mode": "primary", "native": True, **model}

    async def toast(self, request: Request) -> Response:
        """Answer ``POST /tui/show-toast``."""
        self._host.toast(_toast(await body_of(request)))
        return JSONResponse(content=True)

    async def publish(self, request: Request) -> Response:
        """Answer ``POST /tui/publish``."""
        body = await body_of(request)
        if required(body, "type", str) != "tui.toast.show":
            raise BadRequestError('Expected "tui.toast.show"\n  at ["type"]')
        self._host.toast(_toast(required(body, "properties", dict)))
        return JSONResponse(content=True)


def _model(provider: str, name: str, facts: ModelFacts) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "providerID": provider,
        "limit": {"context": facts.context_tokens or 0, "output": facts.output_tokens or 0},
        "capabilities": {"toolcall": bool(facts.tools), "input": {"image": bool(facts.images)}},
        "cost": {"input": 0, "output": 0},
    }


def _toast(body: Body) -> dict[str, Any]:
    message, variant = required(body, "message", str), required(body, "variant", str)
    if variant not in VARIANTS:
        raise BadRequestError(f'Expected one of {", ".join(VARIANTS)}\n  at ["variant"]')
    duration = optional(body, "duration", int)
    toast = {"message": message, "variant": variant, "duration": TOAST_MS if duration is None else duration}
    title = optional(body, "title", str)
    return {"title": title, **toast} if title is not None else toast
