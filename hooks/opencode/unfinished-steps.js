// A step that ended without a reason is followed by another one at once, of the same run and to the same model
// (OpenCode 1.18.33). That one is held back for a moment, since Python is about to stop the run.

import { later, TIMES } from "./times.js"

export class UnfinishedSteps {
  #unfinished = new Set() // sessions
  #stopping = new Map() // session -> the call that stops its run

  saw(part) {
    if (part?.type !== "step-finish") return
    if (part.reason === "unknown") this.#unfinished.add(part.sessionID)
    else this.forget(part.sessionID)
  }

  forget(sessionID) {
    this.#unfinished.delete(sessionID)
  }

  stopping(sessionID, call) {
    const over = () => this.#stopping.get(sessionID) === stopped && this.#stopping.delete(sessionID)
    const stopped = call.then(over, over)
    this.#stopping.set(sessionID, stopped)
  }

  // Resolves when the session's next step may begin. A stopped run has no use for that.
  async next(sessionID) {
    if (!this.#unfinished.delete(sessionID)) return
    await new Promise((resolve) => later(TIMES.unfinished, resolve))
    await this.#stopping.get(sessionID)
  }
}
