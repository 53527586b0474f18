"""The health of models, and the switches between them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fallback_plugin.agent.health_reader import ModelHealth
from fallback_plugin.agent.host import AgentHost
from fallback_plugin.agent.http.calls.call import Call
from fallback_plugin.agent.http.queries import whole_number
from fallback_plugin.agent.journal.shapes import milliseconds
from fallback_plugin.errors import AgentError

MOST_SWITCHES: Final = 200


class HealthCalls:
    """The calls about models that failed."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @property
    def calls(self) -> Sequence[Call]:
        """Return the calls."""
        return (
            Call(
                "GET",
                "/health",
                self.health,
                "Each model of each chain: open, closed until when and why, probed, or unavailable and why",
            ),
            Call(
                "GET",
                "/switches",
                self.switches,
                "The last answers to failures of models, newest first",
                query={"limit": "integer"},
            ),
        )

    async def health(self, request: Request) -> Response:
        """Answer ``GET /health``; times are milliseconds since the epoch."""
        del request
        now, host = time.time(), self._host
        chains = host.health.chains(host.settings, host.models.default, now, host.models.problem)
        shown = [
            {"agent": chain.agent, "models": [_model(model) for model in chain.models]} for chain in chains
        ]
        return JSONResponse({"now": milliseconds(now), "chains": shown})

    async def switches(self, request: Request) -> Response:
        """Answer ``GET /switches``."""
        most = min(whole_number(request, "limit") or MOST_SWITCHES, MOST_SWITCHES)
        host = self._host
        try:
            found = await anyio.to_thread.run_sync(host.health.switches, host.settings, most)
        except OSError as error:
            raise AgentError(f"the decisions cannot be read: {error}", status=500) from error
        return JSONResponse([_switch(decision) for decision in found])


def _model(health: ModelHealth) -> dict[str, Any]:
    shown: dict[str, Any] = {"model": str(health.model), "state": health.state}
    if health.problem is not None:
        shown["reason"] = health.problem
    if health.key is not None and health.record is not None:
        record = health.record
        shown |= {
            "until": milliseconds(record.until),
            "reason": record.reason,
            "scope": health.key.scope,
            "failures": record.failures,
        }
    return shown


def _switch(decision: Mapping[str, Any]) -> dict[str, Any]:
    return {**decision, "at": milliseconds(decision["at"])}
