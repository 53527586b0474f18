// Clients that send a prompt over OpenCode's HTTP server and wait for its answer. OpenCode ends their request with the
// run, and a turn that failed is sent again after that, so its response is held until a model has answered.

import { TAG } from "./fetch.js"
import { isSessionIdle } from "./gate.js"
import { isObject, parsed } from "./json.js"
import { onServerRequest } from "./server-requests.js"
import { later, TIMES } from "./times.js"

const PROMPTS = /\/session\/([^/?]+)\/(?:message|command)(?:\?|$)/
const HELD = ["writeHead", "flushHeaders", "write", "end"] // of a response
const LENGTH = "content-length"
const LOOKS_WHILE_IDLE = 2 // after which an idle session counts as settled, whatever Python says

// What all instances share, as they share one server: themselves, and how many clients wait for each session.
const WAITING = (globalThis[Symbol.for("fallback-plugin.waiting-clients")] ??= { instances: new Set(), clients: new Map() })

export class WaitingClients {
  #client
  #ask
  #ours = new Set() // sessions of this instance that are waited for

  // `ask` asks Python: the question, a function that makes its parameters, and a deadline.
  constructor(client, ask) {
    this.#client = client
    this.#ask = ask
    WAITING.instances.add(this)
    onServerRequest("waiting-clients", holdPrompt)
  }

  dispose() {
    WAITING.instances.delete(this)
  }

  // A message is made in a session of this instance.
  saw(sessionID) {
    if (WAITING.clients.has(sessionID)) this.#ours.add(sessionID)
  }

  // OpenCode's answer is `body`, and `isLast` says that nobody waits for another one of the session. Resolves with what
  // the client is given.
  async ended(sessionID, body, isLast) {
    const { info } = (this.#ours.has(sessionID) && parsed(body.toString())) || {}
    if (isLast) this.#ours.delete(sessionID)
    if (!info || !(await this.#settled(sessionID))) return body
    const { data } = await this.#client.session.messages({ path: { id: sessionID } })
    const answers = data.filter((message) => message.info.role === "assistant")
    // A message that came meanwhile may have been answered along with this one.
    const last = answers.findLast((message) => message.info.parentID === info.parentID && !message.info.error) ?? answers.at(-1)
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

function holdPrompt({ method, url, headers }, response) {
  const [, sessionID] = (method === "POST" && PROMPTS.exec(url)) || []
  if (sessionID && !headers[TAG]) hold(response, decodeURIComponent(sessionID))
}

// Have a response wait at its end for what the instances make of its body.
function hold(response, sessionID) {
  const { clients } = WAITING
  clients.set(sessionID, (clients.get(sessionID) ?? 0) + 1)
  response.once("close", () => {
    const others = clients.get(sessionID) - 1
    if (others > 0) clients.set(sessionID, others)
    else clients.delete(sessionID)
  })
  const chunks = []
  let head = null
  // Each is called with a chunk, its encoding and what to call at the end, of which all but the last may be left out.
  const keep = (given) => {
    const [chunk, encoding] = given.filter((each) => typeof each !== "function")
    if (chunk != null) chunks.push(Buffer.from(chunk, encoding))
    return given.find((each) => typeof each === "function")
  }
  response.writeHead = (status, ...more) => {
    response.statusCode = status
    head = [status, ...more]
    return response
  }
  response.flushHeaders = () => {}
  response.write = (...given) => {
    keep(given)?.()
    return true
  }
  response.end = (...given) => {
    const done = keep(given)
    for (const name of HELD) delete response[name]
    const original = Buffer.concat(chunks)
    const answered = response.statusCode < 400 ? answer(original, sessionID) : Promise.resolve(original)
    answered.then((body) => {
      if (response.hasHeader(LENGTH)) response.setHeader(LENGTH, body.length)
      if (head) response.writeHead(...head.map((each) => withLength(each, body.length)))
      response.end(body, done)
    })
    return response
  }
}

// The headers that a response is to have, with the length of its body if they tell one: an object, or names and values
// in turn.
function withLength(headers, length) {
  const isLength = (name) => String(name).toLowerCase() === LENGTH
  if (Array.isArray(headers)) return headers.map((each, at) => (at % 2 === 1 && isLength(headers[at - 1]) ? length : each))
  if (!isObject(headers)) return headers
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, isLength(name) ? length : value]))
}

async function answer(original, sessionID) {
  const isLast = (WAITING.clients.get(sessionID) ?? 0) <= 1
  let body = original
  for (const instance of WAITING.instances) body = await instance.ended(sessionID, body, isLast).catch(() => body)
  return body
}
