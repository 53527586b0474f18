// An answer that is being handed on, until it ends or breaks off.

import { FAILED } from "./failures.js"
import { errorBody, StreamEvents } from "./streams.js"

// The same response, and what breaks it off as a failure. `sees` and `ends` say what an event holds; `isFinal` is asked
// once, whether an answer that broke off is to be shown as a failure that is not tried again; `over` is called at the end.
export function flowOf(response, { sees, ends, isFinal, over }) {
  const reader = response.body.getReader()
  const events = new StreamEvents()
  let [whole, asked, closed, breakOff] = [false, false, false, null]

  const close = () => {
    closed = true
    over()
  }

  // What an answer fails of with this piece; null as long as it goes on, or once it has said that it is whole.
  const failureOf = ({ done, value, error }) => {
    if (value) for (const event of events.completedBy(value)) {
      if (!whole && sees(event) === "error") return { ending: "broken", body: errorBody(event) }
      whole ||= ends(event)
    }
    if (whole) return null
    if (error) return { ending: "broken", message: String(error.message ?? error) }
    return done ? { ending: "broken" } : null
  }

  const body = new ReadableStream({
    start: (controller) => {
      breakOff = () => {
        close()
        controller.error(new Error(FAILED))
        reader.cancel().catch(() => {})
      }
    },
    pull: async (controller) => {
      const piece = await reader.read().catch((error) => ({ done: true, error: error ?? new Error("no reason given") }))
      const failure = closed || asked ? null : failureOf(piece)
      if (failure) {
        asked = true
        if ((await isFinal(failure)) && !closed) return breakOff()
      }
      if (closed) return
      if (!piece.done) return controller.enqueue(piece.value)
      close()
      if (piece.error && !whole) controller.error(piece.error)
      else controller.close()
    },
    cancel: (reason) => {
      close()
      return reader.cancel(reason)
    },
  })
  return { response: new Response(body, { status: response.status, headers: response.headers }), breakOff: () => breakOff() }
}
