"""A context that is too long, in every provider's words."""

from typing import Final

from fallback_plugin.fallback.rules.rule import ZAI, codes, phrase

OVERFLOW: Final = (
    phrase("overflow", r"too large to compact", "OpenCode: its compaction did not help", lasting=True),
    phrase(
        "rate_limit",
        r"too many tokens, please wait|(?<!per day limit exceeded - )too many tokens processed|tokens per minute limit exceeded",
        "Bedrock, Cerebras",
        scope="model",
    ),
    codes("overflow", "context_length_exceeded model_max_prompt_tokens_exceeded", "OpenAI, Copilot"),
    codes("overflow", "context_window_exceeded model_context_window_exceeded", "gateways"),
    codes(
        "overflow", "request_too_large string_above_max_length exceed_context_size_error", "Anthropic, OpenAI"
    ),
    codes("overflow", "1261", "z.ai", providers=ZAI),
    phrase("overflow", r"contextwindowexceedederror", "LiteLLM"),
    phrase("overflow", r"prompt (?:is )?too long", "Anthropic, Ollama"),
    phrase("overflow", r"input (?:is )?too long|input length .{0,80}exceed", "Bedrock, Qwen"),
    phrase(
        "overflow",
        r"(?:request|prompt|input|message|payload|entity) (?:is )?too large",
        "Groq, Anthropic, nginx",
    ),
    phrase(
        "overflow", r"maximum context length|max(?:imum)? prompt length|max_model_len", "OpenAI, xAI, vLLM"
    ),
    phrase("overflow", r"exceed\w* .{0,40}context (?:window|length|size|limit)", "OpenAI, llama.cpp"),
    phrase("overflow", r"context (?:window|length|size|limit) .{0,40}exceed", "MiniMax, LM Studio"),
    phrase(
        "overflow",
        r"context length (?:is|of) only|(?:greater|larger|longer) than the (?:model's )?context",
        "LM Studio",
    ),
    phrase("overflow", r"exceeds the (?:model's )?maximum (?:number of|input) tokens", "Google"),
    phrase("overflow", r"input token count .{0,80}exceeds", "Google"),
    phrase("overflow", r"prompt token count .{0,60}exceeds", "Copilot"),
    phrase("overflow", r"exceeded model token limit", "Moonshot"),
    phrase("overflow", r"range of input length should be", "DashScope"),
    phrase("overflow", r"reduce the length of (?:the|your) (?:messages|prompt|input)", "OpenAI, Groq"),
    phrase("overflow", r"too large for model with .{0,40}context", "Mistral"),
    phrase(
        "overflow",
        r"上下文(?:长度|窗口)?.{0,10}(?:超|过长)|输入(?:长度)?.{0,8}(?:过长|超过|超出)",
        "Chinese vendors",
    ),
    phrase(
        "overflow",
        r"4(?:00|13) (?:status code )?\(no body\)",
        "Cerebras, Mistral",
        providers=("cerebras", "mistral"),
    ),
    phrase(
        "overflow",
        r"too many (?:input |total |prompt )?tokens(?! per)",
        "gateways",
        only_statuses=frozenset({400, 413, 422}),
    ),
)
