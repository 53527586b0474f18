// What an answer says that comes as a stream, and where it ends.

import { parsed } from "./json.js"
import { LIMITS } from "./limits.js"

// Read a stream until it says something, and return it whole.
export async function peek(response, sees) {
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  const chunks = []
  let [rest, size, ended, finished] = ["", 0, false, false]
  const answer = () => new Response(resumed(chunks, ended, reader), { status: response.status, headers: response.headers })
  while (!ended && size < LIMITS.unsaid) {
    const { done, value } = await reader.read()
    ended = done
    if (value) {
      chunks.push(value)
      size += value.byteLength
      rest += decoder.decode(value, { stream: true })
    }
    const lines = rest.split("\n")
    rest = lines.pop()
    for (const line of lines) {
      const event = line.startsWith("data:") ? parsed(line.slice(5)) : null
      const seen = event && sees(event)
      if (seen === "content") return { answer }
      if (seen === "error") {
        reader.cancel().catch(() => {})
        ended = true
        return { answer, failure: { ending: "refused", body: JSON.stringify(event).slice(0, LIMITS.errorBody) } }
      }
      finished ||= seen === "end"
    }
  }
  return ended ? { answer, failure: { ending: finished ? "empty" : "cut" } } : { answer }
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

export function lastBytes(before, chunk) {
  if (chunk.byteLength >= LIMITS.endOfStream) return chunk.slice(-LIMITS.endOfStream)
  const both = new Uint8Array(before.byteLength + chunk.byteLength)
  both.set(before)
  both.set(chunk, before.byteLength)
  return both.slice(-LIMITS.endOfStream)
}
