"""One sentence for every rule that is a phrase: by it, and by no earlier one, the sentence is understood."""

from typing import Final, NamedTuple

from fallback_plugin.settings import FailureKind


class Example(NamedTuple):
    """A sentence as a provider writes it, the kind it stands for, and under which status and provider."""

    text: str
    kind: FailureKind
    status: int | None = None
    provider: str | None = None


EXAMPLES: Final = (
    # the host
    Example("The user rejected permission to use this specific tool call.", "user"),
    Example("Tool call not allowed while generating summary", "host"),
    Example("The user has specified a rule which prevents you from using this tool call.", "host"),
    Example("Unexpected server error", "unknown"),
    Example("ProviderModelNotFoundError: p/m", "model_not_found"),
    # overflow
    Example("Session too large to compact", "overflow"),
    Example("Too many tokens, please wait before trying again.", "rate_limit", 429, "amazon-bedrock"),
    Example("prompt is too long: 213462 tokens > 200000 maximum", "overflow", 400),
    Example("Input is too long for requested model.", "overflow", 400),
    Example("Request Entity Too Large", "overflow", 413),
    Example("This model's maximum context length is 8192 tokens.", "overflow", 400),
    Example("Your input exceeds the context window of this model.", "overflow", 400),
    Example("context window limit (2013) exceeded", "overflow", 400),
    Example("the context length is only 4096 tokens", "overflow"),
    Example("input exceeds the maximum number of tokens", "overflow", 400),
    Example("The input token count (1048600) exceeds 1048575", "overflow", 400),
    Example("prompt token count of 130112 exceeds the limit of 128000", "overflow", 400),
    Example("exceeded model token limit: 131072", "overflow", 400),
    Example("Range of input length should be [1, 30720]", "overflow", 400),
    Example("Please reduce the length of your prompt.", "overflow", 400),
    Example("131000 tokens are too large for model with 128000 maximum context", "overflow", 400),
    Example("上下文长度超限", "overflow", 400),
    Example("400 status code (no body)", "overflow", 400, "cerebras"),
    Example("Too many tokens: 300000", "overflow", 400),
    # the request
    Example("This model does not support images", "unsupported_content", 400),
    Example("image input is not supported", "unsupported_content", 400),
    Example("No endpoints found that support image input", "unsupported_content", 404),
    Example("missing required Copilot-Vision-Request header", "unsupported_content", 400),
    Example("The prompt triggered our content management policy.", "content_policy", 400),
    Example("Your input was flagged by moderation", "content_policy", 403),
    Example("invalid tool call arguments", "model_output", 400),
    Example("`tool_use` ids were found without `tool_result` blocks", "bad_request", 400),
    Example("Expected a thinking block first", "bad_request", 400),
    Example("1 validation error for Request", "bad_request", 422),
    Example("Invalid value for 'tools[0].name'.", "bad_request", 400),
    # the model
    Example("Unknown model: foo", "model_not_found", 400),
    Example("The model `gpt-9` does not exist", "model_not_found", 404),
    Example("foo is not a valid model ID", "model_not_found", 400),
    Example("No available Claude accounts support the requested model", "model_not_found", 500),
    Example("on-demand throughput isn\u2019t supported", "model_not_found", 400),
    Example("You do not have access to the model", "model_not_found", 403),
    Example("模型不存在", "model_not_found", 400),
    # money
    Example("Your account is suspended due to insufficient balance", "billing", 429, "opencode-zen"),
    Example("Insufficient Balance", "billing", 402),
    Example("Not enough credits", "billing", 400),
    Example("You're out of extra usage. Add more to keep going.", "billing", 400),
    Example("This request requires more credits", "billing", 402),
    Example("Billing hard limit has been reached", "billing", 400),
    Example("Your plan has expired", "billing", 429),
    Example("this model requires a subscription", "billing", 403),
    Example("您的账户已欠费", "billing", 403),
    Example("To use Codex with your plan", "billing", 403),
    Example("saldo insuficiente", "billing", 403),
    # plans
    Example("Server is temporarily limiting requests (not your usage limit)", "rate_limit"),
    Example("Rate limit exceeded: free-models-per-day", "quota", 429),
    Example("Limit reached on tokens per day (TPD)", "quota", 429),
    Example("Limit reached on requests per minute", "rate_limit", 429),
    Example("Your quota will reset after 160h20m10s.", "quota"),
    Example("All codex accounts reached configured quota threshold", "quota"),
    Example("(429) · [1308][...]", "quota"),
    Example("5-hour limit reached · resets 6am", "quota"),
    Example("You've hit your limit", "quota"),
    Example("Free usage exceeded, subscribe to Go", "quota"),
    Example("free tier credits exhausted", "quota"),
    Example("Quota exceeded for metric", "quota", 429),
    Example("You exceeded your current quota", "quota", 429),
    Example("quota limit of your group", "quota", 429),
    Example("已达到 5 小时的使用上限。", "quota", 429),
    Example("利用上限に達しました", "quota", 429),
    Example("Ihr Kontingent ist erschöpft", "quota", 429),
    # limits that pass
    Example("High concurrency usage of this API", "concurrency", 429),
    Example("The engine is currently overloaded", "overload", 429),
    Example("Service tier capacity exceeded for this model.", "overload", 429),
    Example("Der Server ist überlastet", "overload", 503),
    Example("All models are temporarily rate-limited.", "rate_limit"),
    Example("model is temporarily rate-limited upstream", "rate_limit", 429),
    Example("This request would exceed your account's rate limit.", "rate_limit", 429),
    Example("You have exceeded your Copilot token usage.", "rate_limit"),
    Example("Resource has been exhausted (e.g. check quota).", "rate_limit", 429),
    Example("Detected high-frequency non-compliant requests from you.", "rate_limit", 400),
    Example("Too Many Requests", "rate_limit", 429),
    Example("请求过于频繁", "rate_limit", 429),
    Example("zu viele Anfragen", "rate_limit", 429),
    # access
    Example("Google Generative AI API key is missing.", "auth"),
    Example("API key not valid. Please pass a valid API key.", "auth", 400),
    Example("Incorrect API key provided", "auth", 401),
    Example("authentication expired", "auth"),
    Example("OpenCode's free tier can only be used from within OpenCode", "auth"),
    Example("API access paused for this organization", "auth"),
    Example("Your session expired", "auth", 401),
    Example("无效的令牌", "auth", 401),
    # the network and the server
    Example("unable to verify the first certificate", "tls"),
    Example("connect ETIMEDOUT", "transport"),
    Example("fetch failed", "transport"),
    Example("502 Bad Gateway", "server", 502),
    Example("Provider returned error", "server", 502),
    Example("llama runner process has terminated", "server", 500),
    Example("服务器异常", "server", 500),
    Example("Something went wrong. Please try again later.", "server"),
)
