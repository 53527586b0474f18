"""What the host itself says: names of its own errors and of the AI SDK's, and its own sentences."""

from typing import Final

from fallback_plugin.fallback.rules.rule import BuiltIn, codes, phrase

NAMES: Final = (
    codes("abort", "MessageAbortedError AbortError", "OpenCode"),
    BuiltIn(
        kind="overflow",
        source="OpenCode: its compaction did not help",
        codes=frozenset({"contextoverflowerror"}),
        phrase="too large to compact",
        lasting=True,
    ),
    codes("overflow", "ContextOverflowError", "OpenCode"),
    codes("output_length", "MessageOutputLengthError", "OpenCode"),
    codes("content_policy", "ContentFilterError", "OpenCode"),
    codes("model_output", "StructuredOutputError", "OpenCode"),
    codes("model_output", "AI_NoObjectGeneratedError AI_InvalidToolInputError AI_NoSuchToolError", "AI SDK"),
    codes("auth", "ProviderAuthError", "OpenCode, our own host: no key is set", local=True),
    codes("auth", "LoadAPIKeyError AI_LoadAPIKeyError", "AI SDK", scope="provider", local=True),
    codes(
        "model_not_found", "ProviderModelNotFoundError AI_NoSuchModelError", "OpenCode, AI SDK", local=True
    ),
    codes("quota", "QuotaExceededError RESOURCE_EXHAUSTED", "gateways, Google"),
    codes("empty_response", "AI_NoOutputGeneratedError AI_EmptyResponseBodyError", "AI SDK"),
)
"""Names that say it all, whatever the text."""

SENTENCES: Final = (
    phrase("user", r"user (?:has )?rejected (?:the )?permission|user dismissed this question", "OpenCode"),
    phrase("host", r"tool call not allowed while generating summary", "OpenCode"),
    phrase("host", r"user has specified a rule which prevents you from using", "OpenCode"),
    phrase("host", r"the host could not store this answer|the turn broke off: the log has", "our own host"),
    phrase("unknown", r"unexpected server error", "OpenCode: it has lost what went wrong"),
    phrase("model_not_found", r"providermodelnotfounderror", "OpenCode"),
)
"""Sentences of the host's own, which no provider's word may reinterpret."""
