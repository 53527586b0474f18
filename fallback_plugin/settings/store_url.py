"""The address of a Redis or Valkey server, whose password is never shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

_SCHEMES: Final[Mapping[str, str]] = {
    "redis": "redis",
    "rediss": "rediss",
    "valkey": "redis",
    "valkeys": "rediss",
    "unix": "unix",
}
"""What may stand before ``://``, and what the client library calls it."""

_HINT: Final = "write redis://[user:password@]host[:port][/number], rediss://… or unix:///path/to.sock"


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A checked address: ``secret`` is for the client library, everything else is without the password."""

    shown: str
    database: str = "0"
    secret: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Return the address as it may stand in a log."""
        return self.shown


def store_url(value: object) -> StoreUrl:
    """Read an address.

    Raises:
        ValueError: when it is none; the message holds nothing of what was written.
    """
    if isinstance(value, StoreUrl):
        return value
    if not isinstance(value, str):
        raise ValueError(f"this is not the address of a Redis server; {_HINT}")  # noqa: TRY004 -- for pydantic
    try:
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError:
        raise ValueError(f"this is not the address of a Redis server; {_HINT}") from None
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None:
        raise ValueError(f"the address of a Redis server begins with redis:// or the like; {_HINT}")
    if scheme == "unix":
        return _socket(parts)
    number = parts.path.strip("/") or "0"
    if not parts.hostname or port == 0 or not _is_number(number):
        raise ValueError(f"the host, the port or the database's number is missing or wrong; {_HINT}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown = f"{parts.scheme}://{host}:{port or 6379}/{number}"
    return StoreUrl(shown, number, parts._replace(scheme=scheme, path=f"/{number}").geturl())


def variable_name(value: object) -> str:
    """Read the name of the environment variable that holds an address.

    Raises:
        ValueError: when it is none; it may be an address, so the message does not repeat it.
    """
    if isinstance(value, str) and value.isascii() and value.isidentifier():
        return value
    raise ValueError(
        "this is not the name of an environment variable; write one like REDIS_URL and put the address in it"
    )


def _socket(parts: SplitResult) -> StoreUrl:
    number = next((one.removeprefix("db=") for one in parts.query.split("&") if one.startswith("db=")), "0")
    if not parts.path.startswith("/") or parts.path == "/" or parts.hostname or not _is_number(number):
        raise ValueError(f"the socket's absolute path or the database's number is wrong; {_HINT}")
    query = f"?{parts.query}" if parts.query else ""
    return StoreUrl(f"unix://{parts.path}?db={number}", number, f"unix://{parts.netloc}{parts.path}{query}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
