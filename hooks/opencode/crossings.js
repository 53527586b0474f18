// Calls of ours and the user's doings that cross. A call that Python decided on before it heard of the user's stop, or
// of a message, may be meant for a run that is over, and would hit the next one. And a message that comes while a call
// of ours is carried out waits for its end: it would be stopped with the run before it, or never be answered.

import { LIMITS } from "./limits.js"
import { later, TIMES } from "./times.js"

export class Crossings {
  #sessions = new Map()

  // What is known of a session: the sequence and the time of the user's last stop, the message that it stopped, the
  // last message since, what of ours is being carried out, and the messages that wait for that.
  #of(sessionID) {
    const fresh = { stop: 0, stoppedAt: -Infinity, stopped: null, message: null, calls: new Set(), held: new Map() }
    const known = this.#sessions.get(sessionID) ?? fresh
    this.#sessions.delete(sessionID)
    this.#sessions.set(sessionID, known)
    if (this.#sessions.size > LIMITS.sessions) this.#sessions.delete(this.#sessions.keys().next().value)
    return known
  }

  stopped(sessionID, sequence) {
    const known = this.#of(sessionID)
    // The host may have nothing to stop yet.
    Object.assign(known, { stop: sequence, stoppedAt: performance.now(), stopped: known.message?.id ?? known.stopped, message: null })
  }

  lastStop(sessionID) {
    return this.#sessions.get(sessionID)?.stop ?? 0
  }

  wasJustStopped(sessionID) {
    return performance.now() - (this.#sessions.get(sessionID)?.stoppedAt ?? -Infinity) < TIMES.freshStop
  }

  // Whether a message was stopped, be it before its run had begun.
  wasStopped(sessionID, messageID) {
    return messageID !== undefined && this.#sessions.get(sessionID)?.stopped === messageID
  }

  // Take in that a message is sent again.
  resumes(sessionID, messageID) {
    if (this.wasStopped(sessionID, messageID)) this.#of(sessionID).stopped = null
  }

  forget(sessionID) {
    this.#sessions.delete(sessionID)
  }

  // A message of the user's is about to be made; nobody can have heard of it. Resolves when it may be, with whether it
  // had to wait.
  async comes(sessionID, messageID) {
    const known = this.#of(sessionID)
    const isUnseen = known.message?.sequence === Infinity
    const followsStop = known.stop > 0 && (known.message === null || (isUnseen && known.message.followsStop))
    const message = { id: messageID, followsStop, sequence: Infinity, made: false, cameAt: performance.now() }
    known.message = message
    this.resumes(sessionID, messageID)
    const waits = known.calls.size > 0
    if (waits) {
      const held = {}
      held.shown = new Promise((resolve) => (held.resolve = resolve))
      known.held.set(messageID, held)
      await nothingUnderWay(known.calls)
    }
    message.made = true
    return waits
  }

  shown(sessionID, messageID, sequence) {
    const { held, message } = this.#sessions.get(sessionID) ?? {}
    held?.get(messageID)?.resolve()
    held?.delete(messageID)
    if (message?.id === messageID && message.sequence === Infinity) message.sequence = sequence
  }

  // Whether a message was made since the last stop: whatever was stopped is over.
  goesOn(sessionID) {
    const { stop, message } = this.#sessions.get(sessionID) ?? {}
    return stop > 0 && Boolean(message?.made)
  }

  // What Python had not heard of when it decided on a call, the last event that it knew being `after`: "stop",
  // "message", or null.
  unheard(sessionID, after) {
    const { stop, message } = this.#sessions.get(sessionID) ?? {}
    if (typeof after !== "number" || stop === undefined) return null
    if (after < stop) return "stop"
    if (!message || after >= message.sequence) return null
    if (message.sequence === Infinity && performance.now() - message.cameAt > TIMES.unseen) return null // it was not made
    return message.followsStop ? "stop" : "message"
  }

  // Take in that something of ours is under way until `end`.
  began(sessionID, end) {
    const { calls } = this.#of(sessionID)
    const over = () => calls.delete(ended)
    const ended = Promise.resolve(end).then(over, over)
    calls.add(ended)
  }

  // Resolves when the messages that waited are made, so that the run which is about to ask its model answers them too.
  async letThrough(sessionID) {
    const held = this.#sessions.get(sessionID)?.held
    if (!held?.size) return
    const shown = Promise.all([...held.values()].map((each) => each.shown))
    await Promise.race([shown, new Promise((resolve) => later(TIMES.letThrough, resolve))])
    held.clear()
  }
}

async function nothingUnderWay(calls) {
  const limit = new Promise((resolve) => later(TIMES.crossing, () => resolve("late")))
  while (calls.size > 0) {
    if ((await Promise.race([Promise.all(calls), limit])) === "late") return
    await new Promise((resolve) => later(TIMES.nextCall, resolve)) // another one may follow at once
  }
}
