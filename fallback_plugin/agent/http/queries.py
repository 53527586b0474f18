"""What the query of a request says."""

from starlette.requests import Request

from fallback_plugin.agent.http.refusals import BadRequestError


def whole_number(request: Request, name: str) -> int | None:
    """Return a number from 1 on; None if it is not there.

    Raises:
        BadRequestError: if it is something else.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):  # noqa: PLR2004 -- no sane number is longer
        raise BadRequestError(
            f'Expected an integer from 1 on, got {text[:20]}\n  at ["{name}"]', kind="Query"
        )
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Return whether something is asked for."""
    return request.query_params.get(name) in {"true", "1"}
