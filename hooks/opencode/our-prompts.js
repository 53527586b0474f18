// The prompts that Python hands in: which messages are theirs, and whether one may still begin when its model is about
// to be asked. The user may have stopped its turn while it was on its way, which the host forgets when it comes before
// a run begins.

import { agentName, COMPACTION, isBackground } from "./agents.js"
import { LIMITS } from "./limits.js"
import { TIMES } from "./times.js"

export class OurPrompts {
  #prompts = new Map() // session -> the last prompt of ours
  #gone = new Set() // sessions with one that were deleted

  // Returns what resolves when the prompt's model is about to be asked, or never will be. With `toConfirm` Python is
  // asked then whether it still may be.
  sent(sessionID, body, { toConfirm }) {
    this.over(sessionID)
    const prompt = { body, toConfirm, messageID: null, isShown: false, isOver: false }
    const over = new Promise((resolve) => (prompt.resolve = resolve))
    this.#prompts.delete(sessionID)
    this.#prompts.set(sessionID, prompt)
    bound(this.#prompts)
    return over
  }

  over(sessionID) {
    const prompt = this.#prompts.get(sessionID)
    if (!prompt) return
    prompt.isOver = true
    prompt.resolve()
  }

  // A message is stored.
  shown(sessionID, messageID) {
    const prompt = this.#prompts.get(sessionID)
    if (prompt?.messageID === messageID) prompt.isShown = true
  }

  // A run has ended; that of a prompt whose message has yet to be stored was another one.
  idle(sessionID) {
    if (this.#prompts.get(sessionID)?.isShown) this.over(sessionID)
  }

  rejected(sessionID) {
    this.over(sessionID)
    this.#prompts.delete(sessionID)
  }

  // Whether a message that is about to be made is that of a prompt of ours.
  isOurs({ sessionID, messageID, model }) {
    const prompt = this.#prompts.get(sessionID)
    if (!prompt || prompt.messageID || prompt.isOver) return false
    const { messageID: inPlace, model: wanted } = prompt.body
    const isOurs = inPlace ? inPlace === messageID : model?.providerID === wanted?.providerID && model?.modelID === wanted?.modelID
    if (isOurs) prompt.messageID = messageID
    return isOurs
  }

  // Take in a request of a turn. Only that of our prompt's own run shows that this has begun: the run which failed may
  // still have one on its way.
  begins(request) {
    if (isOf(this.#prompts.get(request.sessionID), request)) this.over(request.sessionID)
  }

  // The host lets the run of a deleted session go on.
  deleted(sessionID) {
    this.over(sessionID)
    if (!this.#prompts.delete(sessionID)) return
    this.#gone.add(sessionID)
    bound(this.#gone)
  }

  // What to do with a request for a model: "begin", "refuse" it, or "abort" its run. `ask` asks Python, and gives
  // undefined if there was no answer: that counts as a stop if the user has just stopped the session.
  async verdict(request, ask, wasJustStopped) {
    const { sessionID, agent, message } = request
    if (this.#gone.has(sessionID)) return "abort"
    const prompt = this.#prompts.get(sessionID)
    // A title is made up beside the turn, and is not the turn's first request.
    const background = isBackground(agent)
    if (!prompt?.toConfirm || !(background || isOf(prompt, request))) return "begin"
    if (!background) prompt.toConfirm = false
    const question = () => ({ sessionID, messageID: message?.id })
    const answer = await ask("prompt.begins", question, wasJustStopped ? TIMES.afterStop : TIMES.nextModel)
    if (!(answer === undefined ? wasJustStopped : answer?.stop)) return "begin"
    return background ? "refuse" : "abort"
  }
}

// Whether a request is of the run of a prompt. The history may be shortened first, by another model for a message that
// the host makes up.
function isOf(prompt, { agent, model, message }) {
  if (agentName(agent) === COMPACTION) return Boolean(prompt?.isShown)
  if (!prompt?.messageID || message?.id !== prompt.messageID) return false
  const wanted = prompt.body.model
  return !wanted || (model?.providerID === wanted.providerID && model?.id === wanted.modelID)
}

function bound(collection) {
  if (collection.size > LIMITS.sessions) collection.delete(collection.keys().next().value)
}
