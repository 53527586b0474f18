"""The plugins that come with the package."""

from collections.abc import Mapping
from typing import Final

BUILTINS: Final[Mapping[str, str]] = {"fallback": "fallback_plugin.fallback.plugin:FallbackPlugin"}
"""Name of each built-in plugin and where it is, written as entry points are.

They stand on a floor above this one, so they are named here and imported only when plugins are loaded, just
like a third party's.
"""
