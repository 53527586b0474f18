"""The page: its files, read once at the start, and the headers that keep a browser to them."""

import hashlib
import mimetypes
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER: Final = Path(__file__).with_name("web")
INDEX: Final = "index.html"

_POLICIES: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types dompurify",
)

POLICY: Final = "; ".join(_POLICIES)
"""Nothing inline, nothing from elsewhere, and no text becomes markup but what the sanitiser has seen."""

HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}

_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page; ``path`` is where it is asked for."""

    path: str
    media_type: str
    body: bytes
    etag: str

    async def answer(self, request: Request) -> Response:
        """Answer with the file, or that the browser has it already."""
        headers = {**HEADERS, "etag": self.etag}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.body, media_type=self.media_type, headers=headers)


def page_routes(folder: Path = FOLDER) -> Sequence[Route]:
    """Return a route for each file that is there now: no other path leads to a file."""
    return [Route(file.path, _handler(file), methods=["GET"]) for file in _files(folder)]


def _files(folder: Path) -> Iterator[PageFile]:
    for place in sorted(folder.rglob("*")):
        if not place.is_file():
            continue
        name = place.relative_to(folder).as_posix()
        body = place.read_bytes()
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        yield PageFile("/" if name == INDEX else f"/web/{name}", _media_type(name), body, etag)


def _media_type(name: str) -> str:
    suffix = Path(name).suffix
    return _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "text/plain; charset=utf-8"


def _handler(file: PageFile) -> Callable[[Request], Awaitable[Response]]:
    return file.answer
