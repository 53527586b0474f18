// Cut a byte stream into lines; a line beyond the limit is skipped whole.

import { LIMITS } from "./limits.js"

export class Lines {
  #chunks = []
  #length = 0

  feed(chunk) {
    const lines = []
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#keep(chunk.subarray(start, end))
      if (this.#length <= LIMITS.lineBytes) lines.push(Buffer.concat(this.#chunks).toString())
      this.#chunks = []
      this.#length = 0
      start = end + 1
    }
    this.#keep(chunk.subarray(start))
    return lines
  }

  #keep(piece) {
    this.#length += piece.length
    if (this.#length <= LIMITS.lineBytes) this.#chunks.push(piece)
    else this.#chunks = []
  }
}
