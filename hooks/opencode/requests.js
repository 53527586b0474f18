// The requests of one OpenCode instance to its models, and what Python says of those that fail.

import { agentName, isBackground, isBeside } from "./agents.js"
import { ENDS_AT_IDLE, HOST_KIND } from "./command-line.js"
import { WATCHES, wrapFetch } from "./fetch.js"
import { isAwaited, keepLastRequest } from "./last-requests.js"
import { LIMITS } from "./limits.js"
import { PROTOCOLS } from "./protocols.js"
import { Providers } from "./providers.js"
import { TIMES } from "./times.js"
import { Watch } from "./watch.js"

const isSameModel = (one, other) => one.providerID === other.providerID && one.modelID === other.modelID

export class Requests {
  switching = "auto" // which requests Python answers for
  #ask
  #lastStop
  #providers
  #open = new Map() // session -> its requests that nothing has come of yet
  #standIns = new Map() // session -> who answers in whose place in its turn
  #nextTag = 1
  #name = Math.random().toString(36).slice(2)

  // `ask` asks Python: the question, a function that makes its parameters, and a deadline. `lastStop` names the last
  // stop of a session.
  constructor(client, ask, lastStop) {
    this.#ask = ask
    this.#lastStop = lastStop
    this.#providers = new Providers(client)
  }

  // Python will be asked about requests: know the providers by then.
  prepare() {
    this.#providers.read().catch(() => {})
  }

  // The header that has a request watched; null where its protocol is not one of ours.
  watch({ sessionID, agent, model, message, variant }) {
    const npm = model?.api?.npm
    if (!Object.hasOwn(PROTOCOLS, npm ?? "")) return null
    wrapFetch()
    // It was connected since the host was asked. The request does not wait for the answer.
    if (!this.provider(model.providerID)) this.prepare()
    const about = {
      sessionID,
      npm,
      agent: agentName(agent),
      messageID: message?.id,
      model: { providerID: model.providerID, modelID: model.id },
      variant: variant ?? message?.model?.variant,
      stop: this.#lastStop(sessionID),
    }
    const tag = `${this.#name}-${this.#nextTag++}`
    keep(new Watch(this, about, tag))
    return tag
  }

  // A failure goes to the host, which makes a request that nobody waits for once more by itself, even after a stop.
  handsOn(watch) {
    if (isBackground(watch.agent)) keep(watch)
  }

  // Whether a request that nobody waits for is not to be made: the user has stopped the session since it was.
  isForgone({ sessionID, agent, stop }) {
    return isBackground(agent) && this.#lastStop(sessionID) !== stop
  }

  // Nothing that was announced is watched any more.
  dispose() {
    for (const [tag, watch] of WATCHES) if (watch.requests === this) WATCHES.delete(tag)
  }

  // Whether Python would answer for a request; asking costs the turn a moment that a replay has no use for.
  answersFor(agent, headers) {
    const byDefault = this.switching === "auto" && (headers.has("x-parent-session-id") || isBeside(agent))
    return ENDS_AT_IDLE || this.switching === "inline" || byDefault
  }

  // Take in that a request is being made; call what is returned when there is something of its answer.
  began(sessionID, watch) {
    const open = this.#open.get(sessionID) ?? new Set()
    this.#open.set(sessionID, open.add(watch))
    return () => {
      open.delete(watch)
      if (open.size === 0) this.#open.delete(sessionID)
    }
  }

  // Leave the model that an agent of a session waits for, any agent where none is named, if nothing came of it yet.
  leave({ sessionID, agent, flowing }) {
    const open = [...(this.#open.get(sessionID) ?? [])]
    return open.filter((watch) => (agent ?? watch.agent) === watch.agent).some((watch) => watch.giveUp(flowing))
  }

  // Take in that an answer was given up after it had begun.
  brokenOff({ sessionID, agent }, model) {
    if (!isBeside(agent)) keepLastRequest(sessionID, { model, failure: { ending: "silent" } })
  }

  provider(id) {
    return this.#providers.get(id)
  }

  // Who answers the further requests of a turn in whose first one another model stood in.
  standIn({ sessionID, messageID, agent, model }) {
    const found = this.#standIns.get(sessionID)
    const same = found && found.messageID === messageID && found.agent === agent && isSameModel(found.for, model)
    return same ? found.model : null
  }

  forget(sessionID) {
    this.#standIns.delete(sessionID)
  }

  // Ask which model a request of the host's own goes to in the place of one that rests: those of the user's turns were
  // sent elsewhere with their prompt. Undefined for its own.
  async instead(about) {
    const { sessionID, messageID, agent, model, variant } = about
    if (!isBackground(agent) || variant) return undefined
    const reachable = await this.#providers.reachable(about).catch(() => ({}))
    const answer = await this.#ask("model.background", () => ({ sessionID, messageID, agent, model, tried: [], reachable }))
    return answer?.model
  }

  // Ask what a failed request is answered with: another model, its own failure but for good, or undefined.
  async nextModel(about, tried, failure, thoughts) {
    const obstacle = thoughts
      ? "the request carries thoughts that its model signed"
      : about.variant && "the request holds options of a variant"
    const reachable = obstacle ? {} : await this.#providers.reachable(about).catch(() => ({}))
    const { sessionID, messageID, agent, model } = about
    const awaited = HOST_KIND === "run" && isAwaited(sessionID)
    const params = () => ({ sessionID, messageID, agent, model, tried, failure, reachable, obstacle, awaited })
    const answer = await this.#ask("model.request", params, TIMES.nextModel)
    if (this.#lastStop(sessionID) !== about.stop) return isBackground(agent) ? { final: true } : undefined
    if (answer?.final && !isBeside(agent)) keepLastRequest(sessionID, { model: tried.at(-1), failure })
    if (!answer?.model) return answer
    if (!isBeside(agent)) keepLastRequest(sessionID, { model: answer.model })
    this.#standIns.delete(sessionID)
    this.#standIns.set(sessionID, { messageID, agent, for: model, model: answer.model })
    if (this.#standIns.size > LIMITS.standIns) this.#standIns.delete(this.#standIns.keys().next().value)
    return answer
  }
}

function keep(watch) {
  WATCHES.set(watch.tag, watch)
  if (WATCHES.size > LIMITS.unusedTags) WATCHES.delete(WATCHES.keys().next().value)
}
