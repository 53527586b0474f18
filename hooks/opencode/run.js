// `opencode run` is over at its first idle. What it still owes its person then is printed here as it would have
// been; only a whole answer makes it a success.

import { AUTO_APPROVES, PRINTS_JSON } from "./command-line.js"
import { TIMES } from "./times.js"

const JSON_TYPES = { text: "text", tool: "tool_use", "step-start": "step_start", "step-finish": "step_finish" }

export class Run {
  sessionID = null // the one that was asked for
  settling = false
  #client

  constructor(client) {
    this.#client = client
  }

  // `ask` asks Python: the question, a function that makes its parameters, and a deadline.
  async settle(ask) {
    const { sessionID } = this
    if (!sessionID) return
    this.settling = true
    const words = await ask("run.ending", () => ({ sessionID }), TIMES.settling)
    if (!words) return
    for (const part of words.parts ?? []) printPart(sessionID, part)
    if (words.trouble) printTrouble(sessionID, words.trouble)
    process.exitCode = words.trouble ? 1 : 0
  }

  // As `run` itself answers while it lasts.
  answerPermission({ id, permission, patterns }) {
    const reply = AUTO_APPROVES ? "once" : "reject"
    if (!AUTO_APPROVES) process.stderr.write(`! permission requested: ${permission} (${patterns?.join(", ")}); auto-rejecting\n`)
    const call = { url: "/permission/{requestID}/reply", path: { requestID: id }, body: { reply } }
    this.#client._client.post({ ...call, headers: { "content-type": "application/json" } }).catch(() => {})
  }
}

// Say something on one line beside the run's own output, whatever its format; what stood on lines of its own
// becomes sentences.
export function printNote(title, message) {
  const sentences = message.trim().split(/\s*\n\s*/).map((line, at, all) => (at < all.length - 1 && !/[.!?…:;,]$/.test(line) ? `${line}.` : line))
  process.stderr.write(`${title}: ${sentences.join(" ")}\n`)
}

// Print a part the way `opencode run` does when its output is no terminal.
function printPart(sessionID, part) {
  const type = JSON_TYPES[part.type]
  if (PRINTS_JSON && type) printJson(type, sessionID, { part })
  else if (part.type === "text" && part.text?.trim()) process.stdout.write(`${part.text.trim()}\n`)
}

function printTrouble(sessionID, trouble) {
  if (PRINTS_JSON) printJson("error", sessionID, { error: { name: "FallbackError", data: { message: trouble } } })
  else process.stderr.write(`Error: ${trouble}\n`)
}

function printJson(type, sessionID, more) {
  process.stdout.write(`${JSON.stringify({ type, timestamp: Date.now(), sessionID, ...more })}\n`)
}
