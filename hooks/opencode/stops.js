// The user's stops, seen as they come in. OpenCode publishes nothing of one that arrives while a run is ending
// anyway, as it is whenever a turn is to be sent again. A stop is a request: over OpenCode's HTTP server, or
// made into a `Request` inside this process, as its own terminal UI does.

import { OUR_CALL, TAG } from "./fetch.js"
import { onServerRequest } from "./server-requests.js"

export const OURS = { headers: { [TAG]: OUR_CALL } } // what we ask of the host, and no user does
export const STOP_REQUESTED = "session.abort.requested" // an event of ours, beside the host's own

const STOPS = {
  POST: /\/session\/([^/?]+)\/(?:abort|interrupt)(?:\?|$)/,
  DELETE: /\/session\/([^/?]+)(?:\?|$)/, // OpenCode lets the run of a deleted session go on
}
const INSTALLED = Symbol.for("fallback-plugin.stops")

// Call each watcher with the session of every stop, until it is deleted from this set again, and with a promise of its
// end, where that shows: a server answers it once the run is over.
export const STOP_WATCHERS = (globalThis[INSTALLED] ??= new Set())

export function watchStops(watcher) {
  STOP_WATCHERS.add(watcher)
  if (STOP_WATCHERS[INSTALLED]) return
  STOP_WATCHERS[INSTALLED] = true
  onServerRequest("stops", ({ method, url, headers }, response) => {
    saw(method, url, (header) => headers[header], () => new Promise((resolve) => response.once("close", resolve)))
  })
  globalThis.Request = new Proxy(globalThis.Request, {
    construct(target, given, newTarget) {
      const request = Reflect.construct(target, given, newTarget)
      saw(request.method, request.url, (header) => request.headers.get(header))
      return request
    },
  })
}

function saw(method, url, header, end) {
  try {
    const [, session] = STOPS[method]?.exec(url) ?? []
    if (!session || header(TAG)) return
    const ended = end?.()
    for (const watcher of STOP_WATCHERS) watcher(decodeURIComponent(session), ended)
  } catch {
    // the host's request matters more
  }
}
