// The step after one that ended without a reason: held back until Python has had its say.

import assert from "node:assert/strict"
import { test } from "node:test"

import { prompt, start } from "./bridge-under-test.mjs"

const NEVER = { unfinished: 3_600_000 }
const MOMENT = { unfinished: 30 }

// A bridge that is ready, whose child has the run of ses_1 stopped at once if `stops`.
async function carrying(t, numbers, { stops = null, questions = ["chat.message", "model.request"] } = {}) {
  const calls = stops ? [{ call: "session.abort", arguments: { sessionID: "ses_1" } }] : []
  const client = { session: { abort: async () => ({ data: await stops }) } }
  const bridge = await start({ questions, calls, answers: { "hook/chat.message": null } }, { numbers, client })
  t.after(bridge.hooks.dispose)
  await bridge.hooks["chat.message"](...prompt())
  const ended = (sessionID, reason) => bridge.event("message.part.updated", { sessionID, part: { type: "step-finish", sessionID, reason } })
  const next = (sessionID) => bridge.hooks["chat.headers"]({ sessionID, model: {} }, { headers: {} })
  return { ...bridge, ended, next }
}

test("a step that ended properly holds nothing back", async (t) => {
  const { ended, next } = await carrying(t, NEVER)
  await ended("ses_1", "unknown")
  await ended("ses_1", "tool-calls")
  await next("ses_1")
})

test("what another session's step ended with does not matter", async (t) => {
  const { ended, next } = await carrying(t, NEVER)
  await ended("ses_2", "unknown")
  await next("ses_1")
})

test("the next step is held back once, for a moment", async (t) => {
  const { ended, next } = await carrying(t, MOMENT)
  await ended("ses_1", "unknown")
  const order = []
  await Promise.all([next("ses_1").then(() => order.push("held")), next("ses_1").then(() => order.push("not"))])
  assert.deepEqual(order, ["not", "held"])
})

test("it is held back as long as the run is being stopped", async (t) => {
  let stopped
  const { ended, next } = await carrying(t, MOMENT, { stops: new Promise((resolve) => (stopped = resolve)) })
  await ended("ses_1", "unknown")
  await ended("ses_2", "unknown")
  const order = []
  const held = next("ses_1").then(() => order.push("held"))
  await next("ses_2") // its moment is over then, and so is the other's
  order.push("moment over")
  stopped(true)
  await held
  assert.deepEqual(order, ["moment over", "held"])
})

test("a run that has ended holds nothing back", async (t) => {
  const { ended, next, event } = await carrying(t, NEVER)
  await ended("ses_1", "unknown")
  await event("session.idle", { sessionID: "ses_1" })
  await next("ses_1")
})

test("without a plugin that answers for requests nothing is held back", async (t) => {
  const { ended, next } = await carrying(t, NEVER, { questions: ["chat.message"] })
  await ended("ses_1", "unknown")
  await next("ses_1")
})
