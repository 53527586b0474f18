// What crosses the bridge while all is well.

import assert from "node:assert/strict"
import test from "node:test"

import { prompt, start } from "./bridge-under-test.mjs"

test("the module exports nothing but the plugin, or OpenCode refuses the file", async (t) => {
  const { module, hooks } = await start()
  t.after(hooks.dispose)
  assert.deepEqual(Object.keys(module), ["default"])
  assert.deepEqual(Object.keys(module.default), ["id", "server"])
})

test("the first line is the handshake, spelled as Python's quick answer expects it", async (t) => {
  const { hooks, got, received } = await start()
  t.after(hooks.dispose)
  const { params } = await got("initialize")
  assert.equal(received.entries[0].method, "initialize")
  assert.deepEqual(params.host, { name: "opencode", version: null, kind: "serve" })
  assert.equal(params.directory, "/project")
  assert.match(
    JSON.stringify(received.entries[0]),
    /^\{"jsonrpc":"2.0","id":1,"method":"initialize","params":\{"protocolVersion":1,/,
  )
})

test("events of before ready arrive in order once subscribed, with the numbers the host gave them", async (t) => {
  const { hooks, event, gotEvent, received } = await start({ events: ["a", "b"], readyOn: "config" })
  t.after(hooks.dispose)
  event("a", { n: 1 })
  event("unwanted")
  event("message.part.delta")
  event("b", { n: 2 })
  hooks.config({ agent: { build: { fallback_models: ["p/m"] } } })
  await gotEvent("b")
  const lines = received.entries.filter((line) => line.method === "event")
  assert.deepEqual(
    lines.map(({ params }) => [params.sequence, params.event.type]),
    [
      [1, "a"],
      [4, "b"],
    ],
  )
})

test("types nobody subscribed to send nothing, and are counted all the same", async (t) => {
  const { hooks, event, got, gotEvent, received } = await start({ events: ["wanted"] })
  t.after(hooks.dispose)
  await got("host")
  event("other")
  event("message.part.delta")
  event("wanted")
  const { params } = await gotEvent("wanted")
  assert.equal(params.sequence, 3)
  assert.equal(received.entries.filter((line) => line.method === "event").length, 1)
})

test("a star subscribes to every type, text deltas included", async (t) => {
  const { hooks, event, got, gotEvent } = await start({ events: ["*"] })
  t.after(hooks.dispose)
  await got("host")
  event("message.part.delta")
  await gotEvent("message.part.delta")
})

test("of a sampled type one in a while is sent, session by session, the first at once", async (t) => {
  const { hooks, event, got, gotEvent, received } = await start({ events: ["end"], sampled: { "message.part.delta": 60 } })
  t.after(hooks.dispose)
  await got("host")
  const delta = (sessionID, delta) => event("message.part.delta", { sessionID, delta })
  delta("ses_1", "first")
  delta("ses_1", "second")
  delta("ses_2", "other")
  event("session.idle", { sessionID: "ses_1" })
  delta("ses_1", "after the idle")
  delta("ses_2", "other again")
  event("end")
  await gotEvent("end")
  assert.deepEqual(deltas(received), ["first", "other", "after the idle"])
})

test("of a sampled type the next is sent when its time has come", async (t) => {
  const { hooks, event, got, gotEvent, received } = await start({ events: ["end"], sampled: { "message.part.delta": 0 } })
  t.after(hooks.dispose)
  await got("host")
  event("message.part.delta", { sessionID: "ses_1", delta: "first" })
  event("message.part.delta", { sessionID: "ses_1", delta: "second" })
  event("end")
  await gotEvent("end")
  assert.deepEqual(deltas(received), ["first", "second"])
})

test("a delta that is not sent is not even serialised", async (t) => {
  const { hooks, got } = await start({ sampled: { "message.part.delta": 60 } })
  t.after(hooks.dispose)
  await got("host")
  let serialised = 0
  const properties = { sessionID: "ses_1", toJSON: () => (serialised++, {}) }
  for (let n = 0; n < 2000; n++) hooks.event({ event: { type: "message.part.delta", properties } })
  assert.equal(serialised, 1)
})

test("an answer to chat.message moves the prompt to its model and variant", async (t) => {
  const model = { providerID: "q", modelID: "other" }
  const { hooks, got } = await start({
    questions: ["chat.message"],
    answers: { "hook/chat.message": { model, variant: "high" } },
  })
  t.after(hooks.dispose)
  const [input, output] = prompt()
  await hooks["chat.message"](input, output)
  assert.deepEqual(output.message.model, { ...model, variant: "high" })
  const asked = await got("hook/chat.message")
  assert.deepEqual(asked.params, { sessionID: "ses_1", messageID: "msg_1", agent: "build", model: input.model, resolved: input.model })
})

test("an empty answer leaves the prompt alone", async (t) => {
  const { hooks } = await start({ questions: ["chat.message"], answers: { "hook/chat.message": null } })
  t.after(hooks.dispose)
  const [input, output] = prompt()
  await hooks["chat.message"](input, output)
  assert.deepEqual(output.message.model, { providerID: "p", modelID: "primary" })
})

test("the other questions put their answers where the host looks", async (t) => {
  const { hooks } = await start({
    questions: [
      "experimental.chat.messages.transform",
      "tool.execute.before",
      "tool.execute.after",
    ],
    answers: {
      "hook/experimental.chat.messages.transform": { messages: [{ info: { id: "kept" }, parts: [] }] },
      "hook/tool.execute.before": { args: { path: "b" } },
      "hook/tool.execute.after": { title: "T", output: "O", metadata: { m: 1 } },
    },
  })
  t.after(hooks.dispose)
  const call = { tool: "read", sessionID: "ses_1", callID: "c" }
  const history = [{ info: { id: "one" } }, { info: { id: "two" } }]
  const args = { path: "a", gone: true }
  const before = { args }
  const after = { title: "t", output: "o", metadata: {} }
  await hooks["experimental.chat.messages.transform"]({}, { messages: history })
  await hooks["tool.execute.before"](call, before)
  await hooks["tool.execute.after"](call, after)
  assert.equal(before.args, args) // what the host runs the tool with
  assert.deepEqual(
    [history, before, after],
    [
      [{ info: { id: "kept" }, parts: [] }],
      { args: { path: "b" } },
      { title: "T", output: "O", metadata: { m: 1 } },
    ],
  )
})

test("a question nobody subscribed to is never asked", async (t) => {
  const { hooks, received, got } = await start()
  t.after(hooks.dispose)
  await got("host")
  await hooks["chat.message"](...prompt())
  await hooks.event({ event: { type: "session.created" } })
  assert.equal(received.entries.some((line) => line.method?.startsWith("hook/")), false)
})

test("chains leave the host's configuration, wherever they stand, and reach the child", async (t) => {
  const { hooks, got } = await start()
  t.after(hooks.dispose)
  const config = {
    agent: {
      build: { model: "p/a", fallback_models: ["p/b"], temperature: 1 },
      plan: { options: { fallback_models: "p/c", other: true } },
      plain: { model: "p/d" },
      odd: null,
    },
    agents: { review: { fallback_models: [] } },
  }
  hooks.config(config)
  assert.deepEqual(config, {
    agent: {
      build: { model: "p/a", temperature: 1 },
      plan: { options: { other: true } },
      plain: { model: "p/d" },
      odd: null,
    },
    agents: { review: {} },
  })
  const { params } = await got("config")
  assert.deepEqual(params.agents, {
    build: { model: "p/a", fallback_models: ["p/b"] },
    plan: { fallback_models: "p/c" },
    review: { fallback_models: [] },
  })
})

test("a call is carried out and its answer placed among the events", async (t) => {
  const release = deferred()
  const calls = [{ call: "session.abort", arguments: { sessionID: "ses_1" } }]
  const called = deferred()
  const abort = async (given) => {
    called.resolve(given)
    await release.promise
    return { data: true, response: { status: 200 } }
  }
  const { hooks, event, got, received } = await start({ readyOn: "config", calls }, { client: { session: { abort } } })
  t.after(hooks.dispose)
  event("first")
  await got("initialize")
  hooks.config({ agent: { a: { fallback_models: [] } } })
  assert.deepEqual(await called.promise, { path: { id: "ses_1" }, headers: { "x-fallback-plugin": "ours" } })
  event("second")
  event("third")
  release.resolve()
  const { result } = await received.until((line) => line.id === "call-0")
  assert.deepEqual(result, { status: 200, data: true, sentAfter: 1, answeredAfter: 3 })
})

test("a refusal of the host is a result with its status; what the client throws is an error", async (t) => {
  const calls = [
    { call: "session.revert", arguments: { sessionID: "ses_1", body: { messageID: "m" } } },
    { call: "session.messages", arguments: { sessionID: "ses_1" } },
  ]
  const session = {
    revert: async () => ({ error: { message: "busy" }, response: { status: 409 } }),
    messages: async () => {
      throw new Error("socket closed")
    },
  }
  const { hooks, received } = await start({ calls }, { client: { session } })
  t.after(hooks.dispose)
  const refused = await received.until((line) => line.id === "call-0")
  const thrown = await received.until((line) => line.id === "call-1")
  assert.equal(refused.result.status, 409)
  assert.deepEqual(refused.result.data, { message: "busy" })
  assert.deepEqual(thrown.error, { code: -32000, message: "socket closed" })
})

test("a message is deleted over the client's own connection, which has no method for it", async (t) => {
  const calls = [{ call: "session.deleteMessage", arguments: { sessionID: "ses_1", messageID: "msg_1" } }]
  const asked = deferred()
  const raw = {
    delete: async (given) => {
      asked.resolve(given)
      return { error: { message: "busy" }, response: { status: 409 } }
    },
  }
  const { hooks, received } = await start({ calls }, { client: { raw } })
  t.after(hooks.dispose)
  assert.deepEqual(await asked.promise, {
    url: "/session/{id}/message/{messageID}",
    path: { id: "ses_1", messageID: "msg_1" },
  })
  const { result } = await received.until((line) => line.id === "call-0")
  assert.equal(result.status, 409)
})

test("a permission is replied to over the client's own connection, with its body as JSON", async (t) => {
  const body = { reply: "reject", message: "Not here." }
  const calls = [{ call: "permission.reply", arguments: { requestID: "per_1", body } }]
  const asked = deferred()
  const raw = {
    post: async (given) => {
      asked.resolve(given)
      return { error: { message: "not found" }, response: { status: 404 } }
    },
  }
  const { hooks, received } = await start({ calls }, { client: { raw } })
  t.after(hooks.dispose)
  assert.deepEqual(await asked.promise, {
    url: "/permission/{requestID}/reply",
    path: { requestID: "per_1" },
    body,
    headers: { "content-type": "application/json" },
  })
  const { result } = await received.until((line) => line.id === "call-0")
  assert.equal(result.status, 404)
})

test("of the host's models only the facts cross, and no key", async (t) => {
  const facts = {
    limit: { context: 400_000, input: 272_000, output: 128_000 },
    capabilities: { toolcall: true, input: { image: false } },
    cost: { input: 1.25, output: 10 },
  }
  const model = {
    id: "m",
    headers: { authorization: "secret" },
    options: { apiKey: "secret" },
    limit: { ...facts.limit },
    capabilities: { ...facts.capabilities, reasoning: true, input: { ...facts.capabilities.input, text: true } },
    cost: { ...facts.cost, cache: { read: 0.1 } },
  }
  const providers = [
    { id: "p", key: "secret", env: ["P_KEY"], options: { apiKey: "secret" }, models: { m: model, bare: {} } },
    { id: "q" },
  ]
  const config = { providers: async () => ({ data: { providers, default: { p: "m" } }, response: { status: 200 } }) }
  const calls = [{ call: "config.providers", arguments: {} }]
  const { hooks, received } = await start({ calls }, { client: { config } })
  t.after(hooks.dispose)
  const { result } = await received.until((line) => line.id === "call-0")
  const bare = { limit: {}, capabilities: { input: {} }, cost: {} }
  assert.equal(result.status, 200)
  assert.deepEqual(result.data, { providers: [{ id: "p", models: { m: facts, bare } }, { id: "q", models: {} }] })
})

test("a host that refuses to name its models is a result like any other refusal", async (t) => {
  const config = { providers: async () => ({ error: { message: "not now" }, response: { status: 500 } }) }
  const calls = [{ call: "config.providers", arguments: {} }]
  const { hooks, received } = await start({ calls }, { client: { config } })
  t.after(hooks.dispose)
  const { result } = await received.until((line) => line.id === "call-0")
  assert.equal(result.status, 500)
  assert.deepEqual(result.data, { message: "not now" })
})

for (const call of ["session.delete", "constructor", "_client.get", ""])
  test(`a call outside the list is refused: ${JSON.stringify(call)}`, async (t) => {
    const { hooks, received } = await start({ calls: [{ call, arguments: {} }] })
    t.after(hooks.dispose)
    const { error } = await received.until((line) => line.id === "call-0")
    assert.equal(error.code, -32601)
  })

test("a toast of Python waits until a session shows that somebody is there", async (t) => {
  const body = { message: "hello", variant: "info" }
  const { hooks, event, received, toasts } = await start(
    { calls: [{ call: "tui.showToast", arguments: { body } }] },
    { numbers: { toast: 0 } },
  )
  t.after(hooks.dispose)
  const { result } = await received.until((line) => line.id === "call-0")
  assert.equal(result.status, 202)
  assert.deepEqual(toasts.entries, [])
  event("session.created")
  assert.deepEqual(await toasts.until(() => true), body)
})

test("a toast of Python waits for the turn it is about to begin, and Python does not wait for it", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] })
  const body = { message: "hello", variant: "info" }
  const { hooks, event, received, toasts } = await start({ calls: [{ call: "tui.showToast", arguments: { body } }] })
  t.after(hooks.dispose)
  event("session.created")
  const { result } = await received.until((line) => line.id === "call-0")
  assert.equal(result.status, 202)
  t.mock.timers.tick(299)
  assert.deepEqual(toasts.entries, [])
  t.mock.timers.tick(1)
  assert.deepEqual(toasts.entries, [body])
})

test("lines from the child that make no sense are ignored", async (t) => {
  const { hooks, event, got, gotEvent } = await start({ noise: true, events: ["a"] })
  t.after(hooks.dispose)
  await got("host")
  event("a")
  await gotEvent("a")
})

function deltas(received) {
  const lines = received.entries.filter((line) => line.params?.event?.type === "message.part.delta")
  return lines.map((line) => line.params.event.properties.delta)
}

function deferred() {
  const made = {}
  made.promise = new Promise((resolve) => (made.resolve = resolve))
  return made
}
