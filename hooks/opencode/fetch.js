// The process's own `fetch`, wrapped once for all instances: a request whose header names a watch goes through
// it, any other straight on. Below a provider's own `fetch`, so that this is never replaced.

export const TAG = "x-fallback-plugin"

export const WATCHES = (globalThis[Symbol.for("fallback-plugin.watches")] ??= new Map())

export function wrapFetch() {
  if (globalThis.fetch[TAG]) return
  const straight = globalThis.fetch
  const wrapped = (input, init) => {
    const tag = tagOf(init?.headers)
    if (!tag) return straight(input, init)
    const watch = WATCHES.get(tag)
    WATCHES.delete(tag)
    const headers = new Headers(init.headers)
    headers.delete(TAG)
    const request = { ...init, headers }
    const watched = watch?.answers(headers) && typeof input === "string" && typeof init.body === "string"
    return watched ? watch.fetch(straight, input, request) : straight(input, request)
  }
  // What else the runtime has put on its own stays there.
  globalThis.fetch = Object.assign(Object.setPrototypeOf(wrapped, straight), { [TAG]: true })
}

function tagOf(headers) {
  if (!headers) return null
  if (typeof headers.get === "function") return headers.get(TAG)
  return Array.isArray(headers) ? headers.find(([name]) => name === TAG)?.[1] : headers[TAG]
}
