"""A request to a model that came to nothing."""

from dataclasses import replace
from typing import Final

from fallback_plugin.errors import FallbackPluginError
from fallback_plugin.events import Ending, HostError

MODEL_NOT_FOUND: Final = "ProviderModelNotFoundError"
"""The name of the error of a model that the settings do not name; OpenCode's."""

KEY_MISSING: Final = "ProviderAuthError"
"""The name of the error of a model whose key is not set; OpenCode's."""

SHORTEST_SECRET: Final = 6
"""Characters of a key that is hidden in an error; servers of one's own machine may take any short word."""


class ModelFailedError(FallbackPluginError):
    """An attempt failed. ``error`` is what a person and the rules of failures get to see of it."""

    code = "model_failed"

    def __init__(self, error: HostError, ending: Ending) -> None:
        super().__init__(error.message or ending)
        self.error = error
        self.ending = ending


def ended_badly(message: str, *, begun: bool) -> ModelFailedError:
    """Return the failure of an answer without a proper end; ``begun`` tells whether some of it had come."""
    return ModelFailedError(transport_error(message), "broken" if begun else "cut")


def transport_error(message: str) -> HostError:
    """Return the error for trouble on the way, which another try may not meet."""
    return HostError(name="APIError", message=message, is_retryable=True)


def without_secret(error: HostError, secret: str | None) -> HostError:
    """Return the error without the key, where a provider repeats it.

    One that is shorter than `SHORTEST_SECRET` stays: it may stand in any word.
    """
    if secret is None or len(secret) < SHORTEST_SECRET:
        return error
    return replace(
        error,
        message=error.message.replace(secret, "***"),
        response_body=error.response_body and error.response_body.replace(secret, "***"),
        response_headers={
            name: value.replace(secret, "***") for name, value in error.response_headers.items()
        },
    )
