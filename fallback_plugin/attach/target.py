"""The servers to attach to, as a person names them."""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from fallback_plugin.network import is_this_machine
from fallback_plugin.opencode.http_client import DEFAULT_USER


@dataclass(frozen=True, slots=True)
class Target:
    """A server's address without user and password, so that it may be logged, and these two."""

    url: str
    user: str = DEFAULT_USER
    password: str | None = field(default=None, repr=False)

    @property
    def is_this_machine(self) -> bool:
        """Whether the server's files are those of this machine."""
        return is_this_machine(urlsplit(self.url).hostname or "")


def read_target(text: str, password: str | None = None) -> Target:
    """Read a URL; a password in it goes before ``password``, and so does a user.

    Raises:
        ValueError: if it is no URL of a server. The message does not hold the text, which may be a secret.
    """
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("it is no URL") from None
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        raise ValueError("it has to begin with http:// or https:// and to name a host")
    if parts.query or parts.fragment:
        raise ValueError("it has to end with the host, the port or a path")
    address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    return Target(
        address,
        unquote(parts.username) if parts.username else DEFAULT_USER,
        unquote(parts.password) if parts.password else password,
    )
