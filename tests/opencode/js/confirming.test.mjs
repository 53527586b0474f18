// The first request of a prompt that Python handed in: it waits for Python's word, since the user may have
// stopped the turn while the prompt was on its way.

import assert from "node:assert/strict"
import { test } from "node:test"

import { prompt, start } from "./bridge-under-test.mjs"

// A bridge whose child has handed in a prompt for ses_1 and answers `answer` when that is about to begin.
async function handedIn(t, answer, { questions = ["chat.message", "prompt.begins"], numbers = {}, isMade = true } = {}) {
  const aborted = []
  const body = { messageID: "msg_1", model: { providerID: "p", modelID: "spare" } }
  const calls = [{ call: "session.promptAsync", arguments: { sessionID: "ses_1", body } }]
  const session = {
    promptAsync: async () => ({ data: null, response: { status: 204 } }),
    abort: async ({ path }) => (aborted.push(path.id), { data: true }),
  }
  const bridge = await start({ questions, calls, answers: { "hook/chat.message": null, "hook/prompt.begins": answer } }, { client: { session }, numbers })
  t.after(bridge.hooks.dispose)
  await bridge.hooks["chat.message"](...prompt())
  await bridge.received.until((line) => line.id === "call-1" || (line.result && line.result.status === 204))
  const make = () => {
    const [input, output] = prompt("spare")
    return bridge.hooks["chat.message"]({ ...input, messageID: "msg_1" }, output)
  }
  if (isMade) await make()
  const begin = (sessionID, agent = "build", model = "spare") =>
    bridge.hooks["chat.headers"]({ sessionID, agent, model: { providerID: "p", id: model }, message: { id: "msg_1" } }, { headers: {} })
  const asked = () => bridge.received.entries.filter(({ method }) => method === "hook/prompt.begins").map(({ params }) => params)
  return { ...bridge, begin, make, asked, aborted }
}

test("Python is asked once, before the first request of the session's turn", async (t) => {
  const { begin, asked, aborted } = await handedIn(t, { stop: false })
  await begin("ses_2")
  await begin("ses_1")
  await begin("ses_1")
  await begin("ses_1", "title")
  assert.deepEqual(asked().map(({ sessionID, messageID }) => [sessionID, messageID]), [["ses_1", "msg_1"]])
  assert.deepEqual(aborted, [])
})

test("a request that the failed run has still on its way is no such one", async (t) => {
  const { begin, make, asked, aborted } = await handedIn(t, { stop: true }, { isMade: false })
  await begin("ses_1", "build", "primary")
  await make()
  await begin("ses_1", "build", "primary")
  assert.deepEqual(asked(), [])
  await assert.rejects(begin("ses_1"), /stopped/)
  assert.deepEqual(aborted, ["ses_1"])
})

test("one that shortens the history first is, once the prompt's message is stored", async (t) => {
  const { hooks, event, asked, aborted } = await handedIn(t, { stop: true })
  const shorten = () =>
    hooks["chat.headers"]({ sessionID: "ses_1", agent: "compaction", model: { providerID: "p", id: "small" }, message: { id: "msg_9" } }, { headers: {} })
  await shorten()
  assert.deepEqual(asked(), [])
  event("message.updated", { sessionID: "ses_1", info: { id: "msg_1", role: "user" } })
  await assert.rejects(shorten(), /stopped/)
  assert.deepEqual(aborted, ["ses_1"])
})

test("a turn that was stopped is aborted, and its request never made", async (t) => {
  const { begin, aborted } = await handedIn(t, { stop: true })
  await assert.rejects(begin("ses_1"), /stopped/)
  assert.deepEqual(aborted, ["ses_1"])
  await begin("ses_1") // the user's next prompt
})

test("nor is a title made up beside it, while the turn itself waits for its own word", async (t) => {
  const { begin, asked, aborted } = await handedIn(t, { stop: true })
  await assert.rejects(begin("ses_1", "title"), /stopped/)
  assert.deepEqual(aborted, [])
  await assert.rejects(begin("ses_1"), /stopped/)
  assert.deepEqual(aborted, ["ses_1"])
  assert.equal(asked().length, 2)
})

test("after a stop of the user no answer is one", async (t) => {
  const { begin, aborted } = await handedIn(t, undefined, { numbers: { afterStop: 20, nextModel: 20 } })
  new Request("http://host/session/ses_1/abort", { method: "POST" })
  await assert.rejects(begin("ses_1"), /stopped/)
  assert.deepEqual(aborted, ["ses_1"])
})

test("without one no answer is none", async (t) => {
  const { begin, aborted } = await handedIn(t, undefined, { numbers: { afterStop: 20, nextModel: 20 } })
  new Request("http://host/session/ses_2/abort", { method: "POST" })
  await begin("ses_1")
  assert.deepEqual(aborted, [])
})

test("what is left of a deleted session's run asks nobody", async (t) => {
  const { begin, event, aborted, asked } = await handedIn(t, { stop: false })
  await begin("ses_1")
  event("session.deleted", { sessionID: "ses_1" })
  event("session.deleted", { sessionID: "ses_2" }) // the host's own run, which it lets go on
  await assert.rejects(begin("ses_1"), /stopped/)
  await begin("ses_2")
  assert.deepEqual(aborted, ["ses_1"])
  assert.equal(asked().length, 1)
})

test("without a plugin that has something to say about it nothing is asked", async (t) => {
  const { begin, asked } = await handedIn(t, { stop: true }, { questions: ["chat.message"] })
  await begin("ses_1")
  assert.deepEqual(asked(), [])
})

test("a child that is gone stops nothing", async (t) => {
  const { begin, hooks } = await handedIn(t, { stop: true })
  await hooks.dispose()
  await begin("ses_1")
})
