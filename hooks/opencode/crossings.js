// Calls of ours and the user's doings that cross. A call that Python decided on before it heard of the user's stop, or
// of a message, may be meant for a run that is over, and would hit the next one. And a message that comes while a call
// of ours is carried out waits for its end: it would be stopped with the run before it, or never be answered.

import { LIMITS } from "./limits.js"
import { later, TIMES } from "./times.js"

export class Crossings {
  #sessions = new Map()
  #isIdle

  // `isIdle` asks the host whether nothing runs in a session.
  constructor(isIdle) {
    this.#isIdle = isIdle
  }

  // What is known of a session: the sequence and the time of the user's last stop, the messages that were stopped, the
  // last message since, what of ours is being carried out, and the messages of the user's for which no model was asked.
  #of(sessionID) {
    const fresh = { stop: 0, stoppedAt: -Infinity, stopped: new Set(), message: null, calls: new Set(), coming: new Map() }
    const known = this.#sessions.get(sessionID) ?? fresh
    this.#sessions.delete(sessionID)
    this.#sessions.set(sessionID, known)
    if (this.#sessions.size > LIMITS.sessions) this.#sessions.delete(this.#sessions.keys().next().value)
    return known
  }

  // The host may have nothing to stop yet: a message that was stopped before its run began is refused when it begins.
  stopped(sessionID, sequence) {
    const known = this.#of(sessionID)
    Object.assign(known, { stop: sequence, stoppedAt: performance.now(), message: null })
    for (const message of known.coming.values()) {
      message.stoppedAt = performance.now()
      known.stopped.add(message.id)
    }
    while (known.stopped.size > LIMITS.messages) known.stopped.delete(known.stopped.keys().next().value)
  }

  lastStop(sessionID) {
    return this.#sessions.get(sessionID)?.stop ?? 0
  }

  wasJustStopped(sessionID) {
    return performance.now() - (this.#sessions.get(sessionID)?.stoppedAt ?? -Infinity) < TIMES.freshStop
  }

  // Whether a message was stopped, be it before its run had begun.
  wasStopped(sessionID, messageID) {
    return this.#sessions.get(sessionID)?.stopped.has(messageID) ?? false
  }

  // Take in that a message is sent again.
  resumes(sessionID, messageID) {
    const { stopped, coming } = this.#sessions.get(sessionID) ?? {}
    if (stopped?.delete(messageID) && coming.has(messageID)) coming.get(messageID).stoppedAt = null
  }

  forget(sessionID) {
    this.#sessions.delete(sessionID)
  }

  // A message of the user's is about to be made; nobody can have heard of it. Resolves when it may be, with whether it
  // had to wait: for what of ours is under way, until those before it are stored, and for the end of those of them that
  // were stopped, whose run would take it in and never answer it.
  async comes(sessionID, messageID) {
    const known = this.#of(sessionID)
    const isUnseen = known.message?.sequence === Infinity
    const followsStop = known.stop > 0 && (known.message === null || (isUnseen && known.message.followsStop))
    const before = [...known.coming.values()].filter((each) => each.stoppedAt !== null || (each.waits && !each.isShown))
    const message = new Coming(messageID, followsStop)
    known.message = message
    known.coming.delete(messageID)
    known.coming.set(messageID, message)
    if (known.coming.size > LIMITS.messages) known.coming.delete(known.coming.keys().next().value)
    this.resumes(sessionID, messageID)
    message.waits = known.calls.size > 0 || before.length > 0
    for (const each of before) await each.letsNextCome(() => this.#isIdle(sessionID))
    if (message.waits) await nothingUnderWay(known.calls)
    message.isNowMade()
    return message.waits
  }

  shown(sessionID, messageID, sequence) {
    const { coming, message } = this.#sessions.get(sessionID) ?? {}
    coming?.get(messageID)?.isNowShown()
    if (message?.id === messageID && message.sequence === Infinity) message.sequence = sequence
  }

  // A model is asked for a message, or was refused to it.
  asked(sessionID, messageID) {
    const { coming } = this.#sessions.get(sessionID) ?? {}
    if (!coming?.has(messageID)) return
    for (const message of coming.values()) {
      message.isNowOver() // those before it are answered with it
      coming.delete(message.id)
      if (message.id === messageID) return
    }
  }

  // Whether a message was made since the last stop: whatever was stopped is over.
  goesOn(sessionID) {
    const { stop, message } = this.#sessions.get(sessionID) ?? {}
    return stop > 0 && Boolean(message?.madeAt)
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
    const coming = [...(this.#sessions.get(sessionID)?.coming.values() ?? [])].filter(({ waits, isShown }) => waits && !isShown)
    if (coming.length === 0) return
    const shown = Promise.all(coming.map((each) => each.shown))
    await Promise.race([shown, passed(TIMES.letThrough)])
    for (const each of coming) each.waits = false
  }
}

// A message of the user's, from when it is about to be made until a model is asked for it.
class Coming {
  sequence = Infinity // of the event that showed it
  cameAt = performance.now()
  waits = false
  madeAt = null
  isShown = false
  stoppedAt = null

  constructor(id, followsStop) {
    this.id = id
    this.followsStop = followsStop
    this.made = new Promise((resolve) => (this.onMade = resolve))
    this.shown = new Promise((resolve) => (this.onShown = resolve))
    this.over = new Promise((resolve) => (this.onOver = resolve))
  }

  isNowMade() {
    this.madeAt = performance.now()
    this.onMade()
  }

  isNowShown() {
    this.isShown = true
    this.onShown()
  }

  isNowOver() {
    this.isNowShown()
    this.onOver()
  }

  // Resolves when the next message may be made. The run of one that was stopped may have ended without asking.
  async letsNextCome(isIdle) {
    await this.made
    if (this.stoppedAt === null) return Promise.race([this.shown, passed(TIMES.crossing)])
    const limit = Math.max(this.madeAt, this.stoppedAt) + TIMES.crossing
    while (performance.now() < limit) {
      const isOver = await Promise.race([this.over.then(() => true), passed(TIMES.runLook)])
      if (isOver || (await isIdle())) return
    }
  }
}

const passed = (milliseconds) => new Promise((resolve) => later(milliseconds, resolve))

async function nothingUnderWay(calls) {
  const limit = passed(TIMES.crossing).then(() => "late")
  while (calls.size > 0) {
    if ((await Promise.race([Promise.all(calls), limit])) === "late") return
    await passed(TIMES.nextCall) // another one may follow at once
  }
}
