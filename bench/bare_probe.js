// The least a plugin can do about a failed model: at the first sign stop the run, then send the same message
// again with another model. No guards, no settings, no toasts. The benchmark measures ours against it.

const NEXT = { providerID: "fakeb", modelID: "fallback-a" }

export const BareProbe = async ({ client }) => {
  const messages = new Map()
  const acted = new Set()

  const replay = async (sessionID) => {
    const messageID = messages.get(sessionID)
    if (acted.has(messageID)) return
    acted.add(messageID)
    await client.session.abort({ path: { id: sessionID } })
    await client.session.promptAsync({ path: { id: sessionID }, body: { messageID, parts: [], model: NEXT } })
  }

  return {
    event: async ({ event: { type, properties } }) => {
      if (type === "message.updated" && properties.info.role === "user") {
        messages.set(properties.info.sessionID, properties.info.id)
      } else if (type === "session.error" || (type === "session.status" && properties.status.type === "retry")) {
        await replay(properties.sessionID)
      }
    },
  }
}
