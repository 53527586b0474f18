// What an answer says that comes as a stream.

import { parsed } from "./json.js"
import { LIMITS } from "./limits.js"

// The events of a stream, out of pieces that end anywhere.
export class StreamEvents {
  #decoder = new TextDecoder()
  #rest = ""

  // Those that a piece completes.
  completedBy(piece) {
    const lines = this.#decoder.decode(piece, { stream: true }).split("\n")
    lines[0] = this.#rest + lines[0]
    this.#rest = lines.pop()
    if (this.#rest.length > LIMITS.event) this.#rest = "" // what is left of it is no event
    return lines.filter((line) => line.startsWith("data:")).map((line) => parsed(line.slice(5))).filter(Boolean)
  }
}

// Read a stream until it says something, and return it whole.
export async function peek(response, sees, ends) {
  const reader = response.body.getReader()
  const events = new StreamEvents()
  const chunks = []
  let [size, ended, finished] = [0, false, false]
  const answer = () => new Response(resumed(chunks, ended, reader), { status: response.status, headers: response.headers })
  while (!ended && size < LIMITS.unsaid) {
    const { done, value } = await reader.read()
    ended = done
    if (!value) continue
    chunks.push(value)
    size += value.byteLength
    for (const event of events.completedBy(value)) {
      const seen = sees(event)
      if (seen === "content") return { answer }
      if (seen === "error") {
        reader.cancel().catch(() => {})
        ended = true
        return { answer, failure: { ending: "refused", body: errorBody(event) } }
      }
      finished ||= ends(event)
    }
  }
  return ended ? { answer, failure: { ending: finished ? "empty" : "cut" } } : { answer }
}

export function errorBody(event) {
  return JSON.stringify(event).slice(0, LIMITS.errorBody)
}

function resumed(chunks, ended, reader) {
  return new ReadableStream({
    async pull(controller) {
      if (chunks.length > 0) return controller.enqueue(chunks.shift())
      if (ended) return controller.close()
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: (reason) => reader.cancel(reason),
  })
}
