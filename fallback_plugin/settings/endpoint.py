"""Where our own agent host finds a provider, and which models it may ask there."""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_HINT: Final = "write http[s]://host[:port]/path, with the key in the variable that api_key_env names"


def endpoint_url(value: object) -> str:
    """Return the address of an endpoint, without a slash at its end.

    Raises:
        ValueError: if it is none, or holds a name, a password or a query; the message repeats nothing of it.
    """
    try:
        parts = urlsplit(value.strip() if isinstance(value, str) else "")
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        plain = False
    if not plain:
        raise ValueError(f"this is not the address of an endpoint; {_HINT}")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(f"an endpoint's address holds no name, password or query; {_HINT}")
    return parts.geturl().rstrip("/")


def served_models(value: object) -> object:
    """Return models by name, where they are written as a list of names.

    Raises:
        ValueError: if it is neither that nor a table, or a name holds a comma: it is several in one string.
    """
    if isinstance(value, list | tuple | Mapping):
        for name in value:
            if isinstance(name, str) and "," in name:
                names = [piece for each in name.split(",") if (piece := each.strip())]
                listed = json.dumps(names, ensure_ascii=False)
                raise ValueError(f"{name!r} is no name of a model; write a list of names: {listed}")
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return {name: {} for name in value}
    if isinstance(value, Mapping):
        return value
    raise ValueError('write a list of names, or a table such as { "qwen3-coder" = { context = 65536 } }')
