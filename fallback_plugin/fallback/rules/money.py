"""Money and plans: nothing that a short wait could help."""

from typing import Final

from fallback_plugin.fallback.rules.rule import codes, phrase

_THROTTLED: Final = frozenset({429})

MONEY: Final = (
    codes(
        "billing",
        "billing_hard_limit_reached billing_not_active billing_error",
        "OpenAI, Anthropic",
        scope="account",
    ),
    codes(
        "billing",
        "usage_not_included insufficient_balance insufficient_credits",
        "Codex, gateways",
        scope="account",
    ),
    codes("billing", "creditserror credits_exhausted payment_required insufficient_funds", "Zen, gateways"),
    codes(
        "billing",
        "exceeded_current_quota_error",
        "Moonshot",
        scope="account",
        only_statuses=frozenset({402, 403}),
    ),
    codes("billing", "arrearage accountoverdueerror accountoverdue", "DashScope, Volcano", scope="account"),
    codes(
        "billing",
        "insufficient_user_quota pre_consume_token_quota_failed",
        "one-api, new-api",
        scope="account",
    ),
    codes("billing", "1113 1309", "z.ai", scope="account"),
    codes("billing", "1008", "MiniMax", providers=("minimax",), scope="account"),
    phrase(
        "billing",
        r"suspended due to insufficient balance",
        "Moonshot behind an aggregator: its account, not the person's",
        providers=("opencode", "openrouter", "vercel", "zen"),
        scope="upstream",
    ),
    phrase(
        "billing",
        r"insufficient (?:account )?(?:credit|fund|balance)|balance (?:is )?(?:too low|insufficient)",
        "everyone",
    ),
    phrase("billing", r"not enough (?:credit|balance|fund)", "gateways"),
    phrase(
        "billing",
        r"out of (?:credit|extra usage)|(?:no|any|sufficient) credits (?:or licenses )?(?:yet|left|remaining|for)",
        "gateways, xAI, GitLab",
    ),
    phrase(
        "billing",
        r"(?:requires? more|used all(?: available)?|run out of|exhausted .{0,20}) credits",
        "OpenRouter, xAI",
    ),
    phrase(
        "billing",
        r"(?:spend|spending|budget|billing hard) limit|budget (?:has been )?exceeded",
        "OpenAI, LiteLLM",
    ),
    phrase(
        "billing",
        r"(?:plan|subscription|trial) (?:has |is )?expired|payment (?:required|method|is past)|credit card",
        "z.ai, gateways, Vercel",
    ),
    phrase("billing", r"requires? (?:a |an )?(?:paid |active )?(?:subscription|plan)\b", "Ollama, gateways"),
    codes("billing", "billing_disabled", "Google", scope="account"),
    phrase("billing", r"requires billing", "Google", scope="account"),
    phrase(
        "billing",
        r"draw from your extra usage|extra usage is required",
        "Anthropic: a notice, unless a status makes it an error",
        only_statuses=frozenset({400, 402, 403, 429}),
        scope="account",
    ),
    phrase(
        "billing",
        r"in arrears|overdue|欠费|余额不足|账户余额|余额.{0,4}不足|额度不足|预扣费|充值",
        "Chinese vendors",
    ),
    phrase("billing", r"upgrade to a paid |to use codex with your", "OpenRouter, Codex"),
    phrase(
        "billing",
        r"guthaben|saldo insuficiente|solde insuffisant|残高(?:が)?不足|잔액(?:이)? 부족",
        "other languages",
    ),
)

PLAN_LIMITS: Final = (
    codes(
        "quota",
        "insufficient_quota quota_exceeded usage_limit_reached usage_limit_exceeded usage_quota_exceeded",
        "OpenAI, Codex, GitLab",
    ),
    codes(
        "quota",
        "freeusagelimiterror gousagelimiterror monthlylimiterror",
        "OpenCode Zen and Go",
        scope="account",
    ),
    codes("quota", "exceeded_current_quota_error", "Moonshot", scope="account"),
    codes("quota", "insufficientquotaerror", "SDKs", scope="account"),
    codes("rate_limit", "throttling.allocationquota", "DashScope: tokens a minute", scope="model"),
    codes("quota", "model_cooldown", "CLIProxyAPI", scope="model"),
    codes("quota", "accountquotaexceeded quotaexceeded setlimitexceeded", "Volcano", scope="account"),
    codes("quota", "1304 1308 1310", "z.ai", statuses=_THROTTLED, scope="account"),
    codes("quota", "2056", "MiniMax", scope="account"),
    phrase("rate_limit", r"not your usage limit", "Claude: it says so itself"),
    phrase("quota", r"free[- ]models[- ]per[- ]day", "OpenRouter", scope="account"),
    phrase("rate_limit", r"^allocated quota exceeded", "DashScope: tokens a minute", scope="model"),
    phrase(
        "quota",
        r"per ?day|\b[rt]pd\b|modelbyday|(?:calls|requests|tokens) ?/ ?(?:day|month)",
        "Google, Groq, OpenAI, GitHub, Cohere",
        scope="model",
    ),
    phrase(
        "rate_limit",
        r"per ?min|per ?second|\b[rt]p[ms]\b",
        "Google, Groq, OpenAI: it is over in a minute",
        scope="model",
    ),
    phrase(
        "quota", r"exhausted your capacity on this model|your quota will reset", "Antigravity", scope="model"
    ),
    phrase(
        "quota", r"accounts? (?:have )?reached (?:the )?configured quota", "pool proxies", scope="account"
    ),
    phrase("quota", r"\[?1308\]?\[", "z.ai", scope="account"),
    phrase(
        "quota",
        r"(?:hourly|daily|weekly|monthly|\d{1,4}[ -]?(?:hour|h|day|week|month)s?|session|plan|usage)"
        r"(?: token| usage| rate| request|/monthly|/weekly){0,3}(?: plan)? (?:limit|quota|cap)\b",
        "plans everywhere",
        scope="account",
    ),
    phrase(
        "quota",
        r"hit your (?:usage |chatgpt usage )?limit|reached (?:your|the set) (?!rate|request)(?:[a-z]{1,12} )?(?:limit|quota)",
        "Claude, Codex, Volcano",
    ),
    phrase(
        "quota",
        r"usage limit|usage (?:has been )?exceeded|limit exhausted|key limit exceeded",
        "Zen, z.ai, OpenRouter",
    ),
    phrase("quota", r"free (?:tier|quota|usage).{0,40}(?:exceed|exhaust|used up|limit reached)", "gateways"),
    phrase(
        "quota",
        r"quota (?:has been |is |was )?(?:exceeded|exhausted|used up|reached|depleted|protection)",
        "everyone",
    ),
    phrase(
        "quota",
        r"exceeded (?:your|the) (?:current |assigned |monthly )?quota|(?:no|out of) quota|have no quota",
        "OpenAI, Copilot",
    ),
    phrase("quota", r"insufficient[ _]quota|quota limit", "OpenAI, gateways"),
    phrase(
        "quota",
        r"(?:reached|exceeded|used up|exhausted) your (?:[a-z]{1,20} ){0,4}(?:quota|allowance)",
        "Copilot",
        scope="account",
    ),
    phrase(
        "quota",
        r"使用上限|使用量.{0,6}上限|(?:套餐|额度|配额|限额).{0,12}(?:用尽|用完|耗尽|上限|超)|已达到?.{0,12}(?:上限|限额)",
        "Chinese vendors",
        scope="account",
    ),
    phrase(
        "quota",
        r"利用(?:上限|制限)に達|利用枠|クォータ|사용량? 한도|할당량",
        "Japanese, Korean",
        scope="account",
    ),
    phrase("quota", r"(?:tages|wochen|monats|stunden)limit", "German", scope="account"),
    phrase(
        "quota",
        r"лимит использования|квота (?:исчерпана|превышена)|límite de uso|limite de uso",
        "Russian, Spanish, Portuguese",
    ),
    phrase(
        "quota",
        r"nutzungslimit|kontingent|cuota (?:agotada|excedida|superada)|quota dépassé|límite de uso|limite d.utilisation",
        "other languages",
    ),
)
