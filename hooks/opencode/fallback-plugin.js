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
}

const TIMES = {
  question: 250,
  toolResult: 120_000,
  coldStart: 2_000, // a question waits for a child that is still starting, at most this long after its start
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
  #sampled = new Map() // type -> one in so many milliseconds will do
  #passed = new Map() // type and session -> when the last one was sent
  #questions = new Set()
  #waiting = [] // event lines of before ready
  #waitingBytes = 0
  #chains = null
  #nextId = 1
  #open = new Map() // id -> what to do with the answer
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
    const host = { name: "opencode", version: null, kind: hostKind(process.argv) }
    this.#request(
      "initialize",
      { protocolVersion: PROTOCOL_VERSION, host, directory, worktree, bridge: BRIDGE_VERSION },
      (answer) => answer && this.#greeted(answer),
    )
    this.#sendChains()
  }

  dispose() {
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
    if (question === "chat.message") this.#toasts.audience()
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
    const sampled = isObject(params?.sampled) ? Object.entries(params.sampled) : []
    this.#sampled = new Map(sampled.map(([type, seconds]) => [type, seconds * 1000]))
    this.#passed.clear()
    if (this.#phase === "ready") return
    this.#phase = "ready"
    clearTimeout(this.#startTimer)
    this.#healthTimer = later(TIMES.healthy, () => (this.#deaths = 0))
    for (const { type, line } of this.#forgetWaiting()) if (this.#wants(type)) this.#child.write(line)
    this.#wake()
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
    if (!Object.hasOwn(CALLS, call ?? "")) return { error: { code: -32601, message: `call ${call} is not allowed` } }
    if (!isObject(given)) return { error: { code: -32602, message: "arguments should be an object" } }
    const sentAfter = this.#sequence
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

    dispose: harmless(() => bridge.dispose()),
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
