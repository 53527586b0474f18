"""How this process reaches other machines: proxies of the environment, and whom to trust.

One rule for both hosts: a server on this machine is never asked through a proxy, and certificates are those
of the system, or of ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` where they are set.
"""

import ssl
from collections.abc import Mapping
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from fallback_plugin.extras import how_to_add

_SOCKS: Final = frozenset({"socks5", "socks5h"})
_PLAIN: Final = frozenset({"http", "https"})


def is_this_machine(host: str) -> bool:
    """Tell whether a host name or address is that of this machine."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def proxy_problem(proxies: Mapping[str, str] | None = None) -> str | None:
    """Say why the proxies of the environment cannot be used, and what to do; None if they can.

    ``proxies`` is what `urllib.request.getproxies` returns, which the HTTP clients read as well.
    """
    from importlib.util import find_spec  # noqa: PLC0415 -- heavy, and needed where a server is far away
    from urllib.request import getproxies  # noqa: PLC0415

    proxies = getproxies() if proxies is None else proxies
    if "*" in proxies.get("no", "").split(","):
        return None
    for name, url in proxies.items():
        if name not in {"http", "https", "all"}:
            continue
        variable = f"{name.upper()}_PROXY"
        scheme = _scheme(url)
        if scheme is None:
            return f"{variable} is no address of a proxy: write http://host:port"
        if scheme in _PLAIN:
            continue
        if scheme not in _SOCKS:
            known = ", ".join(f"{each}://" for each in sorted(_PLAIN | _SOCKS))
            return f"{variable} begins with {scheme}://, which no proxy here does: write one of {known}"
        if find_spec("socksio") is None:
            return (
                f"{variable} is a SOCKS proxy, which needs the Python package socksio: {how_to_add('socks')}"
            )
    return None


def _scheme(url: str) -> str | None:
    """Return the scheme of a proxy's address, ``http`` where it names none; None if it is no address."""
    from urllib.parse import urlsplit  # noqa: PLC0415 -- see above

    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return None
    return parts.scheme if parts.hostname else None


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return whom to trust; reading that takes 50 ms, too long to do it for each of many servers.

    Raises:
        OSError: if the file or folder that the environment names cannot be read, or holds no certificate.
    """
    import httpx2  # noqa: PLC0415 -- heavy

    context = httpx2.create_ssl_context()
    if type(context) is ssl.SSLContext and not context.get_ca_certs() and not _has_folder_of_certificates():
        _add_bundled_certificates(context)
    return context


def _has_folder_of_certificates() -> bool:
    """Tell whether the system keeps its certificates one by one; OpenSSL reads those when it needs them."""
    paths = ssl.get_default_verify_paths()
    folder = Path(paths.capath or paths.openssl_capath)
    return folder.is_dir() and any(each.suffix == ".0" for each in folder.iterdir())


def _add_bundled_certificates(context: ssl.SSLContext) -> None:
    """Trust whom certifi trusts: a small container may have no certificates of its own."""
    try:
        import certifi  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 -- not always there
    except ImportError:
        return
    context.load_verify_locations(certifi.where())
