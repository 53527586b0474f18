"""Phrases in error texts, lower-cased.

A row is read only when an error speaks, never for an answer's own text. Numbers count only where a status
stands: after a word for it, in brackets, or at the very start.
"""

import re
from dataclasses import dataclass
from typing import Final

from fallback_plugin.settings import FailureKind


@dataclass(frozen=True, slots=True)
class Phrase:
    """One rule: an error whose text matches ``pattern`` is of ``kind``."""

    kind: FailureKind
    pattern: re.Pattern[str]
    source: str


def _phrase(kind: FailureKind, pattern: str, source: str) -> Phrase:
    return Phrase(kind, re.compile(pattern), source)


PHRASES: Final = (
    _phrase(
        "overflow", r"context[ _](?:length|window)|maximum context|prompt is too long", "OpenAI, Anthropic"
    ),
    _phrase(
        "overflow", r"request too large|input is too long|too many (?:input )?tokens in", "Anthropic, Bedrock"
    ),
    _phrase(
        "auth", r"api[- ]key .{0,40}(?:missing|required)|(?:missing|required).{0,40}api[- ]key", "AI SDK"
    ),
    _phrase("auth", r"api[- ]key must be a string", "AI SDK"),
    _phrase("auth", r"(?:incorrect|invalid) api[- ]key|api[- ]key not valid", "OpenAI, Google"),
    _phrase("model_not_found", r"model (?:is )?not (?:found|supported|available)", "OpenCode, gateways"),
    _phrase("model_not_found", r"the model .{1,120} does not exist", "OpenAI"),
    _phrase("billing", r"credit balance .{0,40}too low", "Anthropic"),
    _phrase("billing", r"insufficient (?:credits?|funds?|balance)", "OpenRouter, DeepSeek"),
    _phrase("quota", r"quota (?:exceeded|protection)|exceeded your current quota", "OpenAI, Google"),
    _phrase("quota", r"key limit exceeded", "OpenRouter"),
    _phrase(
        "quota",
        r"usage limit (?:has been )?(?:reached|exceeded)|(?:free )?usage exceeded",
        "ChatGPT, OpenCode Zen",
    ),
    _phrase("rate_limit", r"rate[- ]?limit|too many requests", "everyone"),
    _phrase("overload", r"overloaded|at capacity|queue is full", "Anthropic, gateways"),
    _phrase("overload", r"service unavailable|temporarily unavailable", "gateways"),
    _phrase("timeout", r"timed out|timeout", "OpenCode, fetch"),
    _phrase("certificate", r"certificate|self[- ]signed|(?<![a-z])(?:ssl|tls)(?![a-z])", "Bun, Node"),
    _phrase(
        "transport",
        r"unable to connect|connection (?:refused|reset|error|closed)|socket|econn|enotfound|network error",
        "Bun, Node",
    ),
    _phrase("server", r"internal server error|bad gateway|server had an error", "gateways"),
    _phrase("server", r"(?:please )?try again (?:later|in|shortly)", "OpenAI"),
)

STATED_STATUS: Final = re.compile(
    r"(?:\b(?:status(?: code)?|code|http(?:/[\d.]+)?|error)\b[\s:=(]{1,3}|^\W{0,3}|\[)([45]\d\d)(?![\w.])"
    r"(?!\s+(?:tokens?|requests?|messages?|characters?|words?|credits?|(?:milli)?seconds?|minutes?|hours?|days?)\b)"
)
"""A status named in prose: ``status 503``, ``HTTP 429``, ``Error: 429``, ``[503] …``, ``529 overloaded``.

A number that counts something is none: ``500 tokens``."""
