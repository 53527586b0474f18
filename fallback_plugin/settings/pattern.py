"""Regular expressions from a settings file: they run on every failure, so that none may take long.

Python's matcher tries every way to divide a text among repeats. With no repeat inside of another, no choice
inside of one, and at most `MAX_REPEATS` without an end, the tries grow with a fixed power of the text's
length, which is bounded.
"""

import re
from typing import Final

MAX_REPEATS: Final = 2
"""Repeats without an end (``*``, ``+``, ``{2,}``) that one pattern may hold."""

_ENDLESS: Final = re.compile(r"[*+]|\{\d*,\}")
_TOKENS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,\}|.", re.DOTALL)
"""An escaped character, a set, a repeat without an end, or any other character."""


def checked_pattern(text: str) -> str:
    """Return a pattern that is well formed and cannot take long.

    Raises:
        ValueError: if it is not a regular expression, or could be slow on some text; it says what to write.
    """
    try:
        re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    if problem := _slow(text):
        raise ValueError(f"{text!r} could take very long on some texts: {problem}")
    return text


def _slow(text: str) -> str | None:
    """Return what could make a pattern slow, None if nothing does."""
    repeats = 0
    groups = [False]  # whether the whole, and each open group in it, holds a repeat or a choice
    closed = False  # whether the group that has just ended does
    for piece in _TOKENS.findall(text):
        endless = _ENDLESS.fullmatch(piece) is not None
        repeats += endless
        if endless and closed:
            return "it repeats a group that holds a repeat or a choice; repeat something plain"
        if repeats > MAX_REPEATS:
            return f"it has more than {MAX_REPEATS} repeats without an end; write .{{0,80}} for .*"
        closed = groups.pop() if piece == ")" and len(groups) > 1 else False
        if piece == "(":
            groups.append(False)
        elif piece == "|" or endless or closed:
            groups[-1] = True
    return None
