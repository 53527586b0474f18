"""Codes and types in a provider's error object: ``{"error": {"code": …, "type": …, "status": …}}``."""

from collections.abc import Mapping
from typing import Final

from fallback_plugin.settings import FailureKind

CODE_KINDS: Final[Mapping[str, FailureKind]] = {
    # OpenAI and everything that speaks its protocol
    "insufficient_quota": "quota",
    "usage_limit_reached": "quota",
    "usage_not_included": "quota",
    "billing_hard_limit_reached": "billing",
    "billing_not_active": "billing",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "too_many_requests": "rate_limit",
    "invalid_api_key": "auth",
    "account_deactivated": "auth",
    "model_not_found": "model_not_found",
    "context_length_exceeded": "overflow",
    "content_policy_violation": "content_policy",
    "content_filter": "content_policy",
    "server_is_overloaded": "overload",
    "server_error": "server",
    # Anthropic
    "authentication_error": "auth",
    "permission_error": "auth",
    "not_found_error": "model_not_found",
    "overloaded_error": "overload",
    "billing_error": "billing",
    "api_error": "server",
    "timeout_error": "timeout",
    # Google, the names of its RPC codes
    "resource_exhausted": "rate_limit",
    "unauthenticated": "auth",
    "permission_denied": "auth",
    "unavailable": "overload",
    "deadline_exceeded": "timeout",
    "not_found": "model_not_found",
}
