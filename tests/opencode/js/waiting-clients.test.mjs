// Clients of the host's HTTP server that wait for a prompt's answer.

import assert from "node:assert/strict"
import { createServer, request } from "node:http"
import { test } from "node:test"

import { prompt, start } from "./bridge-under-test.mjs"

const message = (id, text, parentID = "msg_1") => ({ info: { id, role: "assistant", parentID }, parts: [{ type: "text", text }] })
const ABORTED = message("msg_2", "")
ABORTED.info.error = { name: "MessageAbortedError", data: { message: "Aborted" } }
const ANSWER = message("msg_3", "of the fallback")
const OF_NEXT = message("msg_5", "of the next turn", "msg_4")

// A bridge whose child answers `ending` when a run ends, and a server that ends its responses by `finish`.
async function waiting(t, ending, { finish = (response) => response.end(JSON.stringify(ABORTED)), answers = [ABORTED, ANSWER, OF_NEXT], numbers = {}, status = {}, isOurs = true } = {}) {
  const messages = async () => ({ data: [{ info: { id: "msg_1", role: "user" }, parts: [] }, ...answers] })
  const plan = { questions: ["chat.message", "run.ending"], answers: { "hook/chat.message": null, "hook/run.ending": ending } }
  const bridge = await start(plan, { client: { session: { messages, status: async () => ({ data: status }) } }, numbers })
  t.after(bridge.hooks.dispose)
  const server = createServer(async (_, response) => {
    if (isOurs) await bridge.hooks["chat.message"](...prompt())
    finish(response)
  })
  t.after(() => server.close())
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
  const post = (path = "/session/ses_1/message", headers = {}) =>
    new Promise((resolve, reject) => {
      const sent = request({ port: server.address().port, host: "127.0.0.1", path, method: "POST", headers }, (response) => {
        const chunks = []
        response.on("data", (chunk) => chunks.push(chunk))
        response.on("end", () => resolve({ status: response.statusCode, body: Buffer.concat(chunks).toString() }))
      })
      sent.on("error", reject)
      sent.end()
    })
  const asked = () => bridge.received.entries.filter(({ method }) => method === "hook/run.ending").map(({ params }) => params.sessionID)
  return { ...bridge, post, asked }
}

const LENGTH = Buffer.byteLength(JSON.stringify(ABORTED))
const WAYS = {
  "with its length": (response) => response.setHeader("content-length", LENGTH).end(JSON.stringify(ABORTED)),
  "with its length in its head": (response) => response.writeHead(200, { "Content-Length": LENGTH }).end(JSON.stringify(ABORTED)),
  "with its length in a list": (response) => response.writeHead(200, "OK", ["Content-Length", String(LENGTH)]).end(JSON.stringify(ABORTED)),
  "at its end": (response) => response.end(JSON.stringify(ABORTED)),
  "in pieces": (response) => {
    const text = JSON.stringify(ABORTED)
    response.writeHead(200, { "content-type": "application/json" })
    response.write(text.slice(0, 9))
    response.write(Buffer.from(text.slice(9)), () => response.end())
  },
}
for (const [how, finish] of Object.entries(WAYS))
  test(`a response written ${how} holds the last answer to its message`, async (t) => {
    const { post, asked } = await waiting(t, { parts: [], trouble: null }, { finish })
    assert.deepEqual(JSON.parse((await post()).body), ANSWER)
    assert.deepEqual(JSON.parse((await post("/session/ses_1/command?directory=/project")).body), ANSWER)
    assert.deepEqual(asked(), ["ses_1", "ses_1"])
  })

test("a message that was answered along with the next one has that one's answer", async (t) => {
  const { post } = await waiting(t, { parts: [], trouble: null }, { answers: [ABORTED, OF_NEXT] })
  assert.deepEqual(JSON.parse((await post()).body), OF_NEXT)
})

test("one that Python has nothing to say about comes as it is", async (t) => {
  const { post } = await waiting(t, null)
  assert.deepEqual(JSON.parse((await post()).body), ABORTED)
})

test("so does a refusal", async (t) => {
  const { post } = await waiting(t, { parts: [], trouble: null }, { finish: (response) => response.writeHead(400).end("what?") })
  assert.deepEqual(await post(), { status: 400, body: "what?" })
})

test("nothing is asked of another instance's session, another path, or a call of ours", async (t) => {
  const { post, asked } = await waiting(t, { parts: [], trouble: null }, { isOurs: false })
  await post()
  await post("/session/ses_1/prompt_async")
  await post("/session/ses_1/message", { "x-fallback-plugin": "ours" })
  assert.deepEqual(asked(), [])
})

test("a session that is idle all the while is not waited for", async (t) => {
  const { post } = await waiting(t, undefined, { numbers: { idleLook: 10 } })
  assert.deepEqual(JSON.parse((await post()).body), ANSWER)
})

test("a child that ends lets the response go", async (t) => {
  const { post, hooks, received } = await waiting(t, undefined, { status: { ses_1: { type: "busy" } } })
  const response = post()
  await received.until(({ method }) => method === "hook/run.ending")
  await hooks.dispose()
  assert.deepEqual(JSON.parse((await response).body), ABORTED)
})
