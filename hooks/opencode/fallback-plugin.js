// The OpenCode end of fallback-plugin: starts `fallback-plugin bridge` and speaks JSON-RPC 2.0 with it over
// stdio, one object a line. It carries and never decides; when Python is late, dead or missing, OpenCode goes
// on as if this file were not here. The protocol is described in docs/bridge-protocol.md.
//
// Installed by `fallback-plugin install opencode`; remove it with `fallback-plugin uninstall opencode`.

import { spawn } from "node:child_process"
import { tmpdir } from "node:os"

// The installer writes the interpreter that holds the package into this line.
const INTERPRETER = null
const BRIDGE_VERSION = "0.1.0"
const PROTOCOL_VERSION = 1

const MEBIBYTE = 1024 * 1024
const LIMITS = {
  lineBytes: 32 * MEBIBYTE, // longest line either side accepts
  waitingBytes: 16 * MEBIBYTE, // events kept until the child is ready
  congestedBytes: 256 * 1024, // unsent bytes from which text deltas are dropped
  unsentBytes: 64 * MEBIBYTE, // unsent bytes at which the child counts as dead
  errorBody: 64 * 1024, // characters of a refused request's body that are told
  standIns: 1000, // sessions whose turn is answered by another model than the host's
  endOfStream: 8 * 1024, // last bytes of a stream, in which its end is looked for
  unusedTags: 1000, // requests that were announced and not made
  unsaid: MEBIBYTE, // bytes of a stream that says nothing, after which it is handed on all the same
}

const TIMES = {
  question: 250,
  toolResult: 120_000,
  nextModel: 1_000,
  settling: 3_600_000, // Python's own deadline is a person's setting
  // A question waits for a child that is still starting, at most this long after its start; a job has time.
  coldStart: hostKind(process.argv) === "run" ? 10_000 : 2_000,
  start: 30_000, // a child not ready by then counts as dead
  firstRestart: 500,
  longestRestart: 30_000,
  healthy: 60_000, // ready for so long: earlier deaths are forgotten
  lastWords: 100, // between the end of the child and taking its pipe for empty
  grace: 3_000, // between the end of stdin and the kill
}

const DEATHS_IN_A_ROW = 5
const DELTA = "message.part.delta"

// What Python may ask of the host. Anything else is refused.
const CALLS = {
  "session.get": (client, { sessionID }) => client.session.get({ path: { id: sessionID } }),
  "session.messages": (client, { sessionID }) => client.session.messages({ path: { id: sessionID } }),
  "session.abort": (client, { sessionID }) => client.session.abort({ path: { id: sessionID } }),
  "session.promptAsync": (client, { sessionID, body }) => client.session.promptAsync({ path: { id: sessionID }, body }),
  // Waits for the answer; only where a run has ended and nobody else does.
  "session.prompt": (client, { sessionID, body }) => client.session.prompt({ path: { id: sessionID }, body }),
  "session.revert": (client, { sessionID, body }) => client.session.revert({ path: { id: sessionID }, body }),
  // The host's v1 client has no method for this one.
  "session.deleteMessage": ({ _client }, { sessionID, messageID }) =>
    _client.delete({ url: "/session/{id}/message/{messageID}", path: { id: sessionID, messageID } }),
  "config.providers": async (client) => factsOnly(await client.config.providers()),
  "tui.showToast": (client, { body }) => client.tui.showToast({ body }),
}

// The host's list of models holds the providers' keys; of these nothing may leave it, and little else is needed.
function factsOnly({ data, ...answer }) {
  const providers = data?.providers?.map(({ id, models }) => ({ id, models: mapValues(models, facts) }))
  return { ...answer, data: providers && { providers } }
}

function facts({ limit, capabilities, cost }) {
  const { context, input, output } = limit ?? {}
  return {
    limit: { context, input, output },
    capabilities: { toolcall: capabilities?.toolcall, input: { image: capabilities?.input?.image } },
    cost: { input: cost?.input, output: cost?.output },
  }
}

const mapValues = (table, change) =>
  Object.fromEntries(Object.entries(table ?? {}).map(([key, value]) => [key, change(value)]))

const isSameModel = (one, other) => one.providerID === other.providerID && one.modelID === other.modelID

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value)

// A timer that never keeps the host's process alive.
function later(milliseconds, action) {
  const timer = setTimeout(action, milliseconds)
  timer.unref?.()
  return timer
}

function hostKind(argv) {
  if (/tui[\\/]worker\.[jt]s$/.test(argv[1] ?? "")) return "tui"
  const command = argv.slice(2).find((word) => ["run", "serve", "web", "acp"].includes(word))
  return command === "run" ? "run" : "serve"
}

const HOST_KIND = hostKind(process.argv)
const AUTO_APPROVES = ["--auto", "--yolo", "--dangerously-skip-permissions"].some((flag) => process.argv.includes(flag))
const PRINTS_JSON = process.argv.some((word, at) => word === "--format=json" || (word === "--format" && process.argv[at + 1] === "json"))

const JSON_TYPES = { text: "text", tool: "tool_use", "step-start": "step_start", "step-finish": "step_finish" }

// Print a part the way `opencode run` does when its output is no terminal.
function printPart(sessionID, part) {
  const type = JSON_TYPES[part.type]
  if (PRINTS_JSON && type) printJson(type, sessionID, { part })
  else if (part.type === "text" && part.text?.trim()) process.stdout.write(`${part.text.trim()}\n`)
}

function printTrouble(sessionID, trouble) {
  if (PRINTS_JSON) printJson("error", sessionID, { error: { name: "FallbackError", data: { message: trouble } } })
  else process.stderr.write(`Error: ${trouble}\n`)
}

function printJson(type, sessionID, more) {
  process.stdout.write(`${JSON.stringify({ type, timestamp: Date.now(), sessionID, ...more })}\n`)
}

function childCommands(interpreter) {
  const onPath = ["fallback-plugin", ["bridge"]]
  // -P: the folder OpenCode runs in must never be a place Python imports from. -c starts sooner than -m.
  const start = "from fallback_plugin.__main__ import main; main()"
  return interpreter ? [[interpreter, ["-P", "-c", start, "bridge"]], onPath] : [onPath]
}

// Take the chains out of the merged configuration: what stays there is sent to the provider.
function takeChains(config) {
  const agents = {}
  for (const table of [config?.agent, config?.agents]) {
    if (!isObject(table)) continue
    for (const [name, agent] of Object.entries(table)) {
      if (!isObject(agent)) continue
      const options = isObject(agent.options) ? agent.options : {}
      const chain = agent.fallback_models ?? options.fallback_models
      delete agent.fallback_models
      delete options.fallback_models
      if (chain == null) continue
      agents[name] = { fallback_models: chain }
      if (typeof agent.model === "string") agents[name].model = agent.model
    }
  }
  return agents
}

// Cut a byte stream into lines; a line beyond the limit is skipped whole.
class Lines {
  #chunks = []
  #length = 0

  feed(chunk) {
    const lines = []
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#keep(chunk.subarray(start, end))
      if (this.#length <= LIMITS.lineBytes) lines.push(Buffer.concat(this.#chunks).toString())
      this.#chunks = []
      this.#length = 0
      start = end + 1
    }
    this.#keep(chunk.subarray(start))
    return lines
  }

  #keep(piece) {
    this.#length += piece.length
    if (this.#length <= LIMITS.lineBytes) this.#chunks.push(piece)
    else this.#chunks = []
  }
}

// One run of the Python process: a pipe in, a pipe out, and the news of its end, told exactly once.
class Child {
  stderrTail = ""
  unsent = 0 // characters handed to the pipe that it has not taken; Bun's writableLength always says 0
  #process
  #ended = false

  constructor([program, args], { onMessage, onEnd }) {
    const end = (error) => {
      if (this.#ended) return
      this.#ended = true
      onEnd(error)
    }
    try {
      this.#process = spawn(program, args, { cwd: tmpdir(), stdio: ["pipe", "pipe", "pipe"], windowsHide: true })
    } catch (error) {
      queueMicrotask(() => end(error))
      return
    }
    const { stdin, stdout, stderr } = this.#process
    const lines = new Lines()
    for (const stream of [stdin, stdout, stderr]) stream?.on("error", () => {})
    stdout?.on("data", (chunk) => {
      for (const line of lines.feed(chunk)) {
        if (this.#ended) return
        const message = parsed(line)
        if (message) onMessage(message)
      }
    })
    stderr?.on("data", (chunk) => {
      this.stderrTail = (this.stderrTail + chunk).slice(-1000)
    })
    this.#process.on("error", end)
    // What it wrote last may still be in the pipe when it exits; the pipe may outlive it if somebody inherited it.
    this.#process.on("close", () => end(null))
    this.#process.on("exit", () => later(TIMES.lastWords, () => end(null)))
    for (const holder of [this.#process, stdin, stdout, stderr]) holder?.unref?.()
  }

  write(line) {
    const stdin = this.#process?.stdin
    if (this.#ended || !stdin?.writable) return
    this.unsent += line.length
    stdin.write(line, () => {
      this.unsent -= line.length
    })
  }

  // Ask it to leave by closing its input; make it leave after a grace.
  stop(grace = TIMES.grace) {
    const process = this.#process
    process?.stdin?.end()
    if (grace === 0) process?.kill("SIGKILL")
    else later(grace, () => this.#ended || process?.kill("SIGKILL"))
  }
}

function parsed(line) {
  try {
    const message = JSON.parse(line)
    return isObject(message) ? message : null
  } catch {
    return null // whatever it is, it is not for us
  }
}

// Toasts that wait until somebody can see them.
class Toasts {
  #waiting = []
  #client
  #seen = false

  constructor(client) {
    this.#client = client
  }

  // Somebody is looking: a session lives.
  audience() {
    if (this.#seen) return
    this.#seen = true
    for (const body of this.#waiting.splice(0)) this.show(body)
  }

  // True if the toast is kept for later.
  keep(body) {
    if (!this.#seen) this.#waiting.push(body)
    return !this.#seen
  }

  async show(body) {
    if (this.keep(body)) return
    try {
      await this.#client.tui.showToast({ body })
    } catch {
      // nobody to show it to
    }
  }

  say(message, variant = "warning") {
    this.show({ title: "Fallback plugin", message, variant, duration: 8000 })
  }
}

// How the requests of an SDK name their model and carry a key, and what its streams say. Only those are
// watched of which it was shown, on the real host, that another model's answer is taken for the first one's.
const OPENAI_KEY = (key) => ({ authorization: `Bearer ${key}` })
const PROTOCOLS = {
  "@ai-sdk/openai-compatible": {
    base: null,
    path: () => "/chat/completions",
    key: OPENAI_KEY,
    hasThoughts: ({ messages }) => messages?.some((message) => message.reasoning_content || message.reasoning),
    sees: ({ error, choices }) => {
      if (error) return "error"
      const { delta, finish_reason: finish } = choices?.[0] ?? {}
      if (delta?.content || delta?.reasoning_content || delta?.reasoning || delta?.tool_calls?.length) return "content"
      return finish ? "end" : null
    },
  },
  "@ai-sdk/openai": {
    base: "https://api.openai.com/v1",
    path: () => "/responses",
    key: OPENAI_KEY,
    hasThoughts: ({ input, previous_response_id: previous }) =>
      previous || (Array.isArray(input) && input.some(({ type }) => type === "reasoning" || type === "item_reference")),
    sees: ({ type, item }) => {
      if (type === "error" || type === "response.failed") return "error"
      if (type === "response.completed" || type === "response.incomplete") return "end"
      if (type?.endsWith(".delta") || (type === "response.output_item.added" && item?.type === "function_call")) return "content"
      return null
    },
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
      return type === "message_delta" || type === "message_stop" ? "end" : null
    },
  },
  "@ai-sdk/google": {
    base: "https://generativelanguage.googleapis.com/v1beta",
    path: (model) => `/models/${model}:streamGenerateContent?alt=sse`,
    key: (key) => ({ "x-goog-api-key": key }),
    modelInPath: true,
    hasThoughts: ({ contents }) => contents?.some(({ parts }) => parts?.some((part) => part.thoughtSignature)),
    sees: ({ error, candidates }) => {
      if (error) return "error"
      const { content, finishReason } = candidates?.[0] ?? {}
      if (content?.parts?.some((part) => part.text || part.functionCall)) return "content"
      return finishReason ? "end" : null
    },
  },
}

const TAG = "x-fallback-plugin"
const BESIDE = new Set(["title", "summary", "compaction"]) // agents whose requests no person's turn is stopped for
const HEADERS_OF_A_PROVIDER = ["authorization", "x-api-key", "x-goog-api-key", "api-key"]

// The process's own `fetch`, wrapped once for all instances: a request whose header names a watch goes through
// it, any other straight on. Below a provider's own `fetch`, so that this is never replaced.
const WATCHES = (globalThis[Symbol.for("fallback-plugin.watches")] ??= new Map())

function wrapFetch() {
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

// One model request of a session: it may be answered by another model than the one the host asked.
class Watch {
  #about
  #protocol
  #givenUp = null // ends the attempt under way, as long as nothing of it was handed on
  #asked = null // who answers
  #failed = false // nobody does
  #flow = null // breaks off an answer that is being handed on

  constructor(bridge, about) {
    this.bridge = bridge
    this.agent = about.agent
    this.#about = about
    this.#protocol = PROTOCOLS[about.npm]
  }

  answers(headers) {
    return this.bridge.answersFor(this.agent, headers)
  }

  // Leave a model that says nothing. False if it has spoken, or is not being asked.
  giveUp(flowing) {
    if (this.#givenUp) this.#givenUp.abort()
    else if (flowing && this.#flow) this.#flow()
    else return false
    return true
  }

  fetch(straight, url, init) {
    const { sessionID } = this.#about
    const done = this.bridge.began(sessionID, this)
    return this.#answer(straight, url, init).then(
      (response) => this.#followed(response, done),
      (error) => {
        done()
        throw error
      },
    )
  }

  async #answer(straight, url, init) {
    const thoughts = this.#hasThoughts(init.body)
    const tried = []
    let target = thoughts ? null : this.bridge.standIn(this.#about)
    for (;;) {
      const asked = (this.#asked = target ?? this.#about.model)
      const attempt = await this.#attempt(straight, ...(target ? this.#sentTo(target, url, init) : [url, init]))
      this.#failed = Boolean(attempt.failure)
      if (!attempt.failure || init.signal?.aborted) return attempt.answer()
      tried.push(asked)
      const next = await this.bridge.nextModel(this.#about, tried, attempt.failure, thoughts)
      if (init.signal?.aborted) return attempt.answer() // the user's stop is final
      if (next?.model) target = next.model
      else return next?.final ? refusal() : attempt.answer()
    }
  }

  // A body of another shape than expected is nobody else's to answer.
  #hasThoughts(body) {
    try {
      return Boolean(this.#protocol.hasThoughts(parsed(body)))
    } catch {
      return true
    }
  }

  #sees(event) {
    try {
      return this.#protocol.sees(event)
    } catch {
      return "content" // of whatever shape: it is handed on
    }
  }

  // The same response, which can be broken off as long as it flows.
  #followed(response, done) {
    if (!response.body || this.#failed) {
      done()
      return response
    }
    const reader = response.body.getReader()
    let end = new Uint8Array()
    const over = () => {
      this.#flow = null
      done()
    }
    const body = new ReadableStream({
      start: (controller) => {
        this.#flow = () => {
          over()
          controller.error(new Error(FAILED))
          reader.cancel().catch(() => {})
        }
      },
      pull: async (controller) => {
        try {
          const { done: ended, value } = await reader.read()
          if (!ended) {
            end = lastBytes(end, value)
            return controller.enqueue(value)
          }
          if (await this.#brokeOff(end)) return this.#flow?.()
          over()
          controller.close()
        } catch (error) {
          over()
          controller.error(error)
        }
      },
      cancel: (reason) => {
        over()
        return reader.cancel(reason)
      },
    })
    return new Response(body, { status: response.status, headers: response.headers })
  }

  // Whether a stream that ended without saying so is to be shown as a failure, not as an answer.
  async #brokeOff(end) {
    const seen = new TextDecoder().decode(end).split("\n").filter((line) => line.startsWith("data:")).map((line) => parsed(line.slice(5)))
    if (seen.some((event) => event && this.#sees(event) === "end")) return false
    const next = await this.bridge.nextModel(this.#about, [this.#asked], { ending: "broken" }, true)
    return next?.final === true
  }

  async #attempt(straight, url, init) {
    const givenUp = (this.#givenUp = new AbortController())
    const signal = init.signal ? AbortSignal.any([init.signal, givenUp.signal]) : givenUp.signal
    try {
      const response = await straight(url, { ...init, signal })
      if (!response.ok) return await refused(response)
      const streams = response.body && response.headers.get("content-type")?.includes("text/event-stream")
      return streams ? await peek(response, (event) => this.#sees(event)) : { answer: () => response }
    } catch (error) {
      if (!givenUp.signal.aborted || init.signal?.aborted)
        return { failure: { ending: "refused", message: String(error?.message ?? error) }, answer: () => Promise.reject(error) }
      const silence = "the model gave no sign of life before it timed out"
      return { failure: { ending: "silent", message: silence }, answer: () => Promise.reject(new Error(silence)) }
    } finally {
      this.#givenUp = null
    }
  }

  #sentTo({ providerID, modelID }, url, init) {
    const protocol = this.#protocol
    const provider = this.bridge.provider(providerID)
    const wireName = provider?.models?.[modelID]?.api?.id ?? modelID
    const body = JSON.parse(init.body)
    if (!protocol.modelInPath) body.model = wireName
    // On a connection of its own: Bun 1.3 takes one that the failed request has left for closing.
    const request = { ...init, body: JSON.stringify(body), keepalive: false }
    if (providerID === this.#about.model.providerID)
      return [protocol.modelInPath ? url.replace(/\/models\/[^/:?]+:/, `/models/${wireName}:`) : url, request]
    const headers = new Headers(init.headers)
    for (const name of HEADERS_OF_A_PROVIDER) headers.delete(name)
    const own = { ...protocol.key(keyOf(provider)), ...provider.options?.headers }
    for (const [name, value] of Object.entries(own)) headers.set(name, value)
    return [addressOf(provider, protocol) + protocol.path(wireName), { ...request, headers }]
  }
}

function lastBytes(before, chunk) {
  if (chunk.byteLength >= LIMITS.endOfStream) return chunk.slice(-LIMITS.endOfStream)
  const both = new Uint8Array(before.byteLength + chunk.byteLength)
  both.set(before)
  both.set(chunk, before.byteLength)
  return both.slice(-LIMITS.endOfStream)
}

const keyOf = (provider) => provider.options?.apiKey ?? provider.key
const addressOf = (provider, protocol) => (provider.options?.baseURL ?? protocol.base)?.replace(/\/+$/, "")

async function refused(response) {
  const body = await response.text()
  const { status, headers } = response
  const failure = { ending: "refused", status, headers: Object.fromEntries(headers), body: body.slice(0, LIMITS.errorBody) }
  return { failure, answer: () => new Response(body, { status, headers }) }
}

// A failure that the host does not try again by itself. It would by many words as well as by the status, even
// by a "429" in a model's name (OpenCode 1.18.33), so nothing is kept of either; Python knows both.
const FAILED = "The model failed. fallback-plugin goes on."

function refusal() {
  const body = JSON.stringify({ error: { message: FAILED, type: "invalid_request_error" } })
  return new Response(body, { status: 400, headers: { "content-type": "application/json" } })
}

// Read a stream until it says something, and return it whole.
async function peek(response, sees) {
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  const chunks = []
  let [rest, size, ended, finished] = ["", 0, false, false]
  const answer = () => new Response(resumed(chunks, ended, reader), { status: response.status, headers: response.headers })
  while (!ended && size < LIMITS.unsaid) {
    const { done, value } = await reader.read()
    ended = done
    if (value) {
      chunks.push(value)
      size += value.byteLength
      rest += decoder.decode(value, { stream: true })
    }
    const lines = rest.split("\n")
    rest = lines.pop()
    for (const line of lines) {
      const event = line.startsWith("data:") ? parsed(line.slice(5)) : null
      const seen = event && sees(event)
      if (seen === "content") return { answer }
      if (seen === "error") {
        reader.cancel().catch(() => {})
        ended = true
        return { answer, failure: { ending: "refused", body: JSON.stringify(event).slice(0, LIMITS.errorBody) } }
      }
      finished ||= seen === "end"
    }
  }
  return ended ? { answer, failure: { ending: finished ? "empty" : "cut" } } : { answer }
}

function resumed(chunks, ended, reader) {
  return new ReadableStream({
    async pull(controller) {
      if (chunks.length > 0) return controller.enqueue(chunks.shift())
      if (ended) return controller.close()
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: (reason) => reader.cancel(reason),
  })
}

class Bridge {
  #context
  #toasts
  #sequence = 0
  #child = null
  #phase = "starting" // starting, loading, ready, down (waits for its restart), off (for good)
  #commands = childCommands(INTERPRETER)
  #startedAt = 0
  #startTimer = null
  #healthTimer = null
  #deaths = 0
  #saidDeath = false
  #events = new Set()
  #switching = "auto" // which requests Python answers for
  #sampled = new Map() // type -> one in so many milliseconds will do
  #passed = new Map() // type and session -> when the last one was sent
  #questions = new Set()
  #waiting = [] // event lines of before ready
  #waitingBytes = 0
  #chains = null
  #nextId = 1
  #open = new Map() // id -> what to do with the answer
  #requests = new Map() // session -> its requests that nothing has come of yet
  #standIns = new Map() // session -> who answers in whose place in its turn
  #nextTag = 1
  #runSession = null
  #settling = false
  #name = Math.random().toString(36).slice(2)
  #providers = null
  #logins = null
  #readiness = []

  constructor(context) {
    this.#context = context
    this.#toasts = new Toasts(context.client)
  }

  start() {
    if (this.#phase === "off") return
    this.#phase = "starting"
    this.#nextId = 1
    this.#startedAt = performance.now()
    const child = new Child(this.#commands[0], {
      onMessage: (message) => this.#receive(child, message),
      onEnd: (error) => this.#ended(child, error),
    })
    this.#child = child
    this.#startTimer = later(TIMES.start, () => child.stop(0))
    const { directory, worktree } = this.#context
    const host = { name: "opencode", version: null, kind: HOST_KIND }
    this.#request(
      "initialize",
      { protocolVersion: PROTOCOL_VERSION, host, directory, worktree, bridge: BRIDGE_VERSION },
      (answer) => answer && this.#greeted(answer),
    )
    this.#sendChains()
  }

  // `opencode run` is over at its first idle. What it still owes its person is answered here, and printed as it
  // would have been; only a whole answer makes it a success.
  async settleRun() {
    if (!this.#runSession) return
    this.#settling = true
    const sessionID = this.#runSession
    const words = await this.ask("run.ending", () => ({ sessionID }), TIMES.settling)
    if (!words) return
    for (const part of words.parts ?? []) printPart(sessionID, part)
    if (words.trouble) printTrouble(sessionID, words.trouble)
    process.exitCode = words.trouble ? 1 : 0
  }

  // As `run` itself answers while it lasts.
  #answerPermission({ id, permission, patterns }) {
    const reply = AUTO_APPROVES ? "once" : "reject"
    if (!AUTO_APPROVES) process.stderr.write(`! permission requested: ${permission} (${patterns?.join(", ")}); auto-rejecting\n`)
    const call = { url: "/permission/{requestID}/reply", path: { requestID: id }, body: { reply } }
    this.#context.client._client.post({ ...call, headers: { "content-type": "application/json" } }).catch(() => {})
  }

  dispose() {
    for (const [tag, watch] of WATCHES) if (watch.bridge === this) WATCHES.delete(tag)
    this.#close("off")
    this.#child?.stop()
  }

  setChains(agents) {
    this.#chains = agents
    if (this.#phase !== "down" && this.#phase !== "off") this.#sendChains()
  }

  event(event) {
    this.#sequence += 1
    const type = event?.type
    if (type === DELTA) return this.#delta(event)
    if (typeof type !== "string") return
    if (type.startsWith("session.")) this.#toasts.audience()
    if (this.#phase === "off") return
    const sessionID = event.properties?.sessionID
    if (type === "session.idle" || type === "session.deleted") this.#forgetPassed(sessionID)
    if (type === "session.deleted") this.#standIns.delete(sessionID)
    if (type === "permission.asked" && this.#settling) this.#answerPermission(event.properties)
    if (this.#phase !== "ready") this.#keepWaiting(type, this.#eventLine(event))
    else if (this.#wants(type) || this.#isDue(type, sessionID)) this.#send(event)
  }

  // Most events are text deltas, and most of those end here.
  #delta(event) {
    if (this.#phase !== "ready") return
    if (this.#wants(DELTA) ? this.#child.unsent <= LIMITS.congestedBytes : this.#isDue(DELTA, event.properties?.sessionID))
      this.#send(event)
  }

  #send(event) {
    if (this.#child.unsent > LIMITS.unsentBytes) this.#child.stop(0)
    else this.#child.write(this.#eventLine(event))
  }

  #eventLine(event) {
    return this.#line({ method: "event", params: { sequence: this.#sequence, event } })
  }

  // The plugins' answer to a question of the host, undefined for "no change".
  async ask(question, params, deadline = TIMES.question) {
    if (question === "chat.message") {
      this.#toasts.audience()
      if (HOST_KIND === "run") this.#runSession ??= params().sessionID
    }
    if (this.#phase === "starting" || this.#phase === "loading") await this.#ready()
    if (this.#phase !== "ready" || !this.#questions.has(question)) return undefined
    return new Promise((resolve) => {
      const id = this.#request(`hook/${question}`, params(), (answer) => {
        clearTimeout(timer)
        resolve(answer?.result ?? undefined)
      })
      const timer = later(deadline, () => {
        this.#open.delete(id)
        resolve(undefined)
      })
    })
  }

  // The header that has a request watched; null where its protocol is not one of ours, or nobody would answer.
  watch({ sessionID, agent, model, message, variant }) {
    const npm = model?.api?.npm
    if (this.#phase !== "ready" || !this.#questions.has("model.request") || !Object.hasOwn(PROTOCOLS, npm ?? "")) return null
    wrapFetch()
    const about = {
      sessionID,
      npm,
      agent: typeof agent === "string" ? agent : agent?.name,
      messageID: message?.id,
      model: { providerID: model.providerID, modelID: model.id },
      variant: variant ?? message?.model?.variant,
    }
    const tag = `${this.#name}-${this.#nextTag++}`
    WATCHES.set(tag, new Watch(this, about))
    if (WATCHES.size > LIMITS.unusedTags) WATCHES.delete(WATCHES.keys().next().value)
    return tag
  }

  // Whether Python would answer for a request; asking costs the turn a moment that a replay has no use for.
  answersFor(agent, headers) {
    const byDefault = this.#switching === "auto" && (headers.has("x-parent-session-id") || BESIDE.has(agent))
    return HOST_KIND === "run" || this.#switching === "inline" || byDefault
  }

  // Take in that a request is being made; call what is returned when there is something of its answer.
  began(sessionID, watch) {
    const open = this.#requests.get(sessionID) ?? new Set()
    this.#requests.set(sessionID, open.add(watch))
    return () => {
      open.delete(watch)
      if (open.size === 0) this.#requests.delete(sessionID)
    }
  }

  // Leave the model that an agent of a session waits for, if nothing came of it yet.
  #leave({ sessionID, agent, flowing }) {
    const open = [...(this.#requests.get(sessionID) ?? [])]
    return open.filter((watch) => watch.agent === agent).some((watch) => watch.giveUp(flowing))
  }

  provider(id) {
    return this.#providers?.find((provider) => provider.id === id)
  }

  // Who answers the further requests of a turn in whose first one another model stood in.
  standIn({ sessionID, messageID, agent, model }) {
    const found = this.#standIns.get(sessionID)
    const same = found && found.messageID === messageID && found.agent === agent && isSameModel(found.for, model)
    return same ? found.model : null
  }

  // Ask what a failed request is answered with: another model, its own failure but for good, or undefined.
  async nextModel(about, tried, failure, thoughts) {
    const obstacle = thoughts
      ? "the request carries thoughts that its model signed"
      : about.variant && "the request holds options of a variant"
    const reachable = obstacle ? {} : await this.#reachable(about).catch(() => ({}))
    const { sessionID, messageID, agent, model } = about
    const params = () => ({ sessionID, messageID, agent, model, tried, failure, reachable, obstacle })
    const answer = await this.ask("model.request", params, TIMES.nextModel)
    if (!answer?.model) return answer
    this.#standIns.delete(sessionID)
    this.#standIns.set(sessionID, { messageID, agent, for: model, model: answer.model })
    if (this.#standIns.size > LIMITS.standIns) this.#standIns.delete(this.#standIns.keys().next().value)
    return answer
  }

  // The models that a request could be sent to as it is, by provider.
  async #reachable({ npm, model }) {
    await this.#learnProviders()
    const open = (provider) =>
      provider.id === model.providerID ||
      (keyOf(provider) && addressOf(provider, PROTOCOLS[npm]) && !this.#logins?.has(provider.id))
    const names = ({ models }) =>
      Object.entries(models ?? {})
        .filter(([, each]) => each.api?.npm === npm)
        .map(([name]) => name)
    const found = this.#providers.filter(open).map((provider) => [provider.id, names(provider)])
    return Object.fromEntries(found.filter(([, models]) => models.length > 0))
  }

  // Keys stay here. A provider with a login may sign its requests in a `fetch` of its own, so no other's go to it.
  async #learnProviders() {
    if (this.#providers && this.#logins) return
    const { client } = this.#context
    const asked = [async () => client.config.providers(), async () => client.provider.auth()]
    const [providers, logins] = await Promise.all(asked.map((ask) => ask()))
    this.#providers = providers.data?.providers ?? []
    const hasLogin = ([, methods]) => methods?.some(({ type }) => type === "oauth")
    this.#logins = new Set(Object.entries(logins.data ?? {}).filter(hasLogin).map(([id]) => id))
  }

  // Resolves when the child is ready or gone, or has had its time to start.
  #ready() {
    const left = this.#startedAt + TIMES.coldStart - performance.now()
    if (left <= 0) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = later(left, resolve)
      this.#readiness.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  #wants(type) {
    return this.#events.has(type) || this.#events.has("*")
  }

  // Whether one of a sampled type is wanted again of this session.
  #isDue(type, sessionID) {
    const interval = this.#sampled.get(type)
    if (interval === undefined) return false
    const key = `${type} ${sessionID}`
    const now = performance.now()
    if (now - (this.#passed.get(key) ?? -Infinity) < interval) return false
    this.#passed.set(key, now)
    return true
  }

  #forgetPassed(sessionID) {
    for (const type of this.#sampled.keys()) this.#passed.delete(`${type} ${sessionID}`)
  }

  #line(message) {
    return `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`
  }

  #request(method, params, onAnswer) {
    const id = this.#nextId++
    const line = this.#line({ id, method, params })
    this.#open.set(id, onAnswer)
    this.#child?.write(line)
    return id
  }

  #sendChains() {
    if (this.#chains) this.#child?.write(this.#line({ method: "config", params: { agents: this.#chains } }))
  }

  #keepWaiting(type, line) {
    this.#waiting.push({ type, line })
    this.#waitingBytes += line.length
    while (this.#waitingBytes > LIMITS.waitingBytes) this.#waitingBytes -= this.#waiting.shift().line.length
  }

  #receive(child, message) {
    if (child !== this.#child || this.#phase === "off") return
    const { id, method, params } = message
    if (method === undefined) {
      const answered = this.#open.get(id)
      this.#open.delete(id)
      answered?.(message)
    } else if (method === "subscribe") this.#subscribed(params)
    else if (id !== undefined) this.#answer(child, message).catch(() => {}) // left to Python's deadline
  }

  #greeted({ result, error }) {
    if (result?.protocolVersion === PROTOCOL_VERSION) {
      this.#phase = "loading"
      return
    }
    const found =
      error?.message ??
      `the installed package speaks protocol ${result?.protocolVersion}, this bridge file ${PROTOCOL_VERSION}`
    this.#giveUp(`Off: ${found}. Run "fallback-plugin install opencode" and restart OpenCode.`)
  }

  #subscribed(params) {
    if (this.#phase !== "loading" && this.#phase !== "ready") return
    this.#events = new Set(Array.isArray(params?.events) ? params.events : [])
    this.#questions = new Set(Array.isArray(params?.questions) ? params.questions : [])
    this.#switching = params?.switching ?? "auto"
    const sampled = isObject(params?.sampled) ? Object.entries(params.sampled) : []
    this.#sampled = new Map(sampled.map(([type, seconds]) => [type, seconds * 1000]))
    this.#passed.clear()
    if (this.#phase === "ready") return
    this.#phase = "ready"
    clearTimeout(this.#startTimer)
    this.#healthTimer = later(TIMES.healthy, () => (this.#deaths = 0))
    for (const { type, line } of this.#forgetWaiting()) if (this.#wants(type)) this.#child.write(line)
    this.#wake()
    if (this.#questions.has("model.request")) this.#learnProviders().catch(() => {})
    this.#tellVersion(this.#child)
  }

  #forgetWaiting() {
    this.#waitingBytes = 0
    return this.#waiting.splice(0)
  }

  #wake() {
    for (const resolve of this.#readiness.splice(0)) resolve()
  }

  // The host tells its version only over its own API; asking is left until nobody waits for us.
  async #tellVersion(child) {
    try {
      const { data } = await this.#context.client._client.get({ url: "/global/health" })
      if (typeof data?.version !== "string") return
      child.write(this.#line({ method: "host", params: { version: data.version } }))
      if (!data.version.startsWith("1."))
        this.#toasts.say(`This plugin was made for OpenCode 1, not ${data.version}. If models are not switched, update it.`)
    } catch {
      // an unknown version changes nothing
    }
  }

  async #answer(child, { id, method, params }) {
    const reply = await this.#call(method, params)
    let line = this.#line({ id, ...reply })
    if (Buffer.byteLength(line) > LIMITS.lineBytes)
      line = this.#line({ id, error: { code: -32001, message: `the answer is longer than ${LIMITS.lineBytes} bytes` } })
    child.write(line)
  }

  async #call(method, params) {
    if (method !== "host/call") return { error: { code: -32601, message: `unknown method ${method}` } }
    const { call, arguments: given } = params ?? {}
    if (call !== "model.giveUp" && !Object.hasOwn(CALLS, call ?? "")) return { error: { code: -32601, message: `call ${call} is not allowed` } }
    if (!isObject(given)) return { error: { code: -32602, message: "arguments should be an object" } }
    const sentAfter = this.#sequence
    if (call === "model.giveUp") {
      const status = this.#leave(given) ? 200 : 404
      return { result: { status, data: null, sentAfter, answeredAfter: sentAfter } }
    }
    if (call === "tui.showToast" && this.#toasts.keep(given.body))
      return { result: { status: 202, data: true, sentAfter, answeredAfter: sentAfter } }
    try {
      const { data, error, response } = await CALLS[call](this.#context.client, given)
      const status = response?.status ?? (error === undefined ? 200 : 500)
      return { result: { status, data: error ?? data ?? null, sentAfter, answeredAfter: this.#sequence } }
    } catch (error) {
      return { error: { code: -32000, message: String(error?.message ?? error) } }
    }
  }

  #ended(child, error) {
    if (child !== this.#child || this.#phase === "off") return
    this.#close("down")
    if (error?.code === "ENOENT") {
      this.#commands.shift()
      if (this.#commands.length > 0) return this.start()
      return this.#giveUp('Off: its Python is gone. Run "fallback-plugin install opencode" again and restart OpenCode.')
    }
    this.#deaths += 1
    if (this.#deaths >= DEATHS_IN_A_ROW) {
      const last = child.stderrTail.trim().split("\n").pop()
      return this.#giveUp(`Off: it stopped ${this.#deaths} times in a row${last ? ` (${last})` : ""}. Restart OpenCode to try again.`)
    }
    if (!this.#saidDeath) this.#toasts.say("The fallback plugin stopped and is being restarted.")
    this.#saidDeath = true
    later(Math.min(TIMES.firstRestart * 2 ** (this.#deaths - 1), TIMES.longestRestart), () => this.start())
  }

  #giveUp(message) {
    this.#close("off")
    this.#child?.stop()
    this.#toasts.say(message, "error")
  }

  // Leave the current child: every open question is answered "no change" at once.
  #close(phase) {
    this.#phase = phase
    clearTimeout(this.#startTimer)
    clearTimeout(this.#healthTimer)
    const open = [...this.#open.values()]
    this.#open.clear()
    if (phase === "off") this.#forgetWaiting()
    this.#wake()
    for (const answered of open) answered(undefined)
  }
}

const DONE = Promise.resolve()

// A hook that fails is a hook that changed nothing.
function harmless(hook) {
  return async (...given) => {
    try {
      await hook(...given)
    } catch {
      // the host's turn matters more
    }
  }
}

function hooks(bridge) {
  return {
    // Not async: order and sequence are taken as the host calls, and it calls for every text delta.
    event: (input) => {
      try {
        bridge.event(input.event)
      } catch {
        // the host's turn matters more
      }
      return DONE
    },

    config: harmless((config) => bridge.setChains(takeChains(config))),

    "chat.message": harmless(async (input, output) => {
      const answer = await bridge.ask("chat.message", () => ({
        sessionID: input.sessionID,
        messageID: input.messageID ?? output.message?.id,
        agent: input.agent ?? output.message?.agent,
        model: input.model,
        variant: input.variant,
        resolved: output.message?.model,
      }))
      if (answer?.model) output.message.model = { ...answer.model, ...(answer.variant && { variant: answer.variant }) }
    }),

    "chat.headers": harmless(async (input, output) => {
      const tag = bridge.watch(input)
      if (tag) output.headers[TAG] = tag
    }),

    "experimental.chat.messages.transform": harmless(async (_, output) => {
      const answer = await bridge.ask("experimental.chat.messages.transform", () => ({ messages: output.messages }))
      if (Array.isArray(answer?.messages)) output.messages.splice(0, Infinity, ...answer.messages)
    }),

    "tool.execute.before": harmless(async (input, output) => {
      const answer = await bridge.ask("tool.execute.before", () => ({ ...input, args: output.args }))
      if (isObject(answer?.args)) output.args = answer.args
    }),

    "tool.execute.after": harmless(async (input, output) => {
      const { title, output: text, metadata } = output
      const answer = await bridge.ask(
        "tool.execute.after",
        () => ({ ...input, title, output: text, metadata }),
        TIMES.toolResult,
      )
      if (typeof answer?.output === "string") Object.assign(output, answer)
    }),

    "permission.ask": harmless(async (input, output) => {
      const answer = await bridge.ask("permission.ask", () => input)
      if (["allow", "ask", "deny"].includes(answer?.status)) output.status = answer.status
    }),

    dispose: async () => {
      await harmless(() => bridge.settleRun())()
      bridge.dispose()
    },
  }
}

export default {
  id: "fallback-plugin",
  server: async (context) => {
    const bridge = new Bridge(context)
    bridge.start()
    return hooks(bridge)
  },
}
