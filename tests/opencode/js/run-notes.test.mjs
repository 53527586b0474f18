// `opencode run` has no screen: what a toast would say is one line on standard error, at once.

import assert from "node:assert/strict"
import test from "node:test"

import { start } from "./bridge-under-test.mjs"

async function printed(t, body) {
  const { argv } = process
  const { write } = process.stderr
  const written = []
  process.argv = [...argv.slice(0, 2), "run", "Who answers?"]
  process.stderr.write = (text) => written.push(text)
  t.after(() => {
    process.argv = argv
    process.stderr.write = write
  })
  const { hooks, received, toasts } = await start({ calls: [{ call: "tui.showToast", arguments: { body } }] })
  t.after(hooks.dispose)
  const { result } = await received.until((line) => line.id === "call-0")
  assert.equal(result.status, 202)
  assert.deepEqual(toasts.entries, [])
  return written
}

test("P19: in a run a note is one line on standard error, and no toast", async (t) => {
  const body = { title: "Model fallback", message: "Now on q/b.\n  p/a: rate limited.\n", variant: "success", duration: 5000 }
  assert.deepEqual(await printed(t, body), ["Model fallback: Now on q/b. p/a: rate limited.\n"])
})

test("P19: what stood on lines of its own is told apart on one line", async (t) => {
  const message = "a.toml:1:2: names are separated by commas\na.toml:3:1: unknown key; known here: a\nDefaults are used."
  const body = { title: "Settings", message, variant: "error", duration: 5000 }
  assert.deepEqual(await printed(t, body), [
    "Settings: a.toml:1:2: names are separated by commas. a.toml:3:1: unknown key; known here: a. Defaults are used.\n",
  ])
})
