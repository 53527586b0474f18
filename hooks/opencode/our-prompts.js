// The prompts that Python hands in: which messages are theirs, and whether one may still begin when its model is about
// to be asked. The user may have stopped its turn while it was on its way, which the host forgets when it comes before
// a run begins.

import { LIMITS } from "./limits.js"
import { TIMES } from "./times.js"

const BACKGROUND_AGENTS = ["title", "summary"] // agents whose requests are no turn's

export const isBackground = (agent) => BACKGROUND_AGENTS.includes(typeof agent === "string" ? agent : agent?.name)

export class OurPrompts {
  #waiting = new Set() // sessions with a prompt of ours whose model has not been asked yet
  #sent = new Set() // sessions that had one
  #gone = new Set() // those of them that were deleted
  #stops = new Map() // session -> when the user last stopped it
  #bodies = new Map() // session -> the prompt of ours that is on its way, and what to call when it has begun

  // Returns what resolves when the prompt's model is asked, or never will be.
  handedIn(sessionID, body) {
    this.#waiting.add(sessionID)
    keep(this.#sent, sessionID)
    return this.sent(sessionID, body)
  }

  // The same of a prompt that nobody need confirm.
  sent(sessionID, body) {
    this.over(sessionID)
    return new Promise((resolve) => {
      this.#bodies.set(sessionID, { body, resolve, made: false })
      bound(this.#bodies)
    })
  }

  over(sessionID) {
    this.#bodies.get(sessionID)?.resolve()
    this.#bodies.delete(sessionID)
  }

  // A run has ended; that of a prompt whose message has yet to be made was another one.
  idle(sessionID) {
    if (this.#bodies.get(sessionID)?.made) this.over(sessionID)
  }

  rejected(sessionID) {
    this.#waiting.delete(sessionID)
    this.over(sessionID)
  }

  // Whether a message that is about to be made is that of a prompt of ours.
  isOurs({ sessionID, messageID, model }) {
    const prompt = this.#bodies.get(sessionID)
    if (!prompt) return false
    const { messageID: inPlace, model: wanted } = prompt.body
    const isSame = inPlace ? inPlace === messageID : model?.providerID === wanted?.providerID && model?.modelID === wanted?.modelID
    if (isSame) prompt.made = true
    return isSame
  }

  stopped(sessionID) {
    this.#stops.delete(sessionID)
    this.#stops.set(sessionID, performance.now())
    bound(this.#stops)
  }

  // The host lets the run of a deleted session go on.
  deleted(sessionID) {
    this.#waiting.delete(sessionID)
    this.#stops.delete(sessionID)
    this.over(sessionID)
    if (this.#sent.delete(sessionID)) keep(this.#gone, sessionID)
  }

  // What to do with a request for a model: "begin", "refuse" it, or "abort" its run. `ask` asks Python, and gives
  // undefined if there was no answer: that counts as a stop if the user has just stopped the session.
  async verdict({ sessionID, agent, message }, ask) {
    if (this.#gone.has(sessionID)) return "abort"
    if (!this.#waiting.has(sessionID)) return "begin"
    // A title is made up beside the turn, and is not the turn's first request.
    const background = isBackground(agent)
    if (!background) this.#waiting.delete(sessionID)
    const justStopped = performance.now() - this.#stops.get(sessionID) < TIMES.freshStop
    const question = () => ({ sessionID, messageID: message?.id })
    const answer = await ask("prompt.begins", question, justStopped ? TIMES.afterStop : TIMES.nextModel)
    const stop = answer === undefined ? justStopped : answer?.stop
    if (!stop) return "begin"
    return background ? "refuse" : "abort"
  }
}

function keep(sessions, sessionID) {
  sessions.add(sessionID)
  bound(sessions)
}

function bound(collection) {
  if (collection.size > LIMITS.sessions) collection.delete(collection.keys().next().value)
}
