// The conversation with Python, from its start over its deaths to its end: events, questions and calls.

import { isBackground } from "./agents.js"
import { CALLS } from "./calls.js"
import { Child, childCommands } from "./child.js"
import { ENDS_AT_IDLE, HOST_KIND } from "./command-line.js"
import { EarlyEvents } from "./early-events.js"
import { EditorPrompts } from "./editor-prompts.js"
import { wrapFetch } from "./fetch.js"
import { Gate } from "./gate.js"
import { isObject } from "./json.js"
import { awaitLastRequest, takeLastRequest } from "./last-requests.js"
import { LIMITS } from "./limits.js"
import { Requests } from "./requests.js"
import { Run } from "./run.js"
import { STOP_REQUESTED, STOP_WATCHERS, watchStops } from "./stops.js"
import { Subscription } from "./subscription.js"
import { later, TIMES } from "./times.js"
import { Toasts } from "./toasts.js"
import { UnfinishedSteps } from "./unfinished-steps.js"
import { WaitingClients } from "./waiting-clients.js"

const BRIDGE_VERSION = "0.1.0"
const PROTOCOL_VERSION = 1
const DEATHS_IN_A_ROW = 5
const DELTA = "message.part.delta"
const MODEL_REQUESTED = "model.requested" // an event of ours, beside the host's own
const ASKED_ON_THE_SPOT = ["chat.message", "model.request", "prompt.begins"] // each holds a turn up

export class Bridge {
  #context
  #toasts
  #requests
  #run
  #editor = null // in `opencode acp`
  #waitingClients = null // of what serves others
  #sequence = 0
  #child = null
  #phase = "starting" // starting, loading, ready, down (waits for its restart), off (for good)
  #commands = childCommands()
  #startedAt = 0
  #startTimer = null
  #healthTimer = null
  #deaths = 0
  #saidDeath = false
  #subscription = new Subscription()
  #early = new EarlyEvents()
  #steps = new UnfinishedSteps()
  #gate
  #onStop = (sessionID, ended) => this.#stopped(sessionID, ended)
  #chains = null
  #nextId = 1
  #open = new Map() // id -> what to do with the answer
  #readiness = []
  // Calls that go no further than here; each returns an HTTP status.
  #ownCalls = {
    "model.giveUp": (given) => (this.#requests.leave(given) ? 200 : 404),
    "tui.showToast": ({ body, ...about }) => {
      this.#toasts.showSoon(body, () => !this.#gate.objection("tui.showToast", about))
      return 202
    },
  }

  constructor(context) {
    this.#context = context
    this.#toasts = new Toasts(context.client)
    const ask = (...question) => this.ask(...question)
    this.#gate = new Gate(context.client, ask)
    this.#requests = new Requests(context.client, ask, (sessionID) => this.#gate.lastStop(sessionID))
    this.#run = new Run(context.client)
    watchStops(this.#onStop)
    if (HOST_KIND === "acp") this.#watchEditor()
    if (!ENDS_AT_IDLE) this.#waitingClients = new WaitingClients(context.client, ask)
  }

  // The user stops a session, of this instance or another.
  #stopped(sessionID, ended) {
    this.event({ type: STOP_REQUESTED, properties: { sessionID } })
    this.#gate.stopped(sessionID, this.#sequence, ended)
  }

  #watchEditor() {
    const ask = (...question) => this.ask(...question)
    const tellStopped = (sessionID, error) => this.event({ type: "session.error", properties: { sessionID, error } })
    this.#editor = new EditorPrompts(this.#context.client, ask, tellStopped)
    wrapFetch()
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

  settleRun() {
    return this.#run.settle((...question) => this.ask(...question))
  }

  dispose() {
    STOP_WATCHERS.delete(this.#onStop)
    this.#requests.dispose()
    this.#editor?.dispose()
    this.#waitingClients?.dispose()
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
    if (type === "session.idle" || type === "session.deleted") {
      this.#subscription.forget(sessionID)
      this.#steps.forget(sessionID)
      this.#gate.idle(sessionID)
    }
    if (type === "message.updated") {
      this.#gate.shown(sessionID, event.properties.info?.id, this.#sequence)
      this.#editor?.shown({ sessionID, ...event.properties.info })
    }
    if (type === "session.status") this.#editor?.saw(sessionID)
    if (type === "session.idle") this.#editor?.idle(sessionID)
    if (type === "session.deleted") {
      this.#requests.forget(sessionID)
      this.#gate.deleted(sessionID)
    }
    if (type === "message.part.updated") this.#steps.saw(event.properties?.part)
    if (type === "permission.asked" && this.#run.settling) this.#run.answerPermission(event.properties)
    if (this.#phase !== "ready") this.#early.keep(type, this.#eventLine(event))
    else if (this.#subscription.wants(type) || this.#subscription.isDue(type, sessionID)) this.#send(event)
    if (type === "session.deleted") this.#editor?.stopped(sessionID)
  }

  // Most events are text deltas, and most of those end here.
  #delta(event) {
    this.#editor?.published(event.properties ?? {})
    if (this.#phase !== "ready") return
    const subscription = this.#subscription
    if (subscription.wants(DELTA) ? this.#child.unsent <= LIMITS.congestedBytes : subscription.isDue(DELTA, event.properties?.sessionID))
      this.#send(event)
  }

  #send(event) {
    if (this.#child.unsent > LIMITS.unsentBytes) this.#child.stop(0)
    else this.#child.write(this.#eventLine(event))
  }

  #eventLine(event) {
    return this.#line({ method: "event", params: { sequence: this.#sequence, event } })
  }

  // The plugins' answer to a question of the host: null for "no change", undefined if there was none.
  async ask(question, params, deadline = TIMES.question) {
    if (question === "chat.message") {
      this.#toasts.audience()
      if (HOST_KIND === "run") this.#run.sessionID ??= params().sessionID
      this.#editor?.saw(params().sessionID, params().messageID)
      this.#waitingClients?.saw(params().sessionID)
    }
    if (this.#phase === "starting" || this.#phase === "loading") await this.#ready()
    if (!this.#answers(question)) return undefined
    return new Promise((resolve) => {
      let timer = null
      const answered = (answer) => {
        clearTimeout(timer)
        resolve(answer?.result)
      }
      const id = this.#request(`hook/${question}`, params(), answered, ASKED_ON_THE_SPOT.includes(question))
      if (!this.#open.has(id)) return // answered on the spot
      timer = later(deadline, () => {
        this.#open.delete(id)
        resolve(undefined)
      })
    })
  }

  // Resolves when a message may be made, with whether it had to wait.
  messageComes(message) {
    return this.#gate.messageComes(message)
  }

  // Whether the next step of a session may begin, once it may.
  async mayBegin(request) {
    const { sessionID, agent, message } = request
    await this.#editor?.nextRequest(request)
    if (this.#answers("model.request")) await this.#steps.next(sessionID)
    if (!(await this.#gate.mayBegin(request, { stopsAreKept: this.#editor !== null }))) return false
    // The host's events do not show when a model is asked.
    if (!isBackground(agent)) this.event({ type: MODEL_REQUESTED, properties: { sessionID, messageID: message?.id } })
    return true
  }

  // The header that has a request watched; null where there is nothing to watch, or nobody would answer.
  watch(request) {
    return this.#answers("model.request") ? this.#requests.watch(request) : null
  }

  #answers(question) {
    return this.#phase === "ready" && this.#subscription.answers(question)
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

  #line(message) {
    return `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`
  }

  #request(method, params, onAnswer, onTheSpot = false) {
    const id = this.#nextId++
    const child = this.#child
    // What was written before is to be read before.
    const line = this.#line({ id, method, params: onTheSpot ? { ...params, after: child?.linesBefore } : params })
    this.#open.set(id, onAnswer)
    if (onTheSpot) child?.writeAndWait(line, () => !this.#open.has(id))
    else child?.write(line)
    return id
  }

  #sendChains() {
    if (this.#chains) this.#child?.write(this.#line({ method: "config", params: { agents: this.#chains } }))
  }

  #receive(child, message) {
    if (child !== this.#child || this.#phase === "off") return
    const { id, method, params } = message
    if (method === undefined) {
      const answered = this.#open.get(id)
      this.#open.delete(id)
      answered?.(message)
    } else if (method === "subscribe") this.#subscribed(params)
    else if (method === "syncChannel") child.openSyncChannel(params?.folder)
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
    this.#subscription = new Subscription(params)
    this.#requests.switching = this.#subscription.switching
    if (this.#phase === "ready") return
    this.#phase = "ready"
    clearTimeout(this.#startTimer)
    this.#healthTimer = later(TIMES.healthy, () => (this.#deaths = 0))
    for (const { type, line } of this.#early.take()) if (this.#subscription.wants(type)) this.#child.write(line)
    this.#wake()
    if (this.#answers("model.request")) this.#requests.prepare()
    this.#tellVersion(this.#child)
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
    const own = Object.hasOwn(this.#ownCalls, call ?? "")
    if (!own && !Object.hasOwn(CALLS, call ?? "")) return { error: { code: -32601, message: `call ${call} is not allowed` } }
    if (!isObject(given)) return { error: { code: -32602, message: "arguments should be an object" } }
    const sentAfter = this.#sequence
    const stopped = this.#editor?.objection(call, given)
    if (stopped) return { result: { ...stopped, sentAfter, answeredAfter: sentAfter } }
    const tooLate = this.#gate.objection(call, given)
    if (tooLate) return { result: { status: tooLate, data: null, sentAfter, answeredAfter: sentAfter } }
    if (own) return { result: { status: this.#ownCalls[call](given), data: null, sentAfter, answeredAfter: sentAfter } }
    try {
      this.#gate.calls(call, given)
      const waits = call === "session.prompt" // for the end of its turn
      if (waits) awaitLastRequest(given.sessionID)
      const answer = CALLS[call](this.#context.client, given)
      this.#gate.isCarriedOut(call, given, answer)
      if (call === "session.abort") this.#steps.stopping(given.sessionID, answer)
      const { data, error, response } = await answer
      const lastRequest = waits ? takeLastRequest(given.sessionID) : undefined
      const status = response?.status ?? (error === undefined ? 200 : 500)
      if (status >= 400) this.#gate.notAccepted(call, given)
      return { result: { status, data: error ?? data ?? null, sentAfter, answeredAfter: this.#sequence, lastRequest } }
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
    if (phase === "off") this.#early.take()
    this.#wake()
    for (const answered of open) answered(undefined)
  }
}
