// What Python may ask of the host. Anything else is refused.

import { OURS } from "./stops.js"

export const CALLS = {
  "session.get": (client, { sessionID }) => client.session.get({ path: { id: sessionID } }),
  "session.messages": (client, { sessionID }) => client.session.messages({ path: { id: sessionID } }),
  "session.abort": (client, { sessionID }) => client.session.abort({ path: { id: sessionID }, ...OURS }),
  "session.promptAsync": (client, { sessionID, body }) => client.session.promptAsync({ path: { id: sessionID }, body }),
  // Waits for the answer; only where a run has ended and nobody else does.
  "session.prompt": (client, { sessionID, body }) => client.session.prompt({ path: { id: sessionID }, body, ...OURS }),
  "session.revert": (client, { sessionID, body }) => client.session.revert({ path: { id: sessionID }, body }),
  "session.unrevert": (client, { sessionID }) => client.session.unrevert({ path: { id: sessionID } }),
  // The host's v1 client has no method for this one.
  "session.deleteMessage": ({ _client }, { sessionID, messageID }) =>
    _client.delete({ url: "/session/{id}/message/{messageID}", path: { id: sessionID, messageID } }),
  // Nor for this one. The client sends no body as JSON by itself.
  "permission.reply": ({ _client }, { requestID, body }) =>
    _client.post({
      url: "/permission/{requestID}/reply",
      path: { requestID },
      body,
      headers: { "content-type": "application/json" },
    }),
  "config.providers": async (client) => factsOnly(await client.config.providers()),
}

// The host's list of models holds the providers' keys; of these nothing may leave it, and little else is needed.
function factsOnly({ data, ...answer }) {
  const providers = data?.providers?.map(({ id, models }) => ({ id, models: mapValues(models, facts) }))
  return { ...answer, data: providers && { providers } }
}

function facts({ limit, capabilities, cost }) {
  const { context, input, output } = limit ?? {}
  return {
    limit: { context, input, output },
    capabilities: { toolcall: capabilities?.toolcall, input: { image: capabilities?.input?.image } },
    cost: { input: cost?.input, output: cost?.output },
  }
}

const mapValues = (table, change) =>
  Object.fromEntries(Object.entries(table ?? {}).map(([key, value]) => [key, change(value)]))
