// A stop of the user is a request: over the host's HTTP server, or made into a `Request` in its process.

import assert from "node:assert/strict"
import { createServer, request } from "node:http"
import { test } from "node:test"

import { start } from "./bridge-under-test.mjs"

const STOPPED = "session.abort.requested"

async function listening(t) {
  const bridge = await start({ events: [STOPPED, "session.idle"] })
  t.after(bridge.hooks.dispose)
  await bridge.got("initialize")
  await bridge.event("session.idle", { sessionID: "ses_0" })
  await bridge.gotEvent("session.idle")
  const stopped = () =>
    bridge.received.entries.flatMap(({ params }) => (params?.event?.type === STOPPED ? [params.event.properties.sessionID] : []))
  // What was told of everything up to now.
  const told = async () => {
    await bridge.event("session.idle", { sessionID: "ses_end" })
    await bridge.received.until(({ params }) => params?.event?.properties?.sessionID === "ses_end")
    return stopped()
  }
  return { ...bridge, told }
}

test("one made into a request in this process is told", async (t) => {
  const { told } = await listening(t)
  new Request("http://opencode.internal/session/ses_1/abort", { method: "POST" })
  new Request("http://opencode.internal/api/session/ses_2/interrupt?directory=/project", { method: "POST" })
  assert.deepEqual(await told(), ["ses_1", "ses_2"])
})

test("so is a deletion of the session, and not one within it", async (t) => {
  const { told } = await listening(t)
  new Request("http://host/session/ses_1?directory=/project", { method: "DELETE" })
  new Request("http://host/session/ses_2/message/msg_1", { method: "DELETE" })
  assert.deepEqual(await told(), ["ses_1"])
})

test("one that a server hears is told before it is carried out", async (t) => {
  const { told } = await listening(t)
  const server = createServer((_, response) => response.end())
  t.after(() => server.close())
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
  const post = (path, headers = {}) =>
    new Promise((resolve) => {
      const sent = request({ port: server.address().port, host: "127.0.0.1", path, method: "POST", headers }, (response) => response.resume().on("end", resolve))
      sent.end()
    })
  await post("/session/ses_1/abort")
  await post("/session/ses_2/abort", { "x-fallback-plugin": "ours" })
  await post("/session/ses_3/prompt_async")
  assert.deepEqual(await told(), ["ses_1"])
})

test("a call of ours is none, nor is another request", async (t) => {
  const { told } = await listening(t)
  new Request("http://host/session/ses_1/abort", { method: "POST", headers: { "x-fallback-plugin": "ours" } })
  new Request("http://host/session/ses_1/abort")
  new Request("http://host/session/ses_1/message", { method: "POST", body: "/session/ses_1/abort" })
  new Request("http://host/session/%E0%A4%A/abort", { method: "POST" }) // no proper URL
  assert.deepEqual(await told(), [])
})

test("a request is what it was", async (t) => {
  await listening(t)
  const made = new Request("http://host/x", { method: "PUT", body: "text" })
  class Own extends Request {}
  assert.ok(made instanceof Request)
  assert.ok(new Own("http://host/y") instanceof Own)
  assert.equal(await made.text(), "text")
  assert.throws(() => new Request("no url"), TypeError)
})

test("an instance that is gone hears of none", async (t) => {
  const { hooks, received } = await listening(t)
  await hooks.dispose()
  const before = received.entries.length
  new Request("http://host/session/ses_1/abort", { method: "POST" })
  assert.equal(received.entries.length, before)
})
