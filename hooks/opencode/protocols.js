// How the requests of an SDK name their model and carry a key, and what its streams say: `sees` tells an
// event with an error or content, `ends` one that says that the answer is whole. Only those are
// watched of which it was shown, on the real host, that another model's answer is taken for the first one's.

const OPENAI_KEY = (key) => ({ authorization: `Bearer ${key}` })

export const PROTOCOLS = {
  "@ai-sdk/openai-compatible": {
    base: null,
    path: () => "/chat/completions",
    key: OPENAI_KEY,
    hasThoughts: ({ messages }) => messages?.some((message) => message.reasoning_content || message.reasoning),
    sees: ({ error, choices }) => {
      if (error) return "error"
      const { delta } = choices?.[0] ?? {}
      const says = delta?.content || delta?.reasoning_content || delta?.reasoning || delta?.tool_calls?.length
      return says ? "content" : null
    },
    ends: ({ choices }) => choices?.[0]?.finish_reason,
  },
  "@ai-sdk/openai": {
    base: "https://api.openai.com/v1",
    path: () => "/responses",
    key: OPENAI_KEY,
    hasThoughts: ({ input, previous_response_id: previous }) =>
      previous || (Array.isArray(input) && input.some(({ type }) => type === "reasoning" || type === "item_reference")),
    sees: ({ type, item }) => {
      if (type === "error" || type === "response.failed") return "error"
      if (type?.endsWith(".delta") || (type === "response.output_item.added" && item?.type === "function_call")) return "content"
      return null
    },
    ends: ({ type }) => type === "response.completed" || type === "response.incomplete",
  },
  "@ai-sdk/anthropic": {
    base: "https://api.anthropic.com/v1",
    path: () => "/messages",
    key: (key) => ({ "x-api-key": key }),
    hasThoughts: ({ messages }) =>
      messages?.some(({ content }) => Array.isArray(content) && content.some(({ type }) => type?.endsWith("thinking"))),
    sees: ({ type, content_block: block }) => {
      if (type === "error") return "error"
      if (type === "content_block_delta" || (type === "content_block_start" && block?.type === "tool_use")) return "content"
      return null
    },
    ends: ({ type }) => type === "message_delta" || type === "message_stop",
  },
  "@ai-sdk/google": {
    base: "https://generativelanguage.googleapis.com/v1beta",
    path: (model) => `/models/${model}:streamGenerateContent?alt=sse`,
    key: (key) => ({ "x-goog-api-key": key }),
    modelInPath: true,
    hasThoughts: ({ contents }) => contents?.some(({ parts }) => parts?.some((part) => part.thoughtSignature)),
    sees: ({ error, candidates }) => {
      if (error) return "error"
      return candidates?.[0]?.content?.parts?.some((part) => part.text || part.functionCall) ? "content" : null
    },
    ends: ({ candidates }) => candidates?.[0]?.finishReason,
  },
}
