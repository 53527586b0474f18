// What becomes of a request to a model: watched, answered by another model, or handed on as it came.

import assert from "node:assert/strict"
import { beforeEach, test } from "node:test"

import { prompt, start } from "./bridge-under-test.mjs"

// The bridge wraps the process's fetch once; below it every test has its own.
let serve
let asked
globalThis.fetch = (url, init) => {
  asked.push({ url, ...init, headers: Object.fromEntries(new Headers(init?.headers)), body: parsed(init?.body) })
  return serve(asked.length, init)
}
globalThis.fetch.preconnect = "kept"
beforeEach(() => {
  asked = []
  serve = () => new Response("fine")
})

const parsed = (body) => (typeof body === "string" ? JSON.parse(body) : body)
const COMPATIBLE = "@ai-sdk/openai-compatible"
const model = (id, npm = COMPATIBLE) => ({ id, api: { id, npm } })
const PROVIDERS = [
  { id: "p", options: { baseURL: "http://p/v1", apiKey: "key-of-p" }, models: { first: model("first"), second: model("second") } },
  { id: "q", key: "key-of-q", options: { baseURL: "http://q/v1/", headers: { "x-own": "yes" } }, models: { third: { api: { id: "wire-third", npm: COMPATIBLE } } } },
  { id: "keyless", options: { baseURL: "http://k/v1" }, models: { m: model("m") } },
  { id: "login", options: { baseURL: "http://l/v1", apiKey: "dummy" }, models: { m: model("m") } },
  { id: "other", options: { baseURL: "http://o/v1", apiKey: "k" }, models: { m: model("m", "@ai-sdk/anthropic") } },
]
const client = {
  config: { providers: async () => ({ data: { providers: PROVIDERS }, response: { status: 200 } }) },
  provider: { auth: async () => ({ data: { login: [{ type: "oauth" }], p: [{ type: "api" }] } }) },
}

const line = (value) => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`
const delta = (content) => line({ choices: [{ delta: { content } }] })
const END = line({ choices: [{ delta: {}, finish_reason: "stop" }] }) + line("[DONE]")
const stream = (...pieces) => {
  const body = new ReadableStream({
    async start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(await piece))
      controller.close()
    },
  })
  return new Response(body, { headers: { "content-type": "text/event-stream" } })
}
const refused = (status, text = `{"error":{"message":"no"}}`) =>
  new Response(text, { status, headers: { "content-type": "application/json", "retry-after": "7" } })
const to = (providerID, modelID) => ({ model: { providerID, modelID } })

async function watching(t, answers, more = {}, { host = client, numbers } = {}) {
  const plan = { switching: "inline", questions: ["model.request", "chat.message"], answers: { "hook/chat.message": null, "hook/model.request": answers }, ...more }
  const bridge = await start(plan, { client: host, numbers })
  t.after(bridge.hooks.dispose)
  await bridge.event("session.created", { sessionID: "ses_1" })
  // Ready once it asks Python anything.
  await bridge.hooks["chat.message"]({ sessionID: "ses_1" }, { message: {} })
  return bridge
}

// Make a request as the host's SDKs do, under the header that the bridge asks for.
async function request(bridge, { body = {}, signal, npm = COMPATIBLE, parent, ...about } = {}) {
  const output = { headers: {} }
  const input = { sessionID: "ses_1", agent: "build", model: { ...model("first", npm), providerID: "p" }, message: { id: "msg_1" }, ...about }
  await bridge.hooks["chat.headers"](input, output)
  const headers = { authorization: "Bearer key-of-p", "content-type": "application/json", ...(parent && { "x-parent-session-id": parent }), ...output.headers }
  const sent = JSON.stringify({ model: "first", messages: [], ...body })
  return globalThis.fetch("http://p/v1/chat/completions", { method: "POST", headers, body: sent, signal })
}

// The same as the host's SDKs make it once more by themselves: all is as it was.
async function repeatable(bridge, about) {
  const output = { headers: {} }
  await bridge.hooks["chat.headers"]({ sessionID: "ses_1", model: { ...model("first"), providerID: "p" }, message: { id: "msg_1" }, ...about }, output)
  const init = { method: "POST", headers: output.headers, body: JSON.stringify({ model: "first", messages: [] }) }
  return () => globalThis.fetch("http://p/v1/chat/completions", init)
}

const questions = (bridge) => bridge.received.entries.filter(({ method }) => method === "hook/model.request").map(({ params }) => params)

test("a request that is not watched goes straight on, untouched", async (t) => {
  await watching(t, null)
  const init = { method: "POST", body: "{}" }
  let got
  serve = (_, given) => {
    got = given
    return new Response("fine")
  }
  await globalThis.fetch("http://elsewhere/", init)
  assert.equal(got, init)
})

test("what the runtime has put on its fetch stays there", async (t) => {
  await request(await watching(t, null), {}).catch(() => {})
  assert.equal(globalThis.fetch.preconnect, "kept")
})

test("an answer is handed on piece by piece, and our header is taken off", async (t) => {
  const bridge = await watching(t, null)
  let more
  serve = () => stream(delta("Hello"), new Promise((resolve) => (more = resolve)), END)
  const reader = (await request(bridge)).body.getReader()
  const first = new TextDecoder().decode((await reader.read()).value)
  assert.match(first, /Hello/)
  more(delta(" you"))
  let rest = ""
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) rest += new TextDecoder().decode(piece.value)
  assert.equal(rest, delta(" you") + END)
  assert.deepEqual(Object.keys(asked[0].headers).filter((name) => name.startsWith("x-")), [])
  assert.deepEqual(questions(bridge), [])
})

test("a refused request is answered by another provider's model, with its address, key and name", async (t) => {
  const bridge = await watching(t, to("q", "third"))
  serve = (time) => (time === 1 ? refused(429) : stream(delta("Hi"), END))
  const response = await request(bridge)
  assert.equal(await response.text(), delta("Hi") + END)
  const [, second] = asked
  assert.equal(second.url, "http://q/v1/chat/completions")
  assert.equal(second.body.model, "wire-third")
  assert.equal(second.headers.authorization, "Bearer key-of-q")
  assert.equal(second.headers["x-own"], "yes")
  assert.equal(second.keepalive, false)
  const [question] = questions(bridge)
  assert.deepEqual(question.tried, [{ providerID: "p", modelID: "first" }])
  assert.deepEqual([question.failure.ending, question.failure.status, question.failure.headers["retry-after"]], ["refused", 429, "7"])
  assert.deepEqual(question.reachable, { p: ["first", "second"], q: ["third"] })
  assert.ok(!JSON.stringify(question).includes("key-of"))
})

test("nobody else answers a title whose session the user has stopped since it was asked for", async (t) => {
  const bridge = await watching(t, to("q", "third"))
  serve = (time) => {
    if (time > 1) return stream(delta("Hi"), END)
    new Request("http://host/session/ses_1/abort", { method: "POST" })
    return refused(429)
  }
  assert.equal((await request(bridge, { agent: "title" })).status, 400) // which the host does not ask for again
  assert.equal(asked.length, 1)
})

test("a title that failed is not asked for again once the user has stopped its session", async (t) => {
  const bridge = await watching(t, null)
  serve = () => refused(429)
  const again = await repeatable(bridge, { agent: "title" })
  assert.equal((await again()).status, 429)
  assert.equal((await again()).status, 429)
  new Request("http://host/session/ses_1/abort", { method: "POST" })
  await assert.rejects(again(), { name: "AbortError" })
  assert.equal(asked.length, 2)
})

test("a model that rests is not asked for a title", async (t) => {
  const answers = { "hook/chat.message": null, "hook/model.background": to("q", "third") }
  const bridge = await watching(t, null, { questions: ["model.request", "model.background", "chat.message"], answers })
  serve = () => stream(delta("Hi"), END)
  await request(bridge, { agent: "title" })
  await request(bridge, { agent: "build" })
  assert.deepEqual(asked.map(({ body }) => body.model), ["wire-third", "first"])
  const [question, ...others] = bridge.received.entries.filter(({ method }) => method === "hook/model.background")
  assert.deepEqual([question.params.tried, question.params.agent, others], [[], "title", []])
  assert.deepEqual(question.params.reachable, { p: ["first", "second"], q: ["third"] })
})

test("another model of the same provider gets the request as it was, but for the name", async (t) => {
  const bridge = await watching(t, to("p", "second"))
  serve = (time) => (time === 1 ? refused(503) : stream(delta("Hi"), END))
  await request(bridge, { body: { tools: [1] } })
  assert.deepEqual(asked[1].body, { model: "second", messages: [], tools: [1] })
  assert.equal(asked[1].headers.authorization, "Bearer key-of-p")
})

test("every model that fails is asked about, until nobody is named", async (t) => {
  const bridge = await watching(t, { each: [to("p", "second"), to("q", "third"), null] })
  serve = () => refused(429, "the last words")
  const response = await request(bridge)
  assert.deepEqual([response.status, await response.text()], [429, "the last words"])
  assert.deepEqual(questions(bridge).map(({ tried }) => tried.map(({ modelID }) => modelID)), [["first"], ["first", "second"], ["first", "second", "third"]])
})

test("a further request of the same message goes to the model that answered in its place", async (t) => {
  const bridge = await watching(t, to("q", "third"))
  serve = (time) => (time === 1 ? refused(429) : stream(delta("Hi"), END))
  await request(bridge)
  await request(bridge)
  await request(bridge, { message: { id: "msg_2" } })
  assert.deepEqual(asked.map(({ body }) => body.model), ["first", "wire-third", "wire-third", "first"])
})

test("a final failure has neither the status nor the words that the host would try again by", async (t) => {
  const bridge = await watching(t, { final: true })
  serve = () => refused(429, "Rate limit reached, try again in 3 s")
  const response = await request(bridge)
  assert.equal(response.status, 400)
  assert.doesNotMatch(await response.text(), /429|rate|again/i)
})

test("a failure nobody answers for reaches the host as it came", async (t) => {
  const bridge = await watching(t, null)
  serve = () => refused(429, "as it came")
  const response = await request(bridge)
  assert.deepEqual([response.status, await response.text(), response.headers.get("retry-after")], [429, "as it came", "7"])
})

test("an error below HTTP is a failure like any other", async (t) => {
  const bridge = await watching(t, { each: [null, to("p", "second")] })
  serve = (time) => (time < 3 ? Promise.reject(new TypeError("ECONNREFUSED")) : stream(delta("Hi"), END))
  await assert.rejects(request(bridge), /ECONNREFUSED/)
  assert.equal((await request(bridge)).status, 200)
  assert.match(questions(bridge)[0].failure.message, /ECONNREFUSED/)
})

for (const [name, pieces, ending] of [
  ["an error object", [line({ error: { message: "Overloaded" } })], "refused"],
  ["a proper end with nothing in it", [line({ choices: [{ delta: { role: "assistant" } }] }), END], "empty"],
  ["no end and nothing in it", [line({ choices: [{ delta: { role: "assistant" } }] })], "cut"],
  ["an end split in the middle of a line", [END.slice(0, 20), END.slice(20)], "empty"],
  ["nothing but [DONE]", [line("[DONE]")], "cut"],
])
  test(`a stream of ${name} is a failure before the host has seen it`, async (t) => {
    const bridge = await watching(t, to("p", "second"))
    serve = (time) => (time === 1 ? stream(...pieces) : stream(delta("Hi"), END))
    assert.equal(await (await request(bridge)).text(), delta("Hi") + END)
    assert.equal(questions(bridge)[0].failure.ending, ending)
  })

test("a stream that is handed back after all is whole", async (t) => {
  const bridge = await watching(t, null)
  serve = () => stream(line({ choices: [] }), END)
  assert.equal(await (await request(bridge)).text(), line({ choices: [] }) + END)
})

test("an answer that breaks off ends as it did, unless it is to be shown as a failure", async (t) => {
  const bridge = await watching(t, { each: [null, { final: true }] })
  serve = () => stream(delta("Half an"))
  assert.equal(await (await request(bridge)).text(), delta("Half an"))
  await assert.rejects((await request(bridge)).text(), /The model failed/)
  assert.deepEqual(questions(bridge).map(({ failure, reachable }) => [failure.ending, reachable]), [["broken", {}], ["broken", {}]])
})

// A stream that flows, and then breaks off below HTTP.
const breaking = (...pieces) => {
  const body = new ReadableStream({
    pull(controller) {
      const piece = pieces.shift()
      if (piece) controller.enqueue(new TextEncoder().encode(piece))
      else controller.error(new TypeError("ECONNRESET"))
    },
  })
  return new Response(body, { headers: { "content-type": "text/event-stream" } })
}
const OVERLOADED = { error: { message: "Overloaded" } }

for (const [name, answer, told] of [
  ["a connection that breaks", () => breaking(delta("Half an")), { ending: "broken", message: "ECONNRESET" }],
  ["an error object", () => stream(delta("Half an"), line(OVERLOADED)), { ending: "broken", body: JSON.stringify(OVERLOADED) }],
  ["an error object in the piece that begins", () => stream(delta("Half an") + line(OVERLOADED)), { ending: "broken", body: JSON.stringify(OVERLOADED) }],
  ["an error object in two pieces", () => stream(delta("Half an"), line(OVERLOADED).slice(0, 9), line(OVERLOADED).slice(9)), { ending: "broken", body: JSON.stringify(OVERLOADED) }],
  ["an error object after which nothing ends", () => stream(delta("Half an"), line(OVERLOADED), new Promise(() => {})), { ending: "broken", body: JSON.stringify(OVERLOADED) }],
])
  test(`an answer that breaks off by ${name} is shown as a failure where it is final`, async (t) => {
    const bridge = await watching(t, { final: true })
    serve = answer
    await assert.rejects((await request(bridge)).text(), /The model failed/)
    assert.deepEqual(questions(bridge).map(({ failure }) => failure), [told])
  })

test("an answer that breaks off reaches the host as it came where it is not final, and is asked about once", async (t) => {
  const bridge = await watching(t, null)
  serve = () => breaking(delta("Half an"))
  await assert.rejects((await request(bridge)).text(), /ECONNRESET/)
  serve = () => stream(delta("Half an"), line(OVERLOADED))
  assert.equal(await (await request(bridge)).text(), delta("Half an") + line(OVERLOADED))
  assert.equal(questions(bridge).length, 2)
})

test("an answer that is whole when its connection breaks stands", async (t) => {
  const bridge = await watching(t, { final: true })
  serve = () => breaking(delta("All of it"), END)
  assert.equal(await (await request(bridge)).text(), delta("All of it") + END)
  assert.deepEqual(questions(bridge), [])
})

test("a request that is stopped while it is answered is not asked about", async (t) => {
  const bridge = await watching(t, { final: true })
  const stop = new AbortController()
  serve = () => breaking(delta("Half an"))
  const response = await request(bridge, { signal: stop.signal })
  stop.abort()
  await assert.rejects(response.text(), /ECONNRESET/)
  assert.deepEqual(questions(bridge), [])
})

const LONG = "x".repeat(20_000) // as long as what a provider repeats of the request at the end
for (const [npm, pieces] of [
  ["@ai-sdk/openai-compatible", [line({ choices: [{ delta: { content: "All" }, finish_reason: "stop" }] })]],
  ["@ai-sdk/openai", [line({ type: "response.output_text.delta", delta: "All" }), line({ type: "response.completed", response: { instructions: LONG } })]],
  ["@ai-sdk/anthropic", [line({ type: "content_block_delta" }), line({ type: "message_delta", delta: { stop_reason: "end_turn" } })]],
  ["@ai-sdk/google", [line({ candidates: [{ content: { parts: [{ text: "All" }] }, finishReason: "STOP" }] })]],
])
  test(`the end of a whole answer is known: ${npm}`, async (t) => {
    const bridge = await watching(t, { final: true })
    serve = () => stream(...pieces)
    assert.equal(await (await request(bridge, { npm })).text(), pieces.join(""))
    assert.deepEqual(questions(bridge), [])
  })

const RATE_LIMITED = { ending: "refused", status: 429, body: "{}" }
for (const [name, answers, lastRequest] of [
  ["another model that was asked", to("q", "third"), { model: to("q", "third").model }],
  ["the one that failed for good", { each: [to("q", "third"), { final: true }] }, { model: to("q", "third").model, failure: RATE_LIMITED }],
  ["nobody where the prompt's own model was asked", null, undefined],
])
  test(`whoever waits for a prompt is told of its last request: ${name}`, async (t) => {
    const turn = resolvers()
    const sent = resolvers()
    const session = { prompt: () => (sent.resolve(), turn.promise) }
    const calls = [{ call: "session.prompt", arguments: { sessionID: "ses_1", body: { messageID: "msg_1" } } }]
    const bridge = await watching(t, answers, { readyOn: "start", calls }, { host: { ...client, session } })
    await sent.promise
    serve = (time) => (time === 1 || answers?.each ? refused(429, "{}") : stream(delta("Hi"), END))
    await request(bridge)
    turn.resolve({ data: null, response: { status: 200 } })
    const { result } = await bridge.received.until((entry) => entry.id === "call-0")
    if (result.lastRequest?.failure) delete result.lastRequest.failure.headers
    assert.deepEqual(result.lastRequest, lastRequest)
  })

function resolvers() {
  const held = {}
  held.promise = new Promise((resolve) => (held.resolve = resolve))
  return held
}

test("after the person's stop nothing is asked and nothing is sent", async (t) => {
  const bridge = await watching(t, to("p", "second"))
  const stop = new AbortController()
  serve = async () => {
    stop.abort()
    return refused(429)
  }
  assert.equal((await request(bridge, { signal: stop.signal })).status, 429)
  assert.deepEqual([asked.length, questions(bridge)], [1, []])
})

test("a stop while Python decides is final as well", async (t) => {
  const bridge = await watching(t, "silence")
  const stop = new AbortController()
  serve = () => refused(429)
  const pending = request(bridge, { signal: stop.signal })
  await bridge.got("hook/model.request")
  stop.abort()
  assert.equal((await pending).status, 429)
  assert.equal(asked.length, 1)
})

test("a silent model is left when Python says so, and only that agent's", async (t) => {
  const calls = [{ call: "model.giveUp", arguments: { sessionID: "ses_1", agent: "title", flowing: true } }]
  const bridge = await watching(t, to("p", "second"), { readyOn: "start", calls })
  const { result } = await bridge.received.until((entry) => entry.id === "call-0")
  assert.equal(result.status, 404)
})

test("a request with a variant, or with signed thoughts, reaches no other model", async (t) => {
  const bridge = await watching(t, null)
  serve = () => refused(429)
  await request(bridge, { message: { id: "msg_1", model: { variant: "high" } } })
  await request(bridge, { body: { messages: [{ role: "assistant", reasoning_content: "Hm." }] } })
  assert.deepEqual(questions(bridge).map(({ reachable }) => reachable), [{}, {}])
})

test("a host that does not name its providers has every request handed back", async (t) => {
  const broken = { config: { providers: async () => Promise.reject(new Error("not now")) } }
  const bridge = await watching(t, null, {}, { host: broken })
  serve = () => refused(429)
  assert.equal((await request(bridge)).status, 429)
  assert.deepEqual(questions(bridge)[0].reachable, {})
})

// A provider that the host lists from the second time on; each time is answered when `next` is called.
function connectedLater() {
  const late = { id: "late", options: { baseURL: "http://late/v1", apiKey: "key-of-late" }, models: { m: model("m") } }
  const held = []
  let times = 0
  const providers = () => {
    times += 1
    if (times === 1) return client.config.providers()
    return new Promise((resolve, reject) => held.push({ resolve, reject }))
  }
  const next = async (fails) => {
    if (fails) held.shift().reject(new Error("not now"))
    else held.shift().resolve({ data: { providers: [late] } })
    await new Promise(setImmediate)
  }
  return { host: { ...client, config: { providers } }, next, times: () => times }
}
const LATE = { model: { ...model("m"), providerID: "late" } }
const EARLY = { p: ["first", "second"], q: ["third"] }

test("a provider that was connected later is asked for once, and no request waits for that", async (t) => {
  const { host, next, times } = connectedLater()
  const bridge = await watching(t, null, {}, { host })
  serve = () => refused(429)
  await request(bridge)
  assert.equal(times(), 1)
  await request(bridge, LATE)
  await request(bridge, LATE)
  assert.equal(times(), 2)
  await next()
  await request(bridge, LATE)
  assert.equal(times(), 2)
  // A provider that is no longer listed stays: a request may be on its way to it.
  assert.deepEqual(questions(bridge).map(({ reachable }) => reachable), [EARLY, EARLY, EARLY, { ...EARLY, late: ["m"] }])
})

test("a list of providers that cannot be had again changes nothing, and is asked for with the next request", async (t) => {
  const { host, next, times } = connectedLater()
  const bridge = await watching(t, null, {}, { host })
  serve = () => refused(429)
  await request(bridge, LATE)
  await next("fails")
  await request(bridge, LATE)
  assert.equal(times(), 3)
  assert.deepEqual(questions(bridge).map(({ reachable }) => reachable), [EARLY, EARLY])
})

test("a body of another shape is sent as it is, and to nobody else", async (t) => {
  const bridge = await watching(t, null)
  serve = () => refused(429)
  await request(bridge, { body: { messages: 7 } })
  assert.deepEqual(questions(bridge)[0].reachable, {})
})

for (const [switching, about, is] of [
  ["auto", {}, "left alone"],
  ["auto", { parent: "ses_0" }, "asked about"],
  ["auto", { agent: "title" }, "asked about"],
  ["auto", { agent: "compaction" }, "asked about"],
  ["replay", { parent: "ses_0" }, "left alone"],
  ["inline", {}, "asked about"],
])
  test(`with "${switching}" a request of ${JSON.stringify(about)} that fails is ${is}`, async (t) => {
    const bridge = await watching(t, null, { switching })
    serve = () => refused(429)
    assert.equal((await request(bridge, about)).status, 429)
    assert.equal(questions(bridge).length, is === "asked about" ? 1 : 0)
    assert.equal("x-fallback-plugin" in asked[0].headers, false)
  })

test("an SDK that was not measured is not watched", async (t) => {
  const bridge = await watching(t, to("p", "second"))
  const output = { headers: {} }
  await bridge.hooks["chat.headers"]({ sessionID: "ses_1", model: model("m", "@ai-sdk/amazon-bedrock"), message: {} }, output)
  assert.deepEqual(output.headers, {})
})

test("without a plugin that answers, nothing is watched", async (t) => {
  const bridge = await watching(t, null, { questions: ["chat.message"] })
  const output = { headers: {} }
  await bridge.hooks["chat.headers"]({ sessionID: "ses_1", model: model("first"), message: {} }, output)
  assert.deepEqual(output.headers, {})
})

const SEEN = {
  "@ai-sdk/anthropic": {
    url: "http://p/v1/messages",
    nothing: line({ type: "message_start" }) + line({ type: "content_block_start", content_block: { type: "text" } }),
    thoughts: { messages: [{ content: [{ type: "thinking", signature: "s" }] }] },
    error: line({ type: "error", error: { type: "overloaded_error" } }),
    content: line({ type: "content_block_delta", delta: { text: "Hi" } }),
    end: line({ type: "message_stop" }),
  },
  "@ai-sdk/openai": {
    nothing: line({ type: "response.created" }) + line({ type: "response.output_item.added", item: { type: "message" } }),
    thoughts: { input: [{ type: "reasoning" }] },
    error: line({ type: "response.failed" }),
    content: line({ type: "response.output_text.delta", delta: "Hi" }),
    end: line({ type: "response.completed" }),
  },
  "@ai-sdk/google": {
    nothing: line({ candidates: [{ content: { parts: [{ text: "" }] } }] }),
    thoughts: { contents: [{ parts: [{ thoughtSignature: "s" }] }] },
    error: line({ error: { code: 503 } }),
    content: line({ candidates: [{ content: { parts: [{ text: "Hi" }] } }] }),
    end: line({ candidates: [{ finishReason: "STOP" }] }),
  },
}

for (const [npm, { nothing, thoughts, error, content, end }] of Object.entries(SEEN))
  test(`the streams of ${npm} are understood`, async (t) => {
    const bridge = await watching(t, null)
    const streams = [nothing + error, nothing + end, nothing, nothing + content + end, content, nothing]
    for (const [at, text] of streams.entries()) {
      serve = () => stream(text)
      assert.equal(await (await request(bridge, { npm, body: at === 5 ? thoughts : {} })).text(), text)
    }
    assert.deepEqual(questions(bridge).map(({ failure }) => failure.ending), ["refused", "empty", "cut", "broken", "cut"])
    assert.deepEqual(questions(bridge).at(-1).reachable, {})
  })

// A bridge that has opened the channel for questions that are waited for on the spot.
const onTheSpot = (t, answers, { plan = {}, numbers } = {}) => watching(t, answers, { syncChannel: true, ...plan }, { numbers })

// Nothing may be under way on the usual pipe, which stands still meanwhile.
const STANDS_STILL = { numbers: { onTheSpot: 60_000 }, plan: { handsNothingBack: true } }

// A refusal whose reading takes no turn of the host's loop, and whether there was one since.
function refusedWith(body) {
  const seen = { turn: false }
  const text = async () => {
    setImmediate(() => (seen.turn = true))
    return body
  }
  return [seen, { ok: false, status: 429, headers: new Headers(), text }]
}

test("an answer is waited for on the spot: the host comes to nothing else before it", async (t) => {
  const bridge = await onTheSpot(t, to("q", "third"), STANDS_STILL)
  const [seen, failure] = refusedWith("no")
  serve = (time) => (time === 1 ? failure : stream(delta(seen.turn ? "Late" : "Hi"), END))
  assert.equal(await (await request(bridge)).text(), delta("Hi") + END)
  await bridge.got("hook/model.request")
})

test("the answer to a prompt's question is waited for on the spot as well", async (t) => {
  const bridge = await onTheSpot(t, null, STANDS_STILL)
  let turned = false
  setImmediate(() => (turned = true))
  await bridge.hooks["chat.message"](...prompt())
  assert.equal(turned, false)
  await bridge.got("hook/chat.message")
})

test("a question says what was written before it, since it may overtake that", async (t) => {
  const bridge = await onTheSpot(t, null, { plan: { events: ["session.idle"], deafAfter: "hook/chat.message" } })
  serve = () => refused(429)
  await bridge.event("session.idle", { sessionID: "ses_1" })
  await request(bridge)
  await bridge.got("hook/model.request")
  const [event, question] = bridge.received.entries.slice(-2)
  assert.deepEqual([event.params.event?.type, question.method], ["session.idle", "hook/model.request"])
})

test("an answer that takes longer is taken when it comes", async (t) => {
  const bridge = await onTheSpot(t, to("q", "third"), { numbers: { onTheSpot: -1 } })
  serve = (time) => (time === 1 ? refused(429) : stream(delta("Hi"), END))
  assert.equal(await (await request(bridge)).text(), delta("Hi") + END)
})

test("without an answer the host waits no longer than for any other", async (t) => {
  const bridge = await onTheSpot(t, "silence", { numbers: { nextModel: 30 } })
  serve = () => refused(429)
  assert.equal((await request(bridge)).status, 429)
})

test("a child that dies instead of answering is not waited for", async (t) => {
  const bridge = await onTheSpot(t, null, { plan: { dieOn: "hook/model.request" }, numbers: { nextModel: 3_600_000, onTheSpot: -1 } })
  serve = () => refused(429)
  assert.equal((await request(bridge)).status, 429)
})

test("a question that is too long for it goes the usual way, and the next one is short again", async (t) => {
  const bridge = await onTheSpot(t, to("q", "third"), STANDS_STILL)
  const [first, long] = refusedWith("x".repeat(64 * 1024))
  const [second, short] = refusedWith("no")
  const served = [long, stream(delta("Hi"), END), short, stream(delta("Ho"), END)]
  serve = (time) => served[time - 1]
  assert.equal(await (await request(bridge)).text(), delta("Hi") + END)
  assert.equal(first.turn, true)
  serve = (time) => (time === 4 && second.turn ? stream(delta("Late"), END) : served[time - 1])
  assert.equal(await (await request(bridge, { message: { id: "msg_2" } })).text(), delta("Ho") + END)
})

test("a channel that is not there changes nothing", async (t) => {
  const bridge = await watching(t, to("q", "third"), { syncChannelAt: "/no/such/folder" })
  serve = (time) => (time === 1 ? refused(429) : stream(delta("Hi"), END))
  assert.equal(await (await request(bridge)).text(), delta("Hi") + END)
})
