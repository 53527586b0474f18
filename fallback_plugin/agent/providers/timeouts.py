"""How long a request to a model may take where nobody else watches it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. A plugin's first-token and stall times are shorter; these are for a host without one."""

    connect_s: float = 15.0
    silence_s: float = 300.0
    after_end_s: float = 5.0
