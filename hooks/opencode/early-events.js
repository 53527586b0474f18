// Events of before Python is ready, the newest of them.

import { LIMITS } from "./limits.js"

export class EarlyEvents {
  #waiting = []
  #bytes = 0

  keep(type, line) {
    this.#waiting.push({ type, line })
    this.#bytes += line.length
    while (this.#bytes > LIMITS.waitingBytes) this.#bytes -= this.#waiting.shift().line.length
  }

  // All of them, in order; none is left.
  take() {
    this.#bytes = 0
    return this.#waiting.splice(0)
  }
}
