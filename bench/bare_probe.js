// The least a plugin can do about a failed model: at the first sign stop the run, then send the same message
// again with another model. No guards, no settings, no toasts. The benchmark measures ours against it.

const next = (failed) => {
  if (failed === "fails-as-well") return "fallback-b"
  return failed.startsWith("429-twice") ? "fails-as-well" : "fallback-a"
}

export const BareProbe = async ({ client }) => {
  const turns = new Map()
  const acted = new Set()

  const replay = async (sessionID) => {
    const { messageID, model } = turns.get(sessionID)
    if (acted.has(messageID + model)) return
    acted.add(messageID + model)
    await client.session.abort({ path: { id: sessionID } })
    await client.session.promptAsync({
      path: { id: sessionID },
      body: { messageID, parts: [], model: { providerID: "fakeb", modelID: next(model) } },
    })
  }

  return {
    event: async ({ event: { type, properties } }) => {
      if (type === "message.updated" && properties.info.role === "user") {
        const { sessionID, id, model } = properties.info
        turns.set(sessionID, { messageID: id, model: model.modelID })
      } else if (type === "session.error" || (type === "session.status" && properties.status.type === "retry")) {
        await replay(properties.sessionID)
      }
    },
  }
}
