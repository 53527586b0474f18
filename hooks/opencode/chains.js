// Take the chains out of the merged configuration: what stays there is sent to the provider.

import { isObject } from "./json.js"

export function takeChains(config) {
  const agents = {}
  for (const table of [config?.agent, config?.agents]) {
    if (!isObject(table)) continue
    for (const [name, agent] of Object.entries(table)) {
      if (!isObject(agent)) continue
      const options = isObject(agent.options) ? agent.options : {}
      const chain = agent.fallback_models ?? options.fallback_models
      delete agent.fallback_models
      delete options.fallback_models
      if (chain == null) continue
      agents[name] = { fallback_models: chain }
      if (typeof agent.model === "string") agents[name].model = agent.model
    }
  }
  return agents
}
