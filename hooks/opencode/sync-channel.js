// A second way to Python, for a question whose answer is waited for on the spot. The host's own thread is at
// work for tens of milliseconds at the beginning of a turn, and what comes over the first pipe waits for its end.

import { closeSync, constants, openSync, readSync, rmdirSync, unlinkSync, writeSync } from "node:fs"

import { LIMITS } from "./limits.js"
import { Lines } from "./lines.js"
import { later, TIMES } from "./times.js"

export class SyncChannel {
  #questions // file descriptors of two named pipes, null once closed
  #answers
  #lines = new Lines()
  #chunk = Buffer.alloc(LIMITS.syncBytes)
  #alarm = new Int32Array(new SharedArrayBuffer(4)) // nobody sets it off: to wait for it is to sleep

  // Nobody else needs the folder once its two pipes are open.
  constructor(folder) {
    const [questions, answers] = [`${folder}/questions`, `${folder}/answers`]
    this.#questions = openSync(questions, constants.O_WRONLY | constants.O_NONBLOCK)
    this.#answers = openSync(answers, constants.O_RDONLY | constants.O_NONBLOCK)
    for (const pipe of [questions, answers]) unlinkSync(pipe)
    rmdirSync(folder)
  }

  // False if Python cannot take all of it at once. Half of it may have gone, so it was the last.
  send(line) {
    const bytes = Buffer.from(line)
    if (this.#questions === null || bytes.length > LIMITS.syncBytes) return false
    try {
      if (writeSync(this.#questions, bytes) === bytes.length) return true
    } catch {
      // it is full, or nobody reads it
    }
    this.#stopAsking()
    return false
  }

  // Hand on each line that comes until `isOver`: for a moment on the spot, then between the host's other work.
  receive(onLine, isOver) {
    const look = () => {
      for (const line of this.#read()) onLine(line)
      return isOver()
    }
    const end = performance.now() + TIMES.onTheSpot
    for (;;) {
      const last = performance.now() > end // a look may take long, and the answer have come meanwhile
      if (look()) return
      if (last) return this.#receiveLater(look)
      Atomics.wait(this.#alarm, 0, 0, TIMES.glance)
    }
  }

  close() {
    this.#stopAsking()
    if (this.#answers !== null) closeSync(this.#answers)
    this.#answers = null
  }

  #stopAsking() {
    if (this.#questions !== null) closeSync(this.#questions)
    this.#questions = null
  }

  #receiveLater(look) {
    later(TIMES.look, () => look() || this.#receiveLater(look))
  }

  #read() {
    try {
      const length = readSync(this.#answers, this.#chunk, 0, this.#chunk.length, null)
      return this.#lines.feed(Buffer.from(this.#chunk.subarray(0, length)))
    } catch {
      return [] // nothing yet, or no more
    }
  }
}
