// A request that was refused, told to Python, and what the host is given in its place.

import { LIMITS } from "./limits.js"

export async function refused(response) {
  const body = await response.text()
  const { status, headers } = response
  const failure = { ending: "refused", status, headers: Object.fromEntries(headers), body: body.slice(0, LIMITS.errorBody) }
  return { failure, answer: () => new Response(body, { status, headers }) }
}

// A failure that the host does not try again by itself. It would by many words as well as by the status, even
// by a "429" in a model's name (OpenCode 1.18.33), so nothing is kept of either; Python knows both.
export const FAILED = "The model failed. fallback-plugin goes on."

export function refusal() {
  const body = JSON.stringify({ error: { message: FAILED, type: "invalid_request_error" } })
  return new Response(body, { status: 400, headers: { "content-type": "application/json" } })
}
