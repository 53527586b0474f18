"""What comes from elsewhere, made safe to print: no sign in it moves a terminal's cursor or ends a line."""


def printable(text: str) -> str:
    """Return a text with each sign that cannot be shown written as an escape."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")
