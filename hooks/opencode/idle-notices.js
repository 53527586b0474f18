// Idle events of our own for the editor's side of `opencode acp`, which follows its sessions by the server's event
// stream: written into that stream, and acknowledged by the request that an unknown message makes it send.

import { ServerResponse } from "node:http"

import { later, TIMES } from "./times.js"

const EVENTS = /^\/global\/event(?:\?|$)/
const UNKNOWN = "msg_fallbackplugin" // no message of the host's; one for each notice
const LOOKED_UP = new RegExp(`/message/(${UNKNOWN}\\d+)(?:\\?|$)`)
const STREAMS = Symbol.for("fallback-plugin.event-streams")
const TAKEN = new Map() // the unknown message of a notice -> what to call once it is looked up

let notices = 0

// Resolves when the editor's side has taken in that a session is idle, and all that was published before.
export async function tellIdle(sessionID) {
  const streams = [...(ServerResponse.prototype[STREAMS] ?? [])].filter((stream) => !stream.writableEnded && !stream.destroyed)
  if (streams.length === 0) return
  const messageID = `${UNKNOWN}${++notices}`
  const idle = { type: "session.status", properties: { sessionID, status: { type: "idle" } } }
  const text = { type: "message.part.delta", properties: { sessionID, messageID, partID: messageID, field: "text", delta: "" } }
  await new Promise((resolve) => {
    TAKEN.set(messageID, resolve)
    later(TIMES.idleTaken, resolve)
    for (const stream of streams) stream.write([idle, text].map((payload) => `data: ${JSON.stringify({ payload })}\n\n`).join(""))
  })
  TAKEN.delete(messageID)
}

// The response to a request that acknowledges a notice; null for any other.
export function acknowledged(url) {
  const [, messageID] = LOOKED_UP.exec(url ?? "") ?? []
  if (!messageID) return null
  TAKEN.get(messageID)?.()
  return new Response("{}", { status: 404, headers: { "content-type": "application/json" } })
}

// Have the server's event streams known, each from the first event on that it carries.
export function watchEventStreams() {
  const { prototype } = ServerResponse
  if (prototype[STREAMS]) return
  const streams = (prototype[STREAMS] = new Set())
  const { write } = prototype
  prototype.write = function (...given) {
    if (!streams.has(this) && EVENTS.test(this.req?.url)) {
      streams.add(this)
      this.once("close", () => streams.delete(this))
    }
    return write.apply(this, given)
  }
}
