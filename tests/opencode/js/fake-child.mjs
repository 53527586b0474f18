#!/usr/bin/env node
// Stands in for `fallback-plugin bridge`. The environment variable FAKE_CHILD says how it behaves; every line
// it receives it hands back through the call session.get, so that a test sees it without looking at a file.

import { createInterface } from "node:readline"

const plan = JSON.parse(process.env.FAKE_CHILD ?? "{}")
const { protocol = 1, events = [], questions = [], sampled = {}, answers = {}, switching, readyOn = "start", dieOn = null, calls = [] } = plan
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
const subscribe = () => {
  send({ method: "subscribe", params: { events, questions, sampled, switching } })
  calls.forEach((params, index) => send({ id: `call-${index}`, method: "host/call", params }))
}

// An answer for each time, `{ each: [first, second] }`, or one for all.
const next = (answer) => (Array.isArray(answer?.each) ? (answer.each.shift() ?? null) : answer)

let seen = 0
if (plan.refusesWith) {
  send({ id: 1, error: { code: -32602, message: plan.refusesWith } })
  process.exitCode = 2
} else if (plan.diesAtOnce) {
  process.stderr.write("no such module\n")
  process.exit(1)
} else {
  if (plan.noise) process.stdout.write('not json\n[1]\n{"half":\n\n')
  createInterface({ input: process.stdin })
    .on("line", (line) => {
      const message = JSON.parse(line)
      send({
        id: `seen-${seen++}`,
        method: "host/call",
        params: { call: "session.get", arguments: { sessionID: line } },
      })
      if (message.method === undefined) return
      if (plan.deafAfter === message.method) process.stdin.pause()
      if (message.method === "initialize") {
        const server = { name: "fallback-plugin", version: "0" }
        send({ id: message.id, result: { protocolVersion: protocol, server } })
        if (readyOn === "start") subscribe()
      }
      if (message.method === readyOn) subscribe()
      if (message.method === dieOn || message.params?.event?.type === dieOn) process.exit(1)
      if (message.method in answers && answers[message.method] !== "silence")
        send({ id: message.id, result: next(answers[message.method]) })
    })
    .on("close", () => process.exit(0))
}
