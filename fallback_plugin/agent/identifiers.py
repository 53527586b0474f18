"""Names for what the host makes: opaque, unique, and of one length for each kind."""

import secrets
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["ses", "msg", "prt", "run", "call", "per", "evt", "tok", "err"]

NewId: TypeAlias = Callable[[Kind], str]
"""Makes the name of a new session, message, part, run, run's token, tool call, question or event."""

RANDOM_BYTES: Final = 12


def new_id(kind: Kind) -> str:
    """Return a name such as ``ses_3f0c…``. Nothing may be read from it, least of all an order."""
    return f"{kind}_{secrets.token_hex(RANDOM_BYTES)}"
