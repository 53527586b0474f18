// That a model is about to be asked, which no event of the host shows.

import assert from "node:assert/strict"
import { test } from "node:test"

import { prompt, start } from "./bridge-under-test.mjs"

const ASKED = "model.requested"

async function listening(t, plan = {}) {
  const bridge = await start({ events: [ASKED, "session.idle"], ...plan })
  t.after(bridge.hooks.dispose)
  await bridge.got("initialize")
  await bridge.event("session.idle", { sessionID: "ses_0" })
  await bridge.gotEvent("session.idle")
  const ask = (agent) =>
    bridge.hooks["chat.headers"]({ sessionID: "ses_1", agent, model: {}, message: { id: "msg_1" } }, { headers: {} })
  const told = async () => {
    await bridge.event("session.idle", { sessionID: "ses_end" })
    await bridge.received.until(({ params }) => params?.event?.properties?.sessionID === "ses_end")
    return bridge.received.entries.flatMap(({ params }) => (params?.event?.type === ASKED ? [params.event.properties] : []))
  }
  return { ...bridge, ask, told }
}

test("each request of a turn is told, with the user's message", async (t) => {
  const { ask, told } = await listening(t)
  await ask("build")
  await ask({ name: "compaction" })
  assert.deepEqual(await told(), Array(2).fill({ sessionID: "ses_1", messageID: "msg_1" }))
})

test("that of a title or a summary is not", async (t) => {
  const { ask, told } = await listening(t)
  await ask("title")
  await ask({ name: "summary" })
  assert.deepEqual(await told(), [])
})

test("nor is one that is not made, since the user has stopped its prompt", async (t) => {
  const calls = [{ call: "session.promptAsync", arguments: { sessionID: "ses_1", body: { messageID: "msg_1" } } }]
  const answers = { "hook/chat.message": null, "hook/prompt.begins": { stop: true } }
  const session = { promptAsync: async () => ({ data: null, response: { status: 204 } }), abort: async () => ({ data: true }) }
  const bridge = await start({ events: [ASKED], questions: ["chat.message", "prompt.begins"], calls, answers }, { client: { session } })
  t.after(bridge.hooks.dispose)
  await bridge.received.until((line) => line.result?.status === 204)
  await bridge.hooks["chat.message"](...prompt())
  const request = { sessionID: "ses_1", agent: "build", model: {}, message: { id: "msg_1" } }
  await assert.rejects(bridge.hooks["chat.headers"](request, { headers: {} }), /stopped/)
  await bridge.hooks["chat.headers"](request, { headers: {} }) // the user's next one
  await bridge.gotEvent(ASKED)
  assert.equal(bridge.received.entries.filter(({ params }) => params?.event?.type === ASKED).length, 1)
})
