// One model request of a session: it may be answered by another model than the one the host asked.

import { FAILED, refusal, refused } from "./failures.js"
import { flowOf } from "./flow.js"
import { parsed } from "./json.js"
import { PROTOCOLS } from "./protocols.js"
import { addressOf, keyOf } from "./providers.js"
import { peek } from "./streams.js"

const HEADERS_OF_A_PROVIDER = ["authorization", "x-api-key", "x-goog-api-key", "api-key"]

export class Watch {
  #about
  #protocol
  #givenUp = null // ends the attempt under way, as long as nothing of it was handed on
  #asked = null // who answers
  #failed = false // nobody does
  #flow = null // breaks off an answer that is being handed on

  constructor(requests, about, tag) {
    this.requests = requests
    this.agent = about.agent
    this.tag = tag
    this.#about = about
    this.#protocol = PROTOCOLS[about.npm]
  }

  answers(headers) {
    return this.requests.answersFor(this.agent, headers)
  }

  // Leave a model that says nothing. False if it has spoken, or is not being asked.
  giveUp(flowing) {
    if (this.#givenUp) this.#givenUp.abort()
    else if (flowing && this.#flow) this.#flow()
    else return false
    return true
  }

  fetch(straight, url, init) {
    const { sessionID } = this.#about
    const done = this.requests.began(sessionID, this)
    return this.#answer(straight, url, init).then(
      (response) => this.#followed(response, done, init.signal),
      (error) => {
        done()
        throw error
      },
    )
  }

  async #answer(straight, url, init) {
    const thoughts = this.#hasThoughts(init.body)
    const tried = []
    let target = thoughts ? null : (this.requests.standIn(this.#about) ?? (await this.requests.instead(this.#about)))
    for (;;) {
      if (this.requests.isForgone(this.#about)) throw new DOMException("The user stopped this turn.", "AbortError")
      const asked = (this.#asked = target ?? this.#about.model)
      const attempt = await this.#attempt(straight, ...(target ? this.#sentTo(target, url, init) : [url, init]))
      this.#failed = Boolean(attempt.failure)
      if (!attempt.failure || init.signal?.aborted) return attempt.answer()
      tried.push(asked)
      const next = await this.requests.nextModel(this.#about, tried, attempt.failure, thoughts)
      if (init.signal?.aborted) return attempt.answer() // the user's stop is final
      if (next?.final) return refusal()
      if (!next?.model) {
        this.requests.handsOn(this)
        return attempt.answer()
      }
      target = next.model
    }
  }

  // A body of another shape than expected is nobody else's to answer.
  #hasThoughts(body) {
    try {
      return Boolean(this.#protocol.hasThoughts(parsed(body)))
    } catch {
      return true
    }
  }

  #sees(event) {
    try {
      return this.#protocol.sees(event)
    } catch {
      return "content" // of whatever shape: it is handed on
    }
  }

  #ends(event) {
    try {
      return Boolean(this.#protocol.ends(event))
    } catch {
      return false
    }
  }

  // The same response, which can be broken off as long as it flows.
  #followed(response, done, signal) {
    if (!response.body || this.#failed) {
      done()
      return response
    }
    const over = () => {
      this.#flow = null
      done()
    }
    const isFinal = async (failure) => {
      if (signal?.aborted) return false // the user's stop
      const next = await this.requests.nextModel(this.#about, [this.#asked], failure, true)
      return next?.final === true
    }
    const flow = flowOf(response, { sees: (event) => this.#sees(event), ends: (event) => this.#ends(event), isFinal, over })
    this.#flow = () => {
      this.requests.brokenOff(this.#about, this.#asked)
      flow.breakOff()
    }
    return flow.response
  }

  async #attempt(straight, url, init) {
    const givenUp = (this.#givenUp = new AbortController())
    const signal = init.signal ? AbortSignal.any([init.signal, givenUp.signal]) : givenUp.signal
    try {
      const response = await straight(url, { ...init, signal })
      if (!response.ok) return await refused(response)
      const streams = response.body && response.headers.get("content-type")?.includes("text/event-stream")
      return streams ? await peek(response, (event) => this.#sees(event), (event) => this.#ends(event)) : { answer: () => response }
    } catch (error) {
      if (!givenUp.signal.aborted || init.signal?.aborted)
        return { failure: { ending: "refused", message: String(error?.message ?? error) }, answer: () => Promise.reject(error) }
      const silence = "the model gave no sign of life before it timed out"
      return { failure: { ending: "silent", message: silence }, answer: () => Promise.reject(new Error(silence)) }
    } finally {
      this.#givenUp = null
    }
  }

  #sentTo({ providerID, modelID }, url, init) {
    const protocol = this.#protocol
    const provider = this.requests.provider(providerID)
    const wireName = provider?.models?.[modelID]?.api?.id ?? modelID
    const body = JSON.parse(init.body)
    if (!protocol.modelInPath) body.model = wireName
    // On a connection of its own: Bun 1.3 takes one that the failed request has left for closing.
    const request = { ...init, body: JSON.stringify(body), keepalive: false }
    if (providerID === this.#about.model.providerID)
      return [protocol.modelInPath ? url.replace(/\/models\/[^/:?]+:/, `/models/${wireName}:`) : url, request]
    const headers = new Headers(init.headers)
    for (const name of HEADERS_OF_A_PROVIDER) headers.delete(name)
    const own = { ...protocol.key(keyOf(provider)), ...provider.options?.headers }
    for (const [name, value] of Object.entries(own)) headers.set(name, value)
    return [addressOf(provider, protocol) + protocol.path(wireName), { ...request, headers }]
  }
}
