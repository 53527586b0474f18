// The process's own `fetch`, wrapped once for all instances: a request whose header names a watch goes through
// it, an editor's prompt through those who watch for it, any other straight on. Below a provider's own `fetch`,
// so that this is never replaced.

import { acknowledged } from "./idle-notices.js"
import { promptBegan } from "./prompt-ends.js"

export const TAG = "x-fallback-plugin"
export const OUR_CALL = "ours" // the tag of what we ask of the host itself

export const WATCHES = (globalThis[Symbol.for("fallback-plugin.watches")] ??= new Map())

// Who watches the requests that `opencode acp` makes to its own server for an editor.
export const EDITOR_WATCHERS = (globalThis[Symbol.for("fallback-plugin.editors")] ??= new Set())

export function wrapFetch() {
  if (globalThis.fetch[TAG]) return
  const straight = globalThis.fetch
  const wrapped = (input, init) => {
    const tag = tagOf(init?.headers)
    if (tag === OUR_CALL) return straight(input, init)
    if (!tag) return EDITOR_WATCHERS.size > 0 ? ofAnEditor(straight, input, init) : straight(input, init)
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

const OF_A_SESSION = /\/session\/(ses_\w+)\/(message|command|summarize|abort)$/

async function ofAnEditor(straight, input, init) {
  const url = typeof input === "string" ? input : input?.url
  const method = init?.method ?? input?.method
  if (method === "GET") return acknowledged(url) ?? straight(input, init)
  const [, sessionID, call] = (method === "POST" && URL.canParse(url) && new URL(url).pathname.match(OF_A_SESSION)) || []
  if (!sessionID) return straight(input, init)
  if (tagOf(input.headers ?? init?.headers)) return straight(input, init) // a call of ours
  const watchers = [...EDITOR_WATCHERS]
  if (call === "abort") {
    for (const watcher of watchers) watcher.stopped(sessionID)
    return straight(input, init)
  }
  const prompt = promptBegan(sessionID)
  const ends = watchers.map((watcher) => watcher.began(sessionID))
  try {
    let response = await straight(input, init)
    for (const ended of ends.splice(0)) response = await ended(response)
    return await prompt.ends(response)
  } finally {
    for (const ended of ends) ended(null) // there was no response
    prompt.over()
  }
}

function tagOf(headers) {
  if (!headers) return null
  if (typeof headers.get === "function") return headers.get(TAG)
  return Array.isArray(headers) ? headers.find(([name]) => name === TAG)?.[1] : headers[TAG]
}
