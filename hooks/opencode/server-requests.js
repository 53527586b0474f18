// The requests that this process's HTTP servers get, as they arrive. All instances of OpenCode share one server.

import { Server } from "node:http"

const LISTENERS = Symbol.for("fallback-plugin.server-requests")

// Call `listener` with each request and its response before the server sees them; once under a name, whoever adds it.
export function onServerRequest(name, listener) {
  const listeners = (Server.prototype[LISTENERS] ??= listening())
  if (!listeners.has(name)) listeners.set(name, listener)
}

function listening() {
  const listeners = new Map()
  const { emit } = Server.prototype
  Server.prototype.emit = function (event, request, response, ...more) {
    if (event === "request") for (const listener of listeners.values()) tell(listener, request, response)
    return emit.call(this, event, request, response, ...more)
  }
  return listeners
}

function tell(listener, request, response) {
  try {
    listener(request, response)
  } catch {
    // the host's request matters more
  }
}
