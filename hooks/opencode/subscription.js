// What Python wants to hear of, and which questions of the host it answers.

import { isObject } from "./json.js"

export class Subscription {
  switching // which requests to models Python answers for
  #events
  #questions
  #sampled // type -> one in so many milliseconds will do
  #passed = new Map() // type and session -> when the last one was sent

  constructor(params) {
    this.switching = params?.switching ?? "auto"
    this.#events = new Set(Array.isArray(params?.events) ? params.events : [])
    this.#questions = new Set(Array.isArray(params?.questions) ? params.questions : [])
    const sampled = isObject(params?.sampled) ? Object.entries(params.sampled) : []
    this.#sampled = new Map(sampled.map(([type, seconds]) => [type, seconds * 1000]))
  }

  answers(question) {
    return this.#questions.has(question)
  }

  wants(type) {
    return this.#events.has(type) || this.#events.has("*")
  }

  // Whether one of a sampled type is wanted again of this session.
  isDue(type, sessionID) {
    const interval = this.#sampled.get(type)
    if (interval === undefined) return false
    const key = `${type} ${sessionID}`
    const now = performance.now()
    if (now - (this.#passed.get(key) ?? -Infinity) < interval) return false
    this.#passed.set(key, now)
    return true
  }

  forget(sessionID) {
    for (const type of this.#sampled.keys()) this.#passed.delete(`${type} ${sessionID}`)
  }
}
