// Calls of ours and the user's doings that cross. A call that Python decided on before it heard of the user's stop, or
// of the message after it, is meant for a run that is over, and would hit the next one. And a message that comes while
// a call of ours is carried out waits for its end: it would be stopped with the run before it, or never be answered.

import { LIMITS } from "./limits.js"
import { later, TIMES } from "./times.js"

export class Crossings {
  #stops = new Map() // session -> the user's last stop and the message after it, each by the sequence of its event
  #calls = new Map() // session -> what of ours is being carried out

  stopped(sessionID, sequence) {
    this.#stops.delete(sessionID)
    this.#stops.set(sessionID, { sequence, message: null, shown: 0, made: false })
    if (this.#stops.size > LIMITS.sessions) this.#stops.delete(this.#stops.keys().next().value)
  }

  forget(sessionID) {
    this.#stops.delete(sessionID)
  }

  // A message of the user's is about to be made; nobody can have heard of it.
  comes(sessionID, messageID) {
    const stop = this.#stops.get(sessionID)
    if (stop && (stop.message === null || stop.shown === Infinity)) Object.assign(stop, { message: messageID, shown: Infinity })
  }

  shown(sessionID, messageID, sequence) {
    const stop = this.#stops.get(sessionID)
    if (stop?.shown === Infinity && stop.message === messageID) stop.shown = sequence
  }

  // Whether Python knew of less than has happened when it decided on a call; `after` is the last event that it knew.
  crosses(sessionID, after) {
    const stop = this.#stops.get(sessionID)
    return Boolean(stop) && typeof after === "number" && after < Math.max(stop.sequence, stop.shown)
  }

  // Take in that something of ours is under way until `end`.
  began(sessionID, end) {
    const calls = this.#calls.get(sessionID) ?? new Set()
    const over = () => {
      calls.delete(ended)
      if (calls.size === 0 && this.#calls.get(sessionID) === calls) this.#calls.delete(sessionID)
    }
    const ended = Promise.resolve(end).then(over, over)
    this.#calls.set(sessionID, calls.add(ended))
  }

  // Resolves when a message may be made: nothing of ours is under way in its session, and nothing more follows at once.
  async clear(sessionID) {
    await this.#nothingUnderWay(sessionID)
    const stop = this.#stops.get(sessionID)
    if (stop?.message) stop.made = true
  }

  // Whether a message was made since the last stop: whatever was stopped is over.
  goesOn(sessionID) {
    return Boolean(this.#stops.get(sessionID)?.made)
  }

  async #nothingUnderWay(sessionID) {
    const limit = new Promise((resolve) => later(TIMES.crossing, () => resolve("late")))
    while (this.#calls.has(sessionID)) {
      if ((await Promise.race([Promise.all(this.#calls.get(sessionID)), limit])) === "late") return
      await new Promise((resolve) => later(TIMES.nextCall, resolve))
    }
  }
}
