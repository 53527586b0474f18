// Clients that send a prompt over OpenCode's HTTP server and wait for its answer. OpenCode ends their request with the
// run, and a turn that failed is sent again after that, so its response is held until a model has answered.

import { Server } from "node:http"

import { TAG } from "./fetch.js"
import { isSessionIdle } from "./gate.js"
import { parsed } from "./json.js"
import { later, TIMES } from "./times.js"

const PROMPTS = /\/session\/([^/?]+)\/(?:message|command)(?:\?|$)/
const LOOKS_WHILE_IDLE = 2 // after which an idle session counts as settled, whatever Python says
const WATCHED_SERVER = Symbol.for("fallback-plugin.waiting-clients")

export class WaitingClients {
  #client
  #ask
  #ours = new Set() // sessions of this instance that are waited for

  // `ask` asks Python: the question, a function that makes its parameters, and a deadline.
  constructor(client, ask) {
    this.#client = client
    this.#ask = ask
    watched().instances.add(this)
  }

  dispose() {
    watched().instances.delete(this)
  }

  // A message is made in a session of this instance.
  saw(sessionID) {
    if (watched().waitedFor.has(sessionID)) this.#ours.add(sessionID)
  }

  // OpenCode's answer is `body`, and `isLast` says that nobody waits for another one of the session. Resolves with what
  // the client is given.
  async ended(sessionID, body, isLast) {
    const { info } = (this.#ours.has(sessionID) && parsed(body.toString())) || {}
    if (isLast) this.#ours.delete(sessionID)
    if (!info || !(await this.#settled(sessionID))) return body
    const { data } = await this.#client.session.messages({ path: { id: sessionID } })
    const answers = data.filter((message) => message.info.role === "assistant")
    const last = answers.findLast((message) => message.info.parentID === info.parentID) ?? answers.at(-1)
    return last ? Buffer.from(JSON.stringify(last)) : body
  }

  // Resolves when Python has done what it does about a session's turn, with whether there was anything.
  async #settled(sessionID) {
    const asked = this.#ask("run.ending", () => ({ sessionID }), TIMES.settling).then(Boolean)
    for (let idle = 0; idle < LOOKS_WHILE_IDLE; ) {
      const settled = await Promise.race([asked, new Promise((resolve) => later(TIMES.idleLook, resolve))])
      if (settled !== undefined) return settled
      idle = (await isSessionIdle(this.#client, sessionID)) ? idle + 1 : 0
    }
    return true
  }
}

// What all instances share, as they share one server: themselves, and how many clients wait for each session.
function watched() {
  const { prototype } = Server
  if (prototype[WATCHED_SERVER]) return prototype[WATCHED_SERVER]
  const { emit } = prototype
  prototype.emit = function (name, request, response, ...more) {
    const [, sessionID] = (name === "request" && request?.method === "POST" && PROMPTS.exec(request.url)) || []
    if (sessionID && !request.headers[TAG]) hold(response, decodeURIComponent(sessionID))
    return emit.call(this, name, request, response, ...more)
  }
  return (prototype[WATCHED_SERVER] = { instances: new Set(), waitedFor: new Map() })
}

// Have a response wait at its end for what the instances make of its body.
function hold(response, sessionID) {
  const { waitedFor } = watched()
  waitedFor.set(sessionID, (waitedFor.get(sessionID) ?? 0) + 1)
  response.once("close", () => {
    const others = waitedFor.get(sessionID) - 1
    if (others > 0) waitedFor.set(sessionID, others)
    else waitedFor.delete(sessionID)
  })
  const chunks = []
  const keep = (chunk, encoding) => chunks.push(typeof chunk === "string" ? Buffer.from(chunk, encoding) : Buffer.from(chunk))
  response.write = (chunk, ...more) => {
    keep(chunk, typeof more[0] === "string" ? more[0] : undefined)
    more.findLast((each) => typeof each === "function")?.()
    return true
  }
  response.end = (...given) => {
    if (given.length > 0 && given[0] != null && typeof given[0] !== "function") keep(given[0], typeof given[1] === "string" ? given[1] : undefined)
    delete response.write
    delete response.end
    const done = given.findLast((each) => typeof each === "function")
    const original = Buffer.concat(chunks)
    const isFixed = response.statusCode >= 400 || response.hasHeader("content-length")
    answer(original, sessionID).then((body) => response.end(isFixed ? original : body, done))
    return response
  }
}

async function answer(original, sessionID) {
  const { instances, waitedFor } = watched()
  const isLast = (waitedFor.get(sessionID) ?? 0) <= 1
  let body = original
  for (const instance of instances) body = await instance.ended(sessionID, body, isLast).catch(() => body)
  return body
}
