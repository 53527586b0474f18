"""Limits and troubles that pass: a rate, too much at once, too many users, a network."""

from typing import Final

from fallback_plugin.fallback.rules.rule import ZAI, codes, phrase

_LIMITED: Final = frozenset({429, 503, 500, 502, 529, 400, 403, 402, 413})

LIMITS: Final = (
    codes("concurrency", "1302", "z.ai", scope="account"),
    codes(
        "concurrency", "concurrency_limit_exceeded too_many_concurrent_requests", "gateways", scope="account"
    ),
    phrase("concurrency", r"concurren(?:t|cy)|parallel requests|并发", "z.ai, gateways", scope="account"),
    codes("overload", "1305 1312", "z.ai", scope="model"),
    codes(
        "overload",
        "server_is_overloaded overloaded_error engine_overloaded_error slow_down",
        "everyone",
        scope="model",
    ),
    codes(
        "overload",
        "serveroverloaded service_overloaded modelnotreadyexception 3505",
        "Volcano, Bedrock, Mistral",
        scope="model",
    ),
    codes("overload", "insufficient_capacity capacity_exceeded model_overloaded", "gateways", scope="model"),
    phrase(
        "overload",
        r"overloaded|over capacity|at capacity|queue is full|too busy|high (?:demand|load|traffic)",
        "everyone",
        scope="model",
    ),
    phrase(
        "overload",
        r"capacity (?:limit|exceeded|constraint|temporarily)|insufficient capacity|no capacity|过载|繁忙|饱和|访问量过大|服务器忙|負荷|혼잡",
        "everyone",
        scope="model",
    ),
    phrase(
        "overload",
        r"\bloading model|model .{0,80}is (?:currently |still )?loading",
        "llama.cpp, Hugging Face",
        scope="model",
    ),
    phrase("overload", r"model has crashed|degraded function", "LM Studio, NVIDIA", scope="model"),
    phrase("overload", r"überlastet|sobrecargad|surchargé", "other languages", scope="model"),
    phrase(
        "rate_limit", r"all models are .{0,20}rate[- ]limited", "OpenCode Zen", scope="provider", lasting=True
    ),
    phrase(
        "rate_limit",
        r"rate[- ]limited upstream|upstream .{0,30}rate[- ]limit",
        "OpenRouter",
        scope="upstream",
    ),
    phrase(
        "rate_limit",
        r"exceed(?:s|ed)? your (?:account|organization|team).{0,8}rate limit",
        "Anthropic",
        scope="account",
        lasting=True,
    ),
    phrase("rate_limit", r"exceeded your copilot token usage", "Copilot", scope="account", lasting=True),
    phrase("rate_limit", r"resource (?:has been |was )?exhausted", "Google", lasting=True),
    phrase(
        "rate_limit",
        r"high[- ]frequency .{0,30}requests|requests? (?:are |is )?too frequent",
        "MiMo",
        lasting=True,
    ),
    codes("rate_limit", "1300 1303", "Mistral, z.ai", scope="account"),
    codes("rate_limit", "1002 1039 1041", "MiniMax", providers=("minimax",)),
    codes(
        "rate_limit",
        "throttlingexception throttling throttling.ratequota",
        "Bedrock, DashScope",
        scope="model",
    ),
    codes(
        "rate_limit",
        "too_many_requests rate_limited rate_limit_exceeded limit_requests limit_burst_rate",
        "everyone",
    ),
    codes(
        "rate_limit",
        "ratelimiterror toomanyrequestserror rate_limit_error rate_limit_reached_error",
        "SDKs, Anthropic, Moonshot",
    ),
    codes(
        "rate_limit",
        "requestlimitexceeded requestbursttoofast modelaccountrpmratelimitexceeded modelaccounttpmratelimitexceeded",
        "Tencent, Volcano",
    ),
    phrase(
        "rate_limit",
        r"rate[- _]?limit|too many requests|throttl|limiting requests|request limit|slow down",
        "everyone",
    ),
    phrase(
        "rate_limit",
        r"请求(?:过于|太|次数过)?.{0,4}(?:频繁|过多|超限)|速率限制|限流|频率(?:限制|超限|过高)|リクエスト(?:が)?多すぎ|レート制限|요청.{0,6}많|요청 한도|속도 제한",
        "Chinese, Japanese, Korean",
    ),
    phrase(
        "rate_limit",
        r"límite de solicitudes|limite de (?:solicitações|requêtes)|слишком много запросов|лимит запросов|zu viele anfragen|anfragelimit|demasiadas solicitudes|trop de requêtes|troppe richieste|muitas (?:solicitações|requisições)",
        "other languages",
    ),
)

ACCESS: Final = (
    codes(
        "auth",
        "invalid_api_key account_deactivated authentication_error unauthenticated invalidapikey",
        "OpenAI, Anthropic",
        scope="account",
    ),
    codes(
        "auth",
        "incorrect_api_key unauthorized access_denied accessdenied unrecognizedclientexception expiredtokenexception",
        "gateways, Bedrock",
    ),
    codes(
        "auth",
        "permission_error permission_denied account_suspended organization_restricted",
        "Anthropic, Google",
        scope="account",
    ),
    codes("auth", "authenticationerror permissiondeniederror unauthorizederror", "SDKs", scope="account"),
    codes(
        "auth", "1000 1001 1002 1003 1004 1110 1111 1112 1121 1220", "z.ai", providers=ZAI, scope="account"
    ),
    codes("auth", "1004 2049", "MiniMax", providers=("minimax",), scope="account"),
    phrase("auth", r"load the default credentials", "Google Vertex", scope="account"),
    phrase(
        "auth",
        r"api[- ]?key .{0,60}(?:missing|required)|(?:missing|required|no) .{0,30}api[- ]?key",
        "AI SDK",
        scope="provider",
    ),
    phrase(
        "auth",
        r"api[- ]?key (?:must be a string|is invalid|not (?:valid|found)|expired|has been (?:revoked|disabled))",
        "AI SDK, Google",
    ),
    phrase(
        "auth",
        r"(?:incorrect|invalid|expired|revoked|wrong) (?:x-)?(?:api[- ]?key|(?:access |bearer |auth\w* )?token|credentials)",
        "OpenAI, gateways",
    ),
    phrase(
        "auth",
        r"authentication (?:expired|failed|required|error)|not authenticated|unauthorized|(?:re-?authenticate|log ?in again)",
        "gateways",
        scope="account",
    ),
    phrase(
        "auth",
        r"can only be used from within|only (?:available|allowed|authorized) (?:for|in|from|with) ",
        "OpenCode Zen, Claude Code",
        scope="provider",
    ),
    phrase(
        "auth",
        r"(?:location|country|region|territory).{0,20} not supported|unsupported_country",
        "Google, OpenAI",
        scope="provider",
    ),
    phrase("auth", r"login fail|carry the api secret key", "MiniMax", scope="account"),
    phrase(
        "auth",
        r"access paused|account (?:is |has been )?(?:disabled|deactivated|suspended|banned|locked|not active)",
        "Anthropic, gateways",
        scope="account",
    ),
    phrase(
        "auth", r"token (?:has |is )?expired|refresh token|session expired|oauth", "OAuth", scope="account"
    ),
    phrase(
        "auth",
        r"令牌(?:已过期|无效|状态不可用)|无效的令牌|密钥(?:无效|错误)|认证失败|鉴权失败|身份验证",
        "Chinese vendors",
        scope="account",
    ),
)

NETWORK: Final = (
    phrase(
        "tls",
        r"certificate|self[- _]signed|altname|unable_to_verify_leaf|unable to get local issuer|cert_has_expired|err_tls|err_ssl|ssl routines|wrong version number|\btls handshake failed|eproto\b",
        "Bun, Node",
    ),
    codes("transport", "apiconnectionerror apitimeouterror connectionerror", "SDKs"),
    phrase(
        "server",
        r"time|deadline",
        "RFC 9110, Cloudflare: the gateway waited",
        only_statuses=frozenset({504, 524}),
    ),
    phrase("server", r"gateway time-?out|a timeout occurred", "nginx, Cloudflare"),
    phrase(
        "transport",
        r"timed? ?out|timeout|超时|タイムアウト|시간 초과|etimedout|deadline[ _]exceeded",
        "everyone",
    ),
    phrase(
        "transport",
        r"fetch failed|unable to connect|connection (?:refused|reset|error|closed|terminated|lost|was lost|aborted)|socket|econn\w{1,20}|enotfound"
        r"|eai_again|err_(?:connection|network|internet|name|address)|epipe|ehostunreach|enetunreach|network (?:error|is unreachable|connection)|other side closed|premature close"
        r"|getaddrinfo|dns |failed to fetch|stream (?:ended|closed|error|disconnected|was reset)|und_err|^\W{0,4}terminated\W{0,4}$|(?:request|operation|fetch) was aborted|connection to .{0,60}failed|error decoding response",
        "Bun, Node, undici",
    ),
)

SERVERS: Final = (
    codes("server", "1234", "z.ai"),
    codes(
        "server",
        "server_error internal_error internal_server_error api_error internalservererror internal",
        "everyone",
    ),
    phrase(
        "server",
        r"internal (?:server )?error|bad gateway|gateway time|server had an error|server error|service unavailable",
        "everyone",
    ),
    phrase(
        "server",
        r"(?:model|service|server|upstream) .{0,30}(?:temporarily |currently )?unavailable|error 5\d\d|provider returned error",
        "gateways",
    ),
    phrase(
        "server",
        r"process (?:has )?(?:terminated|crashed)|out of memory|cuda error",
        "Ollama, llama.cpp",
    ),
    phrase(
        "server",
        r"网络错误|服务(?:器)?(?:异常|错误|内部错误|暂时不可用|不可用)|系统(?:异常|错误)|内部错误",
        "Chinese vendors",
    ),
    phrase(
        "server",
        r"(?:please )?try again (?:later|in|shortly)|please retry|请稍[后後候](?:再|重)?试",
        "everyone: the weakest sign",
        statuses=_LIMITED,
    ),
)
