"""Which tests share a worker when pytest-xdist runs several."""

from typing import Final

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it carries no types

RUNS: Final = "tests/opencode/real/test_run"
"""Whole processes that end by themselves; they and the other tests have nothing in common."""

BROWSER: Final = "tests/browser/"
"""A browser takes the processor to itself: two of them at once would wait for each other."""

OWN_HOST: Final = "tests/agent/real/"

REAL_HOST_FOLDERS: Final = (
    "tests/opencode/real/",
    "tests/attach/real/",
    "tests/plugins/real/",
    "tests/doors/test_doors.py",
)


class RealHostInTurn(LoadScopeScheduling):  # type: ignore[misc]  # a base without types
    """Keep the tests of real servers on one worker, one after the other, and begin with them.

    Their time is the host's, not the processor's, so the other workers do the rest meanwhile. The mark
    `xdist_group` would say the same, but xdist 3.8 cannot act on it under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        # Scopes are handed out largest first; every other test is a scope of its own.
        for alone in (RUNS, BROWSER, OWN_HOST):
            if nodeid.startswith(alone):
                return alone
        return REAL_HOST_FOLDERS[0] if nodeid.startswith(REAL_HOST_FOLDERS) else nodeid
