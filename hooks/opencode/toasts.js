// Toasts that wait until somebody can see them.

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

  // True if the toast is kept for later.
  keep(body) {
    if (!this.#seen) this.#waiting.push(body)
    return !this.#seen
  }

  async show(body) {
    if (this.keep(body)) return
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
