// The providers of the host, with the keys to ask them; these stay here.

import { PROTOCOLS } from "./protocols.js"

export const keyOf = (provider) => provider.options?.apiKey ?? provider.key
export const addressOf = (provider, protocol) => (provider.options?.baseURL ?? protocol.base)?.replace(/\/+$/, "")

export class Providers {
  #client
  #known = null // id -> provider, once the host has told
  #logins = new Set() // those that offer a login
  #reading = null

  constructor(client) {
    this.#client = client
  }

  get(id) {
    return this.#known?.get(id)
  }

  // The models that a request could be sent to as it is, by provider.
  async reachable({ npm, model }) {
    if (!this.#known) await this.read()
    // A provider with a login may sign its requests in a `fetch` of its own, so no other's go to it.
    const open = (provider) =>
      provider.id === model.providerID ||
      (keyOf(provider) && addressOf(provider, PROTOCOLS[npm]) && !this.#logins.has(provider.id))
    const names = ({ models }) =>
      Object.entries(models ?? {})
        .filter(([, each]) => each.api?.npm === npm)
        .map(([name]) => name)
    const found = [...this.#known.values()].filter(open).map((provider) => [provider.id, names(provider)])
    return Object.fromEntries(found.filter(([, models]) => models.length > 0))
  }

  // Ask the host, unless it is being asked already.
  read() {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  // What is known is kept: a request may be on its way to a provider that is no longer listed.
  async #read() {
    const asked = [async () => this.#client.config.providers(), async () => this.#client.provider.auth()]
    const [providers, logins] = await Promise.all(asked.map((ask) => ask()))
    const listed = (providers.data?.providers ?? []).map((provider) => [provider.id, provider])
    this.#known = new Map([...(this.#known ?? []), ...listed])
    const hasLogin = ([, methods]) => methods?.some(({ type }) => type === "oauth")
    for (const [id] of Object.entries(logins.data ?? {}).filter(hasLogin)) this.#logins.add(id)
  }
}
