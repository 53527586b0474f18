// Calls of ours and the user's doings that cross. A call that Python decided on before it heard of the user's stop, or
// of a message, may be meant for a run that is over, and would hit the next one. And a message that comes while a call
// of ours is carried out waits for its end: it would be stopped with the run before it, or never be answered.

import { LIMITS } from "./limits.js"
import { later, TIMES } from "./times.js"

export class Crossings {
  #stops = new Map() // session -> the sequence of the user's last stop
  #messages = new Map() // session -> the last message since then, whether it is the first, and its event's sequence
  #stopped = new Map() // session -> the message that was stopped last
  #calls = new Map() // session -> what of ours is being carried out
  #held = new Map() // session -> the messages that wait, each with what to call when it is made

  stopped(sessionID, sequence) {
    const last = this.#messages.get(sessionID)
    if (last) put(this.#stopped, sessionID, last.id) // the host may have nothing to stop yet
    put(this.#stops, sessionID, sequence)
    this.#messages.delete(sessionID)
  }

  lastStop(sessionID) {
    return this.#stops.get(sessionID)
  }

  // Whether a message was stopped, be it before its run had begun.
  wasStopped(sessionID, messageID) {
    return messageID !== undefined && this.#stopped.get(sessionID) === messageID
  }

  // Take in that a message is sent again.
  resumes(sessionID, messageID) {
    if (this.wasStopped(sessionID, messageID)) this.#stopped.delete(sessionID)
  }

  forget(sessionID) {
    for (const known of [this.#stops, this.#messages, this.#stopped, this.#held]) known.delete(sessionID)
  }

  // A message of the user's is about to be made; nobody can have heard of it. Resolves when it may be, with whether it
  // had to wait.
  async comes(sessionID, messageID) {
    const last = this.#messages.get(sessionID)
    const afterStop = last === undefined || last.sequence === Infinity ? this.#stops.has(sessionID) && last?.afterStop !== false : false
    const message = { id: messageID, afterStop, sequence: Infinity, made: false, cameAt: performance.now() }
    put(this.#messages, sessionID, message)
    this.resumes(sessionID, messageID)
    if (!this.#calls.has(sessionID)) {
      message.made = true
      return false
    }
    const held = this.#held.get(sessionID) ?? new Map()
    const shown = new Promise((resolve) => held.set(messageID, resolve))
    put(this.#held, sessionID, held)
    held.all = Promise.all([held.all, shown])
    await this.#nothingUnderWay(sessionID)
    message.made = true
    return true
  }

  shown(sessionID, messageID, sequence) {
    this.#held.get(sessionID)?.get(messageID)?.()
    const message = this.#messages.get(sessionID)
    if (message?.id === messageID && message.sequence === Infinity) message.sequence = sequence
  }

  // Whether a message was made since the last stop: whatever was stopped is over.
  goesOn(sessionID) {
    return this.#stops.has(sessionID) && Boolean(this.#messages.get(sessionID)?.made)
  }

  // What Python had not heard of when it decided on a call, the last event that it knew being `after`: "stop",
  // "message", or nothing.
  unheard(sessionID, after) {
    if (typeof after !== "number") return null
    const message = this.#messages.get(sessionID)
    if (after < (this.#stops.get(sessionID) ?? 0)) return "stop"
    if (!message || after >= message.sequence) return null
    if (message.sequence === Infinity && performance.now() - message.cameAt > TIMES.unseen) return null // it was not made
    return message.afterStop ? "stop" : "message"
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

  // Resolves when the messages that waited are made, so that the run which is about to ask its model answers them too.
  async letThrough(sessionID) {
    const held = this.#held.get(sessionID)
    if (!held) return
    await Promise.race([held.all, new Promise((resolve) => later(TIMES.letThrough, resolve))])
    if (this.#held.get(sessionID) === held) this.#held.delete(sessionID)
  }

  async #nothingUnderWay(sessionID) {
    const limit = new Promise((resolve) => later(TIMES.crossing, () => resolve("late")))
    while (this.#calls.has(sessionID)) {
      if ((await Promise.race([Promise.all(this.#calls.get(sessionID)), limit])) === "late") return
      await new Promise((resolve) => later(TIMES.nextCall, resolve)) // another one may follow at once
    }
  }
}

function put(map, sessionID, value) {
  map.delete(sessionID)
  map.set(sessionID, value)
  if (map.size > LIMITS.sessions) map.delete(map.keys().next().value)
}
