"""One call of the API: what the routes and the description of the API are both made from."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Call:
    """A method and a path with ``{names}``, who answers it, and what is said of it.

    ``body`` names the keys of the request's body with the JSON type of each, a required one ending in ``!``;
    ``query`` does the same for its query.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    body: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
