// Calls of Python and the user's stops and messages that cross.

import assert from "node:assert/strict"
import { createServer, request } from "node:http"
import { test } from "node:test"

import { prompt, start } from "./bridge-under-test.mjs"

const ABORT = "session.abort"
const PROMPT = "session.promptAsync"

const stop = () => new Request("http://host/session/ses_1/abort", { method: "POST" })
const shown = (id) => ["message.updated", { sessionID: "ses_1", info: { id, role: "user" } }]

// A bridge whose child makes these calls of ses_1 when it is ready; until then `before` happens. Aborts end when
// `end` is called.
async function crossing(t, calls, { before = () => {}, numbers = {} } = {}) {
  const carriedOut = []
  let end
  const ended = new Promise((resolve) => (end = resolve))
  const session = {
    abort: () => (carriedOut.push(ABORT), ended.then(() => ({ data: true, response: { status: 200 } }))),
    promptAsync: async () => (carriedOut.push(PROMPT), { data: null, response: { status: 204 } }),
  }
  const plan = {
    events: ["message.updated"],
    questions: ["chat.message", "prompt.begins"],
    answers: { "hook/chat.message": null, "hook/prompt.begins": { stop: false } },
    calls: calls.map(([call, more]) => ({ call, arguments: { sessionID: "ses_1", body: {}, ...more } })),
  }
  const bridge = await start(plan, { client: { session }, numbers })
  t.after(bridge.hooks.dispose)
  await before(bridge)
  const status = async (number) => (await bridge.received.until(({ id, result }) => id === `call-${number}` && result)).result.status
  const called = (call) => new Promise((resolve) => {
    const look = () => (carriedOut.includes(call) ? resolve() : setImmediate(look))
    look()
  })
  // Make a message, and say when that was done.
  const made = []
  const make = (messageID) => {
    const [input, output] = prompt()
    return bridge.hooks["chat.message"]({ ...input, messageID }, output).then(() => made.push(messageID))
  }
  return { ...bridge, end, status, called, carriedOut, made, make }
}

for (const call of [ABORT, PROMPT])
  test(`a ${call} decided on before a stop was heard is not carried out`, async (t) => {
    const { status, carriedOut } = await crossing(t, [[call, { after: 0 }]], { before: stop })
    assert.equal(await status(0), 412)
    assert.deepEqual(carriedOut, [])
  })

test("one decided on with its knowledge is, and so is one that is meant all the same", async (t) => {
  const { end, status } = await crossing(t, [[ABORT, { after: 1 }], [ABORT, { after: null }]], { before: stop })
  end()
  assert.deepEqual([await status(0), await status(1)], [200, 200])
})

test("nor is one decided on before the message after a stop was heard of", async (t) => {
  const before = async ({ hooks, event }) => {
    stop() // 1
    hooks["chat.message"](...prompt()) // it is made once the child is ready
    await event("session.idle", { sessionID: "ses_1" }) // 2, late and of the stopped run
    await event(...shown("msg_1")) // 3
  }
  const { end, status } = await crossing(t, [[ABORT, { after: 2 }], [ABORT, { after: 3 }]], { before })
  end()
  assert.deepEqual([await status(0), await status(1)], [412, 200])
})

test("a toast about a turn that was stopped is not shown", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] })
  const body = (message) => ({ message, variant: "info" })
  const toast = (message, about) => ({ call: "tui.showToast", arguments: { body: body(message), ...about } })
  const calls = [
    toast("of a turn stopped since", { sessionID: "ses_1", after: 0 }),
    toast("of a turn stopped while it waits", { sessionID: "ses_1", after: 1 }),
    toast("of another session", { sessionID: "ses_2", after: 0 }),
    toast("of no session", {}),
  ]
  const { hooks, event, received, toasts } = await start({ calls })
  t.after(hooks.dispose)
  stop() // 1
  event("session.created", { sessionID: "ses_2" })
  const statuses = []
  for (const number of [0, 1, 2, 3]) statuses.push((await received.until(({ id, result }) => id === `call-${number}` && result)).result.status)
  assert.deepEqual(statuses, [412, 202, 202, 202])
  stop()
  t.mock.timers.tick(300)
  assert.deepEqual(toasts.entries, [body("of another session"), body("of no session")])
})

test("one about the message after the stop is", async (t) => {
  const before = async ({ hooks }) => {
    stop() // 1
    hooks["chat.message"](...prompt())
  }
  const { status } = await crossing(t, [["tui.showToast", { after: 1 }], ["tui.showToast", { after: null }]], { before })
  assert.deepEqual([await status(0), await status(1)], [202, 202])
})

test("a message waits for an abort that is carried out", async (t) => {
  const { called, end, make, made } = await crossing(t, [[ABORT]])
  await called(ABORT)
  const making = make("msg_2")
  await new Promise(setImmediate)
  assert.deepEqual(made, [])
  end()
  await making
  assert.deepEqual(made, ["msg_2"])
})

test("and for a prompt, whose own message does not, until its model is asked", async (t) => {
  const { hooks, status, make, made } = await crossing(t, [[PROMPT, { body: { messageID: "msg_1" } }]])
  assert.equal(await status(0), 204)
  const making = make("msg_2")
  await make("msg_1")
  assert.deepEqual(made, ["msg_1"])
  await hooks["chat.headers"]({ sessionID: "ses_1", agent: "build", model: {}, message: { id: "msg_1" } }, { headers: {} })
  await making
  assert.deepEqual(made, ["msg_1", "msg_2"])
})

test("the end of an earlier run does not let it through", async (t) => {
  const { event, status, made, make } = await crossing(t, [[PROMPT, { body: { messageID: "msg_1" } }]])
  assert.equal(await status(0), 204)
  const making = make("msg_2")
  await event("session.idle", { sessionID: "ses_1" })
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.deepEqual(made, [])
  await make("msg_1")
  await event(...shown("msg_1"))
  await event("session.idle", { sessionID: "ses_1" })
  await making
})

test("nor does what the run before has still on its way, or an idle before our message is stored", async (t) => {
  const { event, hooks, status, made, make } = await crossing(t, [[PROMPT, { body: { messageID: "msg_1" } }]])
  assert.equal(await status(0), 204)
  const ask = () => hooks["chat.headers"]({ sessionID: "ses_1", agent: "build", model: {}, message: { id: "msg_1" } }, { headers: {} })
  await ask()
  stop()
  const making = make("msg_2")
  await make("msg_1")
  await event("session.idle", { sessionID: "ses_1" })
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.deepEqual(made, ["msg_1"])
  await event(...shown("msg_1"))
  await ask()
  await making
})

test("one that is stopped while it waits is never asked for", async (t) => {
  const { called, carriedOut, end, hooks, make } = await crossing(t, [[ABORT]])
  await called(ABORT)
  const making = make("msg_2")
  stop()
  end()
  await making
  const ask = (id) => hooks["chat.headers"]({ sessionID: "ses_1", agent: "build", model: {}, message: { id } }, { headers: {} })
  await assert.rejects(ask("msg_2"), /stopped/)
  assert.equal(carriedOut.length, 2)
  await ask("msg_3")
})

test("one that comes behind it is made after it, and once its run is stopped", async (t) => {
  const { called, carriedOut, end, event, hooks, make, made } = await crossing(t, [[ABORT]])
  await called(ABORT)
  const ask = (id) => hooks["chat.headers"]({ sessionID: "ses_1", agent: "build", model: {}, message: { id } }, { headers: {} })
  const first = make("msg_2")
  stop()
  const second = make("msg_3")
  end()
  await first
  await event(...shown("msg_2"))
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.deepEqual(made, ["msg_2"])
  await assert.rejects(ask("msg_2"), { name: "AbortError" })
  await second
  assert.deepEqual(made, ["msg_2", "msg_3"])
  assert.equal(carriedOut.length, 2)
  await ask("msg_3")
})

test("unless that run has ended without asking", async (t) => {
  const { end, event, make } = await crossing(t, [], { numbers: { runLook: 20 } })
  end()
  await make("msg_2")
  await event(...shown("msg_2"))
  stop()
  await make("msg_3")
  await event(...shown("msg_3"))
  await make("msg_4")
})

test("of several that wait each is made after the one before, and a stop is for all", async (t) => {
  const { called, end, event, hooks, make, made } = await crossing(t, [[ABORT]])
  await called(ABORT)
  const ask = (id) => hooks["chat.headers"]({ sessionID: "ses_1", agent: "build", model: {}, message: { id } }, { headers: {} })
  const making = ["msg_2", "msg_3"].map(make)
  end()
  await making[0]
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.deepEqual(made, ["msg_2"])
  stop()
  await event(...shown("msg_2"))
  await assert.rejects(ask("msg_2"), /stopped/)
  await making[1]
  await assert.rejects(ask("msg_3"), /stopped/)
})

test("a message that comes while the host carries a stop out is made after its end", async (t) => {
  const { make, made } = await crossing(t, [])
  let answer
  const heard = new Promise((resolve) => {
    const server = createServer((_, response) => {
      answer = () => response.end("true")
      resolve()
    })
    t.after(() => server.close())
    server.listen(0, "127.0.0.1", () => {
      request({ port: server.address().port, host: "127.0.0.1", path: "/session/ses_1/abort", method: "POST" }, (response) => response.resume()).end()
    })
  })
  await heard
  const making = make("msg_2")
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.deepEqual(made, [])
  answer()
  await making
  assert.deepEqual(made, ["msg_2"])
})

test("nor one that is stopped before its run begins, unless it is sent again", async (t) => {
  const { end, hooks, make } = await crossing(t, [])
  end()
  const ask = (id) => hooks["chat.headers"]({ sessionID: "ses_1", agent: "build", model: {}, message: { id } }, { headers: {} })
  await make("msg_2")
  stop()
  await assert.rejects(ask("msg_2"), /stopped/)
  await make("msg_2")
  await ask("msg_2")
})

test("one that waited counts as made when it was", async (t) => {
  const { called, end, hooks } = await crossing(t, [[ABORT]])
  await called(ABORT)
  const [input, output] = prompt()
  output.message.time = { created: 1 }
  const making = hooks["chat.message"]({ ...input, messageID: "msg_2" }, output)
  end()
  await making
  assert.ok(Date.now() - output.message.time.created < 60_000)
})

test("or until its run is over, and never for long", async (t) => {
  const { event, status, make } = await crossing(t, [[PROMPT, { body: { messageID: "msg_1" } }]], { numbers: { crossing: 3_600_000 } })
  assert.equal(await status(0), 204)
  const making = make("msg_2")
  await make("msg_1")
  await event(...shown("msg_1"))
  await event("session.idle", { sessionID: "ses_1" })
  await making
  const late = await crossing(t, [[ABORT]], { numbers: { crossing: 20 } })
  await late.called(ABORT)
  await late.make("msg_2")
})
