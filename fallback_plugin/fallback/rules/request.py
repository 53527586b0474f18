"""Faults of the request and of what the model wrote: another model would meet most of them as well."""

from typing import Final

from fallback_plugin.fallback.rules.rule import ZAI, codes, phrase

_REQUEST: Final = frozenset({400, 415, 422})

CONTENT: Final = (
    phrase(
        "unsupported_content",
        r"(?:does not|doesn't|not) support (?:image|vision|audio|pdf|file|multimodal|tool|function call)",
        "OpenAI, gateways",
    ),
    phrase(
        "unsupported_content",
        r"(?:image|vision|audio|pdf|file)s? (?:inputs? |files? )?(?:is|are) not (?:supported|accepted)",
        "gateways",
    ),
    phrase(
        "unsupported_content",
        r"no endpoints found that support|unknown variant .?image_url",
        "OpenRouter, DeepSeek",
    ),
    phrase(
        "unsupported_content",
        r"vision-request header|image_url is (?:only|not) supported",
        "Copilot, DeepSeek",
    ),
    codes("content_policy", "content_policy_violation content_filter prompt_blocked", "OpenAI, Azure"),
    codes(
        "content_policy",
        "responsibleaipolicyviolation datainspectionfailed data_inspection_failed",
        "Azure, DashScope",
    ),
    codes("content_policy", "1301", "z.ai", providers=ZAI),
    codes("content_policy", "1026 1027", "MiniMax", providers=("minimax",)),
    phrase(
        "content_policy",
        r"content management policy|content[ _]filter|safety (?:system|filter)|usage polic",
        "Azure, OpenAI",
    ),
    phrase(
        "content_policy",
        r"flagged (?:by|for)|requires moderation|inappropriate content|敏感内容|违规内容",
        "OpenRouter, DashScope",
    ),
    codes("model_output", "tool_use_failed", "Groq"),
    phrase(
        "model_output", r"invalid tool call arguments|tool call .{0,30}(?:parse|json)", "Ollama, gateways"
    ),
    phrase(
        "bad_request",
        r"tool_use.{0,20}ids? (?:were|was) found without|tool_result.{0,60}tool_use",
        "Anthropic",
    ),
    phrase(
        "bad_request", r"invalid .{0,20}signature in thinking|thinking block", "Anthropic", statuses=_REQUEST
    ),
    phrase(
        "bad_request",
        r"(?<!\d)\d{1,4} validation errors? for|field required|extra inputs are not permitted",
        "pydantic",
    ),
    phrase("bad_request", r"fix the value and try again|invalid value for", "OpenAI", statuses=_REQUEST),
    phrase(
        "bad_request",
        r"invalid schema for function|(?<!api key )must be an? (?:number|string|integer|boolean|object|array|list)",
        "OpenAI",
        only_statuses=_REQUEST,
    ),
)

WRONG_MODEL: Final = (
    codes(
        "model_not_found",
        "model_not_found model_not_supported modelerror modelnotfound",
        "OpenAI, Copilot, Zen",
    ),
    codes(
        "model_not_found",
        "model_not_available unsupported_model invalid_model deploymentnotfound",
        "gateways, Azure",
    ),
    codes(
        "model_not_found", "invalidendpointormodel.notfound invalidendpointormodel modelnotopen", "Volcano"
    ),
    codes("model_not_found", "1211 1311", "z.ai", providers=ZAI),
    phrase("model_not_found", r"(?:unknown|invalid|unsupported|no such) model\b", "gateways"),
    phrase(
        "model_not_found",
        r"\bmodel\b.{0,120}?(?:is |was )?(?:not (?:found|supported|available(?! right| at the)|exist|recognized|enabled)"
        r"|does(?: not|n't) exist|is disabled|deprecated|decommissioned|has been (?:retired|removed)|not a valid model)",
        "everyone",
    ),
    phrase("model_not_found", r"not a valid model|no endpoints found|no allowed providers", "OpenRouter"),
    phrase(
        "model_not_found", r"no available .{0,40}support the requested model|no available channel", "gateways"
    ),
    phrase(
        "model_not_found",
        r"unknown provider for model|no models loaded|model unloaded",
        "CLIProxyAPI, LM Studio",
    ),
    phrase(
        "model_not_found",
        r"plan (?:does )?not (?:yet )?(?:support|include) (?:access to )?(?:the |this )?",
        "MiniMax, z.ai: a model of a larger plan",
    ),
    phrase("model_not_found", r"on-demand throughput isn.t supported", "Bedrock"),
    phrase(
        "model_not_found",
        r"do(?:es)?(?: not|n't) have access to (?:the )?model|model identifier is invalid",
        "OpenAI, Bedrock",
    ),
    phrase(
        "model_not_found",
        r"模型.{0,20}(?:不存在|未开通|无可用渠道|不支持|已下线)|无可用渠道",
        "Chinese vendors",
    ),
)
