// `opencode run` has no screen: what a toast would say is one line on standard error, at once.

import assert from "node:assert/strict"
import test from "node:test"

import { start } from "./bridge-under-test.mjs"

test("P19: in a run a note is one line on standard error, and no toast", async (t) => {
  const { argv } = process
  const { write } = process.stderr
  const written = []
  process.argv = [...argv.slice(0, 2), "run", "Who answers?"]
  process.stderr.write = (text) => written.push(text)
  t.after(() => {
    process.argv = argv
    process.stderr.write = write
  })
  const body = { title: "Model fallback", message: "Now on q/b.\n  p/a: rate limited.\n", variant: "success", duration: 5000 }
  const { hooks, received, toasts } = await start({ calls: [{ call: "tui.showToast", arguments: { body } }] })
  t.after(hooks.dispose)
  const { result } = await received.until((line) => line.id === "call-0")
  assert.equal(result.status, 202)
  assert.deepEqual(written, ["Model fallback: Now on q/b. p/a: rate limited.\n"])
  assert.deepEqual(toasts.entries, [])
})
