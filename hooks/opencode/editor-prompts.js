// In `opencode acp` an editor's prompt is a request of this process to its own server, and OpenCode ends it with
// the session's first idle. A turn that failed is sent again after that, so its prompt is held until then.

import { CALLS } from "./calls.js"
import { EDITOR_WATCHERS } from "./fetch.js"
import { watchEventStreams } from "./idle-notices.js"
import { parsed } from "./json.js"
import { later, TIMES } from "./times.js"

const CHUNKS = ["agent_message_chunk", "agent_thought_chunk"]
const ABORTED = { name: "MessageAbortedError", data: { message: "Aborted" } }
const MAY_NOT_BE_SENT = { status: 409, data: { message: "the editor has stopped this turn" } }
const NO_PROMPTS = new Set()

export class EditorPrompts {
  #client
  #ask
  #tellStopped
  #sessions = new Map() // session -> its prompts: those under way, and those of which Python still sends something

  // `ask` asks Python; `tellStopped` tells it of a stop that OpenCode does not report.
  constructor(client, ask, tellStopped) {
    this.#client = client
    this.#ask = ask
    this.#tellStopped = tellStopped
    EDITOR_WATCHERS.add(this)
    watchOutput()
    watchEventStreams()
  }

  dispose() {
    EDITOR_WATCHERS.delete(this)
  }

  #of(sessionID) {
    return this.#sessions.get(sessionID) ?? NO_PROMPTS
  }

  #add(sessionID, { waits }) {
    const fresh = { messageID: null, answers: new Set(), ours: false, waits, asks: false, stopped: false, published: 0, shown: 0 }
    fresh.stop = new Promise((resolve) => {
      fresh.onStop = resolve
    })
    if (!this.#sessions.has(sessionID)) this.#sessions.set(sessionID, new Set())
    this.#of(sessionID).add(fresh)
    return fresh
  }

  #forget(sessionID, prompt) {
    if (prompt.waits || prompt.asks) return
    const prompts = this.#of(sessionID)
    prompts.delete(prompt)
    if (prompts.size === 0) this.#sessions.delete(sessionID)
  }

  // A prompt is sent. Call what is returned with OpenCode's response, for the one that the editor is given, or with
  // nothing if there is none.
  began(sessionID) {
    const held = this.#add(sessionID, { waits: true })
    return async (response) => {
      try {
        return response && held.ours ? await this.#answer(sessionID, held, response) : response
      } catch {
        return response
      } finally {
        held.waits = false
        this.#forget(sessionID, held)
      }
    }
  }

  // The prompts that wait are of a session of this instance. A message that is about to be made is that of the one which
  // has none yet, unless it is sent again.
  saw(sessionID, messageID) {
    const prompts = [...this.#of(sessionID)]
    for (const prompt of prompts) prompt.ours = true
    if (!messageID || prompts.some((prompt) => prompt.messageID === messageID)) return
    const first = prompts.find((prompt) => prompt.waits && prompt.messageID === null)
    if (first) first.messageID = messageID
  }

  // A message is shown; that of a model belongs to the prompt it answers.
  shown({ sessionID, id, parentID }) {
    for (const prompt of this.#of(sessionID)) if (parentID && prompt.messageID === parentID) prompt.answers.add(id)
  }

  // The editor stops a session, or it is deleted.
  stopped(sessionID) {
    const prompts = [...this.#of(sessionID)].filter((prompt) => !prompt.stopped)
    for (const prompt of prompts) {
      prompt.stopped = true
      prompt.onStop()
    }
    if (prompts.some((prompt) => prompt.asks)) this.#tellStopped(sessionID, ABORTED)
  }

  // A run that no editor waits for is over: what it left unanswered is sent again as well.
  idle(sessionID) {
    if ([...this.#of(sessionID)].some((prompt) => prompt.ours || prompt.asks)) return
    this.#settle(sessionID, this.#add(sessionID, { waits: false })).catch(() => {})
  }

  // OpenCode has published a piece of text.
  published({ sessionID, field, delta }) {
    if (field === "text") for (const prompt of this.#of(sessionID)) prompt.published += delta?.length ?? 0
  }

  // A line was written to the editor.
  wrote({ sessionId: sessionID, update }) {
    if (!CHUNKS.includes(update?.sessionUpdate)) return
    for (const prompt of this.#of(sessionID)) {
      prompt.shown += update.content?.text?.length ?? 0
      if (prompt.shown >= prompt.published) prompt.onShown?.()
    }
  }

  // Why a call of Python is not carried out; null if it may be.
  objection(call, { sessionID, body, messageID }) {
    const resends = call === "session.prompt"
    if (!resends && call !== "session.deleteMessage") return null
    const asking = [...this.#of(sessionID)].filter((prompt) => prompt.asks)
    const known = asking.find((prompt) => (resends ? prompt.messageID === body?.messageID : prompt.answers.has(messageID)))
    // Of a turn that no prompt of an editor's began, the message is known once it is sent again.
    const meant = known ?? asking.find((prompt) => prompt.messageID === null)
    if (meant?.stopped) return MAY_NOT_BE_SENT
    if (meant && resends) meant.messageID = body?.messageID
    return null
  }

  // Resolves when a request may be made. OpenCode forgets a stop that comes before its run begins.
  async nextRequest({ sessionID, message }) {
    const prompts = [...this.#of(sessionID)]
    const of = prompts.find((prompt) => prompt.messageID === message?.id) ?? prompts.find((prompt) => prompt.messageID === null)
    if (of?.stopped) await CALLS["session.abort"](this.#client, { sessionID })
  }

  async #answer(sessionID, held, response) {
    // OpenCode does not if its run was over by then. Of a later prompt's turn nothing was stopped.
    if (held.stopped && [...this.#of(sessionID)].at(-1) === held) this.#tellStopped(sessionID, ABORTED)
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
  #settle(sessionID, prompt) {
    prompt.asks = true
    const asked = this.#ask("run.ending", () => ({ sessionID }), TIMES.settling).finally(() => {
      prompt.asks = false
      this.#forget(sessionID, prompt)
    })
    return Promise.race([asked, prompt.stop])
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
