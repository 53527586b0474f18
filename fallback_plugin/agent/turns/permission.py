"""Whether a tool may do something, by the settings: a pure decision."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from fallback_plugin.hookspecs import Verdict
from fallback_plugin.settings import PermissionSettings

EVERYTHING: Final = "*"

_COMMANDS: Final = "bash"
_MORE_THAN_ONE_COMMAND: Final = re.compile(r"[;&|<>$`\n\r]")
"""What may put another command, or another file, behind one that is allowed."""


def settled(permissions: PermissionSettings, tool: str, pattern: str) -> Verdict:
    """Return what the settings say of a tool and a path or command; ``ask`` where they say nothing."""
    setting: Verdict | Mapping[str, Verdict] = getattr(permissions, tool, "ask")
    if not isinstance(setting, Mapping):
        return setting
    fitting = (verdict for rule, verdict in setting.items() if _fits(tool, rule, verdict, pattern))
    return next(fitting, "ask")


def _fits(tool: str, rule: str, verdict: Verdict, pattern: str) -> bool:
    """Tell whether a rule is about this; one that allows a command allows no second one behind it."""
    if rule == EVERYTHING:
        return True
    if tool == _COMMANDS and verdict == "allow" and _MORE_THAN_ONE_COMMAND.search(pattern):
        return False
    return fnmatchcase(pattern, rule)
