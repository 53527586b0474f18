// The prompts that Python hands in: whether one may still begin when its model is about to be asked. The user may
// have stopped its turn while it was on its way, which the host forgets when it comes before a run begins.

import { LIMITS } from "./limits.js"
import { TIMES } from "./times.js"

const BACKGROUND_AGENTS = ["title", "summary"] // agents whose requests are no turn's

export const isBackground = (agent) => BACKGROUND_AGENTS.includes(typeof agent === "string" ? agent : agent?.name)

export class OurPrompts {
  #waiting = new Set() // sessions with a prompt of ours whose model has not been asked yet
  #sent = new Set() // sessions that had one
  #gone = new Set() // those of them that were deleted
  #stops = new Map() // session -> when the user last stopped it

  handedIn(sessionID) {
    this.#waiting.add(sessionID)
    keep(this.#sent, sessionID)
  }

  rejected(sessionID) {
    this.#waiting.delete(sessionID)
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
