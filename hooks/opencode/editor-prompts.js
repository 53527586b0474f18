// In `opencode acp` an editor's prompt is a request of this process to its own server, and OpenCode ends it with
// the session's first idle. A turn that failed is sent again after that, so its prompt is held until then.

import { CALLS } from "./calls.js"
import { EDITOR_WATCHERS } from "./fetch.js"
import { parsed } from "./json.js"
import { later, TIMES } from "./times.js"

const CHUNKS = ["agent_message_chunk", "agent_thought_chunk"]
const ABORTED = { name: "MessageAbortedError", data: { message: "Aborted" } }
const MAY_NOT_BE_SENT = { status: 409, data: { message: "the editor has stopped this turn" } }

export class EditorPrompts {
  #client
  #ask
  #tellStopped
  #held = new Map() // session -> its prompt that waits
  #settling = new Map() // session -> what Python sends again in it

  // `ask` asks Python; `tellStopped` tells it of a stop that OpenCode does not report.
  constructor(client, ask, tellStopped) {
    this.#client = client
    this.#ask = ask
    this.#tellStopped = tellStopped
    EDITOR_WATCHERS.add(this)
    watchOutput()
  }

  dispose() {
    EDITOR_WATCHERS.delete(this)
  }

  // A prompt is sent. Call what is returned with OpenCode's response, for the one that the editor is given.
  began(sessionID) {
    const held = { ours: false, stopped: false, published: 0, shown: 0 }
    held.stop = new Promise((resolve) => {
      held.onStop = resolve
    })
    this.#held.set(sessionID, held)
    return async (response) => {
      try {
        return held.ours ? await this.#answer(sessionID, held, response) : response
      } catch {
        return response
      } finally {
        if (this.#held.get(sessionID) === held) this.#held.delete(sessionID)
      }
    }
  }

  // A prompt that waits is of a session of this instance.
  saw(sessionID) {
    const held = this.#held.get(sessionID)
    if (held) held.ours = true
  }

  // The editor stops a session.
  stopped(sessionID) {
    for (const held of [this.#held.get(sessionID), this.#settling.get(sessionID)]) {
      if (!held) continue
      held.stopped = true
      held.onStop()
    }
    if (this.#settling.has(sessionID)) this.#tellStopped(sessionID, ABORTED)
  }

  // A run that no editor waits for is over: what it left unanswered is sent again as well.
  idle(sessionID) {
    if (this.#held.get(sessionID)?.ours || this.#settling.has(sessionID)) return
    this.#settle(sessionID, { stopped: false, onStop: () => {} }).catch(() => {})
  }

  // OpenCode has published a piece of text.
  published({ sessionID, field, delta }) {
    const held = field === "text" && this.#held.get(sessionID)
    if (held) held.published += delta?.length ?? 0
  }

  // A line was written to the editor.
  wrote({ sessionId: sessionID, update }) {
    const held = CHUNKS.includes(update?.sessionUpdate) && this.#held.get(sessionID)
    if (!held) return
    held.shown += update.content?.text?.length ?? 0
    if (held.shown >= held.published) held.onShown?.()
  }

  // Why a call of Python is not carried out; null if it may be.
  objection(call, { sessionID, body }) {
    if (call !== "session.prompt" && call !== "session.deleteMessage") return null
    const held = this.#settling.get(sessionID)
    if (!held) return null
    if (held.stopped) return MAY_NOT_BE_SENT
    if (call === "session.prompt") held.messageID = body?.messageID
    return null
  }

  // Resolves when a request may be made. OpenCode forgets a stop that comes before its run begins.
  async nextRequest({ sessionID, message }) {
    const resent = this.#settling.get(sessionID)
    const unwanted = this.#held.get(sessionID)?.stopped || (resent?.stopped && resent.messageID === message?.id)
    if (unwanted) await CALLS["session.abort"](this.#client, { sessionID })
  }

  async #answer(sessionID, held, response) {
    if (held.stopped) this.#tellStopped(sessionID, ABORTED) // OpenCode does not if its run was over by then
    const words = held.stopped ? undefined : await this.#settle(sessionID, held)
    if (held.stopped) return await this.#asStopped(sessionID, response)
    if (!words) return response
    const messages = await this.#client.session.messages({ path: { id: sessionID } })
    const last = messages.data?.filter(({ info }) => info.role === "assistant").at(-1)
    if (!last) return response
    if (words.trouble) last.info.error = { name: "UnknownError", data: { message: words.trouble } }
    await this.#allShown(held)
    return asJson(last)
  }

  // A stop ends the wait; what Python still sends is refused until it has taken that in.
  #settle(sessionID, held) {
    this.#settling.set(sessionID, held)
    const asked = this.#ask("run.ending", () => ({ sessionID }), TIMES.settling).finally(() => {
      if (this.#settling.get(sessionID) === held) this.#settling.delete(sessionID)
    })
    return Promise.race([asked, held.stop ?? asked])
  }

  async #asStopped(sessionID, response) {
    const message = parsed(await response.clone().text())
    return message?.info ? asJson({ ...message, info: { ...message.info, error: ABORTED } }) : response
  }

  // The end of a prompt is not to overtake its text on the way to the editor.
  #allShown(held) {
    if (held.shown >= held.published) return undefined
    return new Promise((resolve) => {
      held.onShown = resolve
      later(TIMES.shown, resolve)
    })
  }
}

const asJson = (body) => new Response(JSON.stringify(body), { status: 200, headers: { "content-type": "application/json" } })

// What is written to the editor goes through here, one message a line.
function watchOutput() {
  const { stdout } = process
  if (stdout[WATCHED]) return
  const write = stdout.write
  stdout.write = function (chunk, ...more) {
    try {
      for (const line of Buffer.from(chunk).toString().split("\n")) {
        const message = line.includes('"session/update"') ? parsed(line) : null
        if (message?.params) for (const watcher of EDITOR_WATCHERS) watcher.wrote(message.params)
      }
    } catch {
      // what it is, is the editor's to read
    }
    return write.call(this, chunk, ...more)
  }
  stdout[WATCHED] = true
}

const WATCHED = Symbol.for("fallback-plugin.output")
