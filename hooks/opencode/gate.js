// What may go on in a session, and when: requests for models, messages of the user's, calls of Python.

import { isBackground } from "./agents.js"
import { Crossings } from "./crossings.js"
import { OurPrompts } from "./our-prompts.js"
import { OURS } from "./stops.js"

const HOLD_MESSAGES = ["session.abort", "session.promptAsync", "session.revert", "session.deleteMessage"]
// The statuses of calls that come too late: after a stop, after a message. OpenCode gives neither.
const STOPPED = 412
const OUTDATED = 417

export class Gate {
  #client
  #ask
  #prompts = new OurPrompts()
  #crossings

  constructor(client, ask) {
    this.#client = client
    this.#ask = ask
    this.#crossings = new Crossings((sessionID) => isSessionIdle(client, sessionID))
  }

  // The user's stop was told as the event of this sequence. A message that comes before its end, where that shows,
  // waits for that: the run which is being stopped would take it in and never answer it.
  stopped(sessionID, sequence, ended) {
    this.#crossings.stopped(sessionID, sequence)
    if (ended) this.#crossings.began(sessionID, ended)
  }

  lastStop(sessionID) {
    return this.#crossings.lastStop(sessionID)
  }

  idle(sessionID) {
    this.#prompts.idle(sessionID)
  }

  deleted(sessionID) {
    this.#prompts.deleted(sessionID)
    this.#crossings.forget(sessionID)
  }

  // A message was told as the event of this sequence.
  shown(sessionID, messageID, sequence) {
    this.#crossings.shown(sessionID, messageID, sequence)
    this.#prompts.shown(sessionID, messageID)
  }

  // Resolves when a message may be made, with whether it had to wait.
  async messageComes(message) {
    const { sessionID, messageID } = message
    if (!this.#prompts.isOurs(message)) return this.#crossings.comes(sessionID, messageID)
    this.#crossings.resumes(sessionID, messageID)
    return false
  }

  // Whether a request for a model may be made, once it may. If it is of a turn that is not wanted any more, its run is
  // stopped, with no model asked. `stopsAreKept`: whoever stopped the run has seen to that it ends.
  async mayBegin(request, { stopsAreKept }) {
    const { sessionID, agent, message } = request
    const background = isBackground(agent)
    const wasStopped = !stopsAreKept && !background && this.#crossings.wasStopped(sessionID, message?.id)
    const verdict = wasStopped ? "abort" : await this.#prompts.verdict(request, this.#ask, this.#crossings.wasJustStopped(sessionID))
    if (verdict === "abort" && !this.#crossings.goesOn(sessionID)) {
      const aborted = this.#client.session.abort({ path: { id: sessionID }, ...OURS }).catch(() => {})
      this.#crossings.began(sessionID, aborted)
      await aborted
    }
    if (background) return verdict === "begin"
    this.#prompts.begins(request)
    this.#crossings.asked(sessionID, message?.id)
    if (verdict === "begin") await this.#crossings.letThrough(sessionID)
    return verdict === "begin"
  }

  // The status of a call that is not carried out, since the user has gone on; null if it may be.
  objection(call, given) {
    if (call === "tui.showToast") return typeof given.after === "number" && given.after < this.lastStop(given.sessionID) ? STOPPED : null
    const unheard = this.#crossings.unheard(given.sessionID, given.after)
    if (unheard === "stop") return STOPPED
    return unheard === "message" && meantForLast(call, given) ? OUTDATED : null
  }

  // A call is about to be carried out.
  calls(call, { sessionID, body }) {
    if (call === "session.prompt") this.#prompts.sent(sessionID, body, { toConfirm: false })
    if (call === "session.promptAsync") this.#crossings.began(sessionID, this.#prompts.sent(sessionID, body, { toConfirm: true }))
  }

  // It is being carried out, until `answer` is there.
  isCarriedOut(call, { sessionID }, answer) {
    if (HOLD_MESSAGES.includes(call)) this.#crossings.began(sessionID, answer)
  }

  notAccepted(call, { sessionID }) {
    if (call === "session.promptAsync") this.#prompts.rejected(sessionID)
  }
}

// Whether the host has nothing to do in a session, as far as it says.
export async function isSessionIdle(client, sessionID) {
  try {
    const { data } = await client.session.status()
    return (data?.[sessionID]?.type ?? "idle") === "idle"
  } catch {
    return true
  }
}

// Whether a call is only right as long as no message of the user's has come: a run that is over needs no abort, and a
// turn that is run again in place is taken for newer than all others.
function meantForLast(call, { runIsOver, body }) {
  return call === "session.abort" ? runIsOver : call === "session.promptAsync" && Boolean(body?.messageID)
}
