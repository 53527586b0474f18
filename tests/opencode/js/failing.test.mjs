// What the host sees when Python is late, dead, missing or of another version: nothing, and one toast.

import assert from "node:assert/strict"
import test from "node:test"

import { emptyPath, prompt, start } from "./bridge-under-test.mjs"

const QUICK = { firstRestart: 1, longestRestart: 1 }
const any = () => true

async function timed(action) {
  const began = performance.now()
  await action()
  return performance.now() - began
}

test("a question without an answer is dropped at its deadline", async (t) => {
  const { hooks, got } = await start({ questions: ["chat.message"], answers: { "hook/chat.message": "silence" } })
  t.after(hooks.dispose)
  await got("host")
  const [input, output] = prompt()
  const waited = await timed(() => hooks["chat.message"](input, output))
  assert.ok(waited >= 240 && waited < 1500, `waited ${waited} ms`)
  assert.deepEqual(output.message.model, { providerID: "p", modelID: "primary" })
})

test("the first question of a cold process waits for the child and is asked", async (t) => {
  const model = { providerID: "q", modelID: "other" }
  const { hooks, got } = await start(
    { questions: ["chat.message"], answers: { "hook/chat.message": { model } }, readyOn: "config" },
    { numbers: { coldStart: 60_000 } },
  )
  t.after(hooks.dispose)
  const [input, output] = prompt()
  const asked = hooks["chat.message"](input, output)
  await got("initialize")
  hooks.config({ agent: { a: { fallback_models: [] } } })
  await asked
  assert.deepEqual(output.message.model, model)
})

test("a child that is never ready costs its cold start once and nothing after it", async (t) => {
  const { hooks } = await start({ readyOn: "never", questions: ["chat.message"] }, { numbers: { coldStart: 100 } })
  t.after(hooks.dispose)
  await hooks["chat.message"](...prompt())
  assert.ok((await timed(() => hooks["chat.message"](...prompt()))) < 50)
})

test("a child that is never ready is replaced", async (t) => {
  const { hooks, received } = await start({ readyOn: "never" }, { numbers: { ...QUICK, start: 1_000 } })
  t.after(hooks.dispose)
  let greetings = 0
  await received.until((line) => line.method === "initialize" && (greetings += 1) === 2)
})

test("an open question is answered at once when the child dies", async (t) => {
  const { hooks, event, got } = await start(
    { questions: ["chat.message"], events: ["*"], dieOn: "hook/chat.message" },
    { numbers: { question: 60_000, firstRestart: 60_000, longestRestart: 60_000 } },
  )
  t.after(hooks.dispose)
  await got("host")
  event("session.created")
  await hooks["chat.message"](...prompt())
  assert.ok((await timed(() => hooks["chat.message"](...prompt()))) < 50, "a dead child is not waited for")
})

test("a dead child is restarted, said once, told the chains again and given what happened meanwhile", async (t) => {
  const { hooks, event, got, received, toasts } = await start(
    { events: ["a", "die"], dieOn: "die" },
    { numbers: { firstRestart: 300 } },
  )
  t.after(hooks.dispose)
  hooks.config({ agent: { build: { fallback_models: ["p/b"] } } })
  event("session.created")
  await got("host")
  event("die")
  const toast = await toasts.until(any)
  event("a", { meanwhile: true })
  await received.until((line) => line.params?.event?.properties?.meanwhile)
  assert.match(toast.message, /stopped and is being restarted/)
  assert.equal(toasts.entries.length, 1)
  assert.equal(received.entries.filter((line) => line.method === "config").length, 2)
})

test("after five deaths in a row it gives up with a second toast that has the child's last words", async (t) => {
  const { hooks, event, toasts } = await start({ diesAtOnce: true }, { numbers: QUICK })
  t.after(hooks.dispose)
  event("session.created")
  const last = await toasts.until((toast) => toast.variant === "error")
  assert.equal(toasts.entries.length, 2)
  assert.match(last.message, /stopped 5 times in a row \(no such module\)/)
})

test("with neither interpreter nor command there is one toast, and hooks answer at once", async (t) => {
  emptyPath(t)
  const { hooks, event, toasts } = await start({}, { interpreter: "/nowhere/python" })
  t.after(hooks.dispose)
  await hooks["chat.message"](...prompt())
  const toast = await toasts.until(any)
  event("session.created")
  await hooks["chat.message"](...prompt())
  assert.match(toast.message, /fallback-plugin install opencode/)
  assert.equal(toasts.entries.length, 1)
})

test("another protocol version ends the child and says what to do", async (t) => {
  const { hooks, event, received, toasts } = await start({ protocol: 99 })
  t.after(hooks.dispose)
  event("session.created")
  const toast = await toasts.until(any)
  await hooks["chat.message"](...prompt())
  assert.match(toast.message, /protocol 99.*fallback-plugin install opencode/)
  assert.equal(toasts.entries.length, 1)
  assert.equal(received.entries.filter((line) => line.method === "event").length, 0)
})

test("a handshake that Python refuses is shown in Python's words", async (t) => {
  const { hooks, event, toasts } = await start({ refusesWith: "too old" })
  t.after(hooks.dispose)
  event("session.created")
  const toast = await toasts.until(any)
  assert.match(toast.message, /too old/)
})

test("complaint 49: an OpenCode of another major version is used, with one toast", async (t) => {
  const { hooks, event, gotEvent, toasts } = await start({ events: ["session.created"] }, { version: "2.0.0" })
  t.after(hooks.dispose)
  event("session.created")
  await gotEvent("session.created")
  const toast = await toasts.until(any)
  assert.match(toast.message, /2\.0\.0/)
})

test("text deltas are dropped while the pipe is congested, other events are not", async (t) => {
  const { hooks, event, got, gotEvent, received } = await start(
    { events: ["*"] },
    { numbers: { congestedBytes: 0 } },
  )
  t.after(hooks.dispose)
  await got("host")
  event("a")
  event("message.part.delta")
  event("b")
  await gotEvent("b")
  assert.deepEqual(
    received.entries.filter((line) => line.method === "event").map(({ params }) => params.event.type),
    ["a", "b"],
  )
})

test("a child that reads nothing counts as dead once too much is unsent", async (t) => {
  const { hooks, event, got, received } = await start(
    { events: ["a"], deafAfter: "host" },
    { numbers: { ...QUICK, unsentBytes: 1_000_000 } },
  )
  t.after(hooks.dispose)
  await got("host")
  for (let n = 0; n < 20; n++) event("a", { text: "x".repeat(100_000) })
  let greetings = 0
  await received.until((line) => line.method === "initialize" && (greetings += 1) === 2)
})

test("hooks never throw into the host, whatever it passes", async (t) => {
  const plan = { questions: ["chat.message"], answers: { "hook/chat.message": { each: [{ model: {} }] } } }
  const { hooks } = await start(plan, { numbers: { question: 20 } })
  t.after(hooks.dispose)
  await hooks.event({})
  await hooks.event(undefined)
  await hooks.config(Object.freeze({ agent: Object.freeze({ a: Object.freeze({ fallback_models: 1 }) }) }))
  await hooks["chat.message"]({}, Object.freeze({}))
  await hooks["chat.message"](undefined, undefined)
  await hooks["chat.message"](...prompt()) // as long as a question lasts: nothing of the ones before fails later
})

test("after dispose nothing is asked, sent or restarted", async (t) => {
  const { hooks, event, got, toasts } = await start({ events: ["*"], questions: ["chat.message"] })
  await got("host")
  event("session.created")
  await hooks.dispose()
  event("a")
  assert.ok((await timed(() => hooks["chat.message"](...prompt()))) < 50)
  assert.deepEqual(toasts.entries, [])
  t.after(hooks.dispose)
})
