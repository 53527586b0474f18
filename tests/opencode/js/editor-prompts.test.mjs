// Prompts of an editor in `opencode acp`: held until the turn has its answer, ended at once by a stop.

import assert from "node:assert/strict"
import { ServerResponse } from "node:http"
import { Writable } from "node:stream"
import { test } from "node:test"

process.argv[2] = "acp"
const { prompt, start } = await import("./bridge-under-test.mjs")

const SERVER = "http://127.0.0.1:4096"
const OWN = "x-fallback-plugin"
const json = (body) => new Response(JSON.stringify(body), { headers: { "content-type": "application/json" } })
const answer = (text, more) => ({ info: { role: "assistant", id: text, ...more }, parts: [{ type: "text", text }] })
const RESENT = { call: "session.prompt", arguments: { sessionID: "ses_1", body: { messageID: "msg_1" } } }
const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

// The bridge wraps the process's fetch once; below it every test has its own server.
let serve
globalThis.fetch = async (request) => serve(request)

const post = (path, headers) => fetch(new Request(`${SERVER}/session/ses_1/${path}?directory=x`, { method: "POST", headers }))

// A bridge with an editor's prompt under way in ses_1. `words` is what Python answers to run.ending. The fetch of the
// process is wrapped by the first bridge that is started in it, so its times are for all tests.
async function prompted(t, words, { numbers, calls = [], callOn, dieOn, messages = [answer("of the fallback")], deltas = 0 } = {}) {
  let ended
  const made = []
  serve = (request) => {
    made.push({ path: new URL(request.url).pathname, own: request.headers.get(OWN) })
    return request.url.includes("/message") ? new Promise((resolve) => (ended = resolve)) : json(true)
  }
  const client = {
    session: {
      messages: async () => ({ data: messages }),
      abort: ({ path, headers }) => post("abort", headers).then(() => ({ data: true, path })),
      prompt: async () => ({ data: null, response: { status: 200 } }),
      status: async () => ({ data: {} }),
    },
  }
  const plan = { events: ["session.error"], questions: ["chat.message", "run.ending", "model.request"], calls, dieOn, callOn: callOn && { method: callOn, params: RESENT }, answers: { "hook/chat.message": null, "hook/run.ending": words } }
  const bridge = await start(plan, { client, numbers: { idleTaken: 1_000, ...numbers } })
  t.after(bridge.hooks.dispose)
  const reply = post("message").then((response) => response.json())
  await bridge.hooks["chat.message"](...prompt())
  for (let number = 0; number < deltas; number++) bridge.event("message.part.delta", { sessionID: "ses_1", field: "text", delta: "abc" })
  const asked = bridge.received.until((line) => line.method === "hook/run.ending")
  return { ...bridge, reply, made, asked, end: (body) => ended(json(body)) }
}

const write = (text) =>
  process.stdout.write(
    `${JSON.stringify({ method: "session/update", params: { sessionId: "ses_1", update: { sessionUpdate: "agent_message_chunk", content: { text } } } })}\n`,
  )

test("the host says that it is an editor's", async (t) => {
  const { got, reply, end } = await prompted(t, null)
  assert.equal((await got("initialize")).params.host.kind, "acp")
  end(answer("of the first"))
  await reply
})

test("an answer of which Python knows nothing more goes on as it came", async (t) => {
  const { reply, end, asked } = await prompted(t, null)
  end(answer("of the first"))
  assert.deepEqual(await reply, answer("of the first"))
  assert.deepEqual((await asked).params, { sessionID: "ses_1" })
})

test("a turn that was sent again ends with the session's last answer", async (t) => {
  const { reply, end } = await prompted(t, { parts: [], trouble: null })
  end(answer("", { error: { name: "APIError", data: { message: "no" } } }))
  assert.deepEqual(await reply, answer("of the fallback"))
})

test("what went wrong is the error of the prompt", async (t) => {
  const { reply, end } = await prompted(t, { parts: [], trouble: "p/a: rate limited" })
  end(answer(""))
  assert.deepEqual((await reply).info.error, { name: "UnknownError", data: { message: "p/a: rate limited" } })
})

test("the end waits until the editor was given all text", async (t) => {
  const { reply, end, asked } = await prompted(t, { parts: [], trouble: null }, { deltas: 2, numbers: { shown: 3_600_000 } })
  const order = []
  const done = reply.then(() => order.push("end"))
  end(answer(""))
  await asked
  await later(50) // time for an end that comes too early
  write("abc")
  order.push("text")
  write("abc")
  await done
  assert.deepEqual(order, ["text", "end"])
})

test("text that never gets to the editor holds its prompt up for a moment only", async (t) => {
  const { reply, end } = await prompted(t, { parts: [], trouble: null }, { deltas: 2, numbers: { shown: 30 } })
  end(answer(""))
  assert.deepEqual(await reply, answer("of the fallback"))
})

test("a stop ends the prompt at once, and Python is told", async (t) => {
  const { reply, end, asked, gotEvent } = await prompted(t, "silence")
  end(answer(""))
  await asked
  await post("abort")
  assert.equal((await reply).info.error.name, "MessageAbortedError")
  const { params } = await gotEvent("session.error")
  assert.equal(params.event.properties.error.name, "MessageAbortedError")
})

test("a run that was on its way when the editor stopped makes no request", async (t) => {
  const { reply, end, asked, received, made, hooks } = await prompted(t, "silence", { callOn: "hook/run.ending" })
  end(answer(""))
  await asked
  assert.equal((await received.until((line) => line.id === "call-on")).result.status, 200)
  await post("abort")
  await reply
  const aborts = () => made.filter(({ path }) => path.endsWith("/abort")).length
  await hooks["chat.headers"]({ sessionID: "ses_1", message: { id: "msg_of_another_turn" }, model: {} }, { headers: {} })
  assert.equal(aborts(), 1)
  await hooks["chat.headers"]({ sessionID: "ses_1", message: { id: "msg_1" }, model: {} }, { headers: {} })
  assert.equal(aborts(), 2)
})

test("what Python still sends of a turn that the editor stopped is refused", async (t) => {
  const { reply, end, asked, received } = await prompted(t, "silence", { callOn: "event" })
  end(answer(""))
  await asked
  await post("abort")
  await reply
  assert.equal((await received.until((line) => line.id === "call-on")).result.status, 409)
})

test("a stop before the first run is over ends the prompt and asks Python nothing", async (t) => {
  const { reply, end, received } = await prompted(t, { parts: [], trouble: null })
  await post("abort")
  end(answer("half", { error: { name: "MessageAbortedError", data: {} } }))
  assert.equal((await reply).info.error.name, "MessageAbortedError")
  assert.equal(received.entries.filter((line) => line.method === "hook/run.ending").length, 0)
})

test("a stop that OpenCode forgets, since its run has not begun, is made again before a model is asked", async (t) => {
  const { reply, end, made, hooks } = await prompted(t, null)
  await post("abort")
  await hooks["chat.headers"]({ sessionID: "ses_1", message: { id: "msg_1" }, model: {} }, { headers: {} })
  assert.equal(made.filter(({ path }) => path.endsWith("/abort")).length, 2)
  end(answer("half", { error: { name: "MessageAbortedError", data: {} } }))
  await reply
})

test("a stop of our own is no editor's, and the server is told by its mark", async (t) => {
  const calls = [{ call: "session.abort", arguments: { sessionID: "ses_1" } }]
  const { reply, end, received, made } = await prompted(t, { parts: [], trouble: null }, { calls })
  await received.until((line) => line.id === "call-0")
  end(answer(""))
  assert.deepEqual(await reply, answer("of the fallback"))
  assert.deepEqual(made, [
    { path: "/session/ses_1/message", own: null },
    { path: "/session/ses_1/abort", own: "ours" },
  ])
})

test("a run that no editor waits for is looked after when it is over", async (t) => {
  const { reply, end, event, received } = await prompted(t, null)
  const endings = (sessionID) => received.until((line) => line.method === "hook/run.ending" && line.params.sessionID === sessionID)
  event("session.idle", { sessionID: "ses_1" }) // the editor's prompt is looked after when its response is there
  event("session.idle", { sessionID: "ses_2" })
  await endings("ses_2")
  assert.equal(received.entries.filter((line) => line.params?.sessionID === "ses_1" && line.method === "hook/run.ending").length, 0)
  end(answer("of the first"))
  await reply
  await endings("ses_1")
})

// A second prompt of ses_1 that its server holds until `end` is called.
function promptedAgain() {
  const before = serve
  let end
  serve = (request) => {
    if (!request.url.includes("/message")) return before(request)
    return new Promise((resolve) => (end = (body) => resolve(json(body))))
  }
  const reply = post("message").then((response) => response.json())
  return { reply, end: (body) => end(body) }
}

// An event stream of the host's as the editor's side reads it: what it is told, and the requests it makes of that.
function eventStream({ acknowledges = true } = {}) {
  const told = []
  const stream = new ServerResponse({ method: "GET", url: "/global/event", httpVersionMajor: 1, httpVersionMinor: 1 })
  const sink = new Writable({
    write(chunk, _, done) {
      for (const [, text] of chunk.toString().matchAll(/^data: (.*)$/gm)) {
        const { type, properties } = JSON.parse(text).payload
        told.push(`${type} ${properties.sessionID}`)
        if (type === "message.part.delta" && acknowledges) fetch(new Request(`${SERVER}/session/ses_1/message/${properties.messageID}`))
      }
      done()
    },
  })
  sink.setTimeout = sink.cork = sink.uncork = () => {}
  stream.assignSocket(sink)
  stream.write('data: {"payload":{"type":"server.connected","properties":{}}}\n\n')
  return { told: () => told.filter((line) => line !== "server.connected undefined"), close: () => stream.emit("close") }
}

const secondMessage = [prompt()[0], { message: { id: "msg_2", agent: "build", model: {} }, parts: [] }]

test("a cancelled prompt ends after the editor's side has seen the session idle, if another one is open by then", async (t) => {
  const { reply, end, asked, hooks } = await prompted(t, { parts: [], trouble: null })
  const stream = eventStream()
  t.after(stream.close)
  await post("abort")
  const second = promptedAgain()
  end(answer("half"))
  assert.equal((await reply).info.error.name, "MessageAbortedError")
  assert.deepEqual(stream.told(), ["session.status ses_1", "message.part.delta ses_1"])
  await hooks["chat.message"](...secondMessage)
  second.end(answer("of the second"))
  assert.deepEqual((await second.reply).parts, answer("of the fallback").parts)
  await asked
})

test("a prompt that overlaps with none says nothing of the session", async (t) => {
  const { reply, end } = await prompted(t, null)
  const stream = eventStream()
  t.after(stream.close)
  end(answer("of the first"))
  await reply
  assert.deepEqual(stream.told(), [])
})

test("an editor's side that takes in nothing holds the end of an overlapping prompt up for a moment only", async (t) => {
  const { reply, end } = await prompted(t, null)
  const stream = eventStream({ acknowledges: false })
  t.after(stream.close)
  const second = promptedAgain()
  end(answer("of the first"))
  assert.deepEqual(await reply, answer("of the first"))
  second.end(answer("of the second"))
  assert.deepEqual(await second.reply, answer("of the second"))
})

// Stop a prompt that is held, and begin the next one.
async function stoppedAndPromptedAgain({ reply, end, asked, hooks }) {
  end(answer(""))
  await asked
  await post("abort")
  const second = promptedAgain()
  await reply
  await hooks["chat.message"](...secondMessage)
  return second
}

test("a stop of one prompt says nothing of the next", async (t) => {
  const bridge = await prompted(t, "silence")
  const { made, hooks } = bridge
  const second = await stoppedAndPromptedAgain(bridge)
  const aborts = () => made.filter(({ path }) => path.endsWith("/abort")).length
  await hooks["chat.headers"]({ sessionID: "ses_1", message: { id: "msg_2" }, model: {} }, { headers: {} })
  assert.equal(aborts(), 1)
  await hooks["chat.headers"]({ sessionID: "ses_1", message: { id: "msg_1" }, model: {} }, { headers: {} })
  assert.equal(aborts(), 2)
  second.end(answer("of the second"))
})

test("what Python sends of a stopped prompt stays refused while the next one waits", async (t) => {
  const bridge = await prompted(t, "silence", { callOn: "event" })
  const { event, received } = bridge
  event("message.updated", { sessionID: "ses_1", info: { id: "msg_of_the_first", role: "assistant", parentID: "msg_1" } })
  const second = await stoppedAndPromptedAgain(bridge)
  assert.equal((await received.until((line) => line.id === "call-on")).result.status, 409)
  second.end(answer(""))
})

test("a held prompt ends when its session is deleted", async (t) => {
  const { reply, end, asked, event } = await prompted(t, "silence")
  end(answer(""))
  await asked
  event("session.deleted", { sessionID: "ses_1" })
  assert.equal((await reply).info.error.name, "MessageAbortedError")
})

test("a held prompt ends as it came when Python dies", async (t) => {
  const { reply, end } = await prompted(t, "silence", { dieOn: "hook/run.ending" })
  end(answer("of the first"))
  assert.deepEqual(await reply, answer("of the first"))
})
