// Toasts that wait until somebody can see them.

import { HOST_KIND } from "./command-line.js"
import { printNote } from "./run.js"
import { later, TIMES } from "./times.js"

export class Toasts {
  #waiting = []
  #client
  #seen = false

  constructor(client) {
    this.#client = client
  }

  // Somebody is looking: a session lives.
  audience() {
    if (this.#seen) return
    this.#seen = true
    for (const body of this.#waiting.splice(0)) this.show(body)
  }

  // The host shows it on the thread that is to begin the turn it is about, which goes first. Unless `isTrue` by then, it
  // is not shown: the user has stopped that turn.
  showSoon(body, isTrue) {
    if (HOST_KIND === "run") return this.show(body)
    later(TIMES.toast, () => isTrue() && this.show(body))
  }

  async show(body) {
    if (HOST_KIND === "run") return printNote(body.title, body.message) // it has no screen
    if (!this.#seen) {
      this.#waiting.push(body)
      return
    }
    try {
      await this.#client.tui.showToast({ body })
    } catch {
      // nobody to show it to
    }
  }

  say(message, variant = "warning") {
    this.show({ title: "Fallback plugin", message, variant, duration: 8000 })
  }
}
