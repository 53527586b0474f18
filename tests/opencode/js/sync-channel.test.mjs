// The channel by itself; how the bridge asks over it is in requests.test.mjs.

import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { closeSync, constants, mkdtempSync, openSync, writeSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { test } from "node:test"

import { SyncChannel } from "../../../hooks/opencode/sync-channel.js"

test("an answer that comes during a look that takes too long is taken on the spot", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "sync-"))
  const pipes = ["questions", "answers"].map((name) => join(folder, name))
  execFileSync("mkfifo", pipes)
  const ends = pipes.map((pipe) => openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK))
  const channel = new SyncChannel(folder)
  t.after(() => {
    channel.close()
    ends.forEach(closeSync)
  })
  let clock = 0
  t.mock.method(performance, "now", () => clock)
  const taken = []
  const isAnswered = () => {
    if (clock === 0) {
      clock = 60_000 // the host collects its garbage
      writeSync(ends[1], "the answer\n")
    }
    return taken.length > 0
  }
  channel.receive((line) => taken.push(line), isAnswered)
  assert.deepEqual(taken, ["the answer"])
})
