// The last request of a prompt that Python waits for: who was asked in the end, and whether that failed for good. In
// `opencode run` another instance of this process carries the prompt out, with a Python of its own.

const LAST_REQUESTS = (globalThis[Symbol.for("fallback-plugin.last-requests")] ??= new Map()) // session -> request

export function awaitLastRequest(sessionID) {
  LAST_REQUESTS.set(sessionID, null)
}

export function keepLastRequest(sessionID, request) {
  if (LAST_REQUESTS.has(sessionID)) LAST_REQUESTS.set(sessionID, request)
}

export const isAwaited = (sessionID) => LAST_REQUESTS.has(sessionID)

// What was kept since it is waited for, undefined for nothing.
export function takeLastRequest(sessionID) {
  const request = LAST_REQUESTS.get(sessionID) ?? undefined
  LAST_REQUESTS.delete(sessionID)
  return request
}
