#!/usr/bin/env node
// Stands in for `fallback-plugin bridge`. The environment variable FAKE_CHILD says how it behaves; every line
// it receives it hands back through the call session.get, so that a test sees it without looking at a file.

import { execFileSync } from "node:child_process"
import { constants, mkdtempSync, openSync, writeSync } from "node:fs"
import { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

const plan = JSON.parse(process.env.FAKE_CHILD ?? "{}")
const { protocol = 1, events = [], questions = [], sampled = {}, answers = {}, switching, readyOn = "start", dieOn = null, calls = [] } = plan
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
const subscribe = () => {
  send({ method: "subscribe", params: { events, questions, sampled, switching } })
  if (plan.syncChannel) offerSyncChannel()
  if (plan.syncChannelAt) send({ method: "syncChannel", params: { folder: plan.syncChannelAt } })
  calls.forEach((params, index) => send({ id: `call-${index}`, method: "host/call", params }))
}

// The channel for questions that are waited for on the spot. They are taken after what was written before them.
function offerSyncChannel() {
  const folder = mkdtempSync(join(tmpdir(), "sync-"))
  const pipes = ["questions", "answers"].map((name) => join(folder, name))
  execFileSync("mkfifo", pipes)
  const [questions, replies] = pipes.map((pipe) => openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK))
  // A socket, since a file's read in the thread pool would hold up this process's end.
  createInterface({ input: new Socket({ fd: questions, readable: true, writable: false }) }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line)
    process.stdin.resume()
    onceTaken(params.after, () => {
      handBack(line)
      if (method === dieOn) process.exit(1)
      if (answers[method] !== "silence") writeSync(replies, `${JSON.stringify({ jsonrpc: "2.0", id, result: next(answers[method]) })}\n`)
    })
  })
  send({ method: "syncChannel", params: { folder } })
}

let taken = 0 // lines of the usual pipe
let waiting = null
function onceTaken(lines, action) {
  waiting = () => {
    if (taken < lines) return
    waiting = null
    action()
  }
  waiting()
}

const handBack = (line) => send({ id: `seen-${seen++}`, method: "host/call", params: { call: "session.get", arguments: { sessionID: line } } })

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
      waiting?.()
      taken += 1
      setImmediate(() => waiting?.()) // if no other follows
      if (String(message.id).startsWith("seen-")) return
      if (!plan.handsNothingBack) handBack(line)
      if (message.method === undefined) return
      if (message.method === plan.callOn?.method) send({ id: "call-on", method: "host/call", params: plan.callOn.params })
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
