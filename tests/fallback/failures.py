"""Failures as tests write them, and what they are classified as."""

import json
from typing import Final

from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import Failure, classify
from fallback_plugin.fallback.policy import Verdict, decide
from fallback_plugin.settings import FailureKind, Settings

NOW: Final = 1_000.0


def api_error(
    message: str = "", status: int | None = None, body: object = None, name: str = "APIError", **headers: str
) -> HostError:
    return HostError(
        name=name,
        message=message,
        status_code=status,
        response_body=body if isinstance(body, str) or body is None else json.dumps(body),
        response_headers={key.replace("_", "-"): value for key, value in headers.items()},
    )


def retry(message: str) -> Failure:
    """Classify the text of a retry status, which comes without anything else."""
    return classify(HostError(name="", message=message), NOW)


def kind(message: str = "", status: int | None = None, body: object = None) -> FailureKind:
    return classify(api_error(message, status, body), NOW).kind


def verdict(failure: Failure) -> Verdict:
    """Return what follows a failure where nobody has set a policy."""
    return decide(failure, Settings())


def is_left_at_once(failure: Failure) -> bool:
    """Tell whether a failed model is left without asking it again, while another one is usable."""
    found = verdict(failure)
    return found.action == "fallback" or (found.action == "retry_then_fallback" and not found.retries)
