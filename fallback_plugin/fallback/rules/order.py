"""The order in which the tables are read: what can be told for sure, or is easily mistaken, goes first."""

from typing import Final

from fallback_plugin.fallback.rules.host import SENTENCES
from fallback_plugin.fallback.rules.limits import ACCESS, LIMITS, NETWORK, SERVERS
from fallback_plugin.fallback.rules.money import MONEY, PLAN_LIMITS
from fallback_plugin.fallback.rules.overflow import OVERFLOW
from fallback_plugin.fallback.rules.request import CONTENT, WRONG_MODEL

RULES: Final = (
    *SENTENCES,
    *OVERFLOW,
    *CONTENT,
    *WRONG_MODEL,
    *MONEY,
    *PLAN_LIMITS,
    *LIMITS,
    *ACCESS,
    *NETWORK,
    *SERVERS,
)
