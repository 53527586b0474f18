// Loads a copy of the bridge file as it is installed, with a host around it that records.

import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { after } from "node:test"
import { fileURLToPath, pathToFileURL } from "node:url"

// The bridge keeps no process alive; the test has to.
const alive = setInterval(() => {}, 60_000)
const folders = []
after(() => {
  clearInterval(alive)
  for (const folder of folders) rmSync(folder, { recursive: true })
})

function newFolder(prefix) {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  folders.push(folder)
  return folder
}

const here = dirname(fileURLToPath(import.meta.url))
const source = process.env.BRIDGE_FILE
if (!source) throw new Error("BRIDGE_FILE names no installed bridge file; tests/opencode/test_bridge_javascript.py makes one")

function replaced(text, pattern, replacement) {
  if (!pattern.test(text)) throw new Error(`the bridge file has no ${pattern}`)
  return text.replace(pattern, replacement)
}

function installed(interpreter, numbers) {
  const folder = newFolder("bridge-")
  const child = join(folder, "fake-child.mjs")
  copyFileSync(join(here, "fake-child.mjs"), child)
  chmodSync(child, 0o755)
  let text = readFileSync(source, "utf8")
  text = replaced(text, /^const INTERPRETER = .*$/m, `const INTERPRETER = ${JSON.stringify(interpreter ?? child)}`)
  for (const [name, value] of Object.entries(numbers)) text = replaced(text, new RegExp(`^  ${name}: [^,]+,`, "m"), `  ${name}: ${value},`)
  const file = join(folder, "fallback-plugin.mjs")
  writeFileSync(file, text)
  return pathToFileURL(file).href
}

// A list that can be waited on: `until` resolves with the first entry, from the beginning, that fits.
export class Record {
  entries = []
  #waiting = []

  add(entry) {
    this.entries.push(entry)
    this.#waiting = this.#waiting.filter(({ fits, resolve }) => !(fits(entry) && (resolve(entry), true)))
  }

  until(fits) {
    const found = this.entries.find(fits)
    return found ? Promise.resolve(found) : new Promise((resolve) => this.#waiting.push({ fits, resolve }))
  }
}

// Start the bridge. `plan` is the fake child's; `numbers` replace times and limits of the bridge file.
export async function start(plan = {}, { interpreter, numbers = {}, client = {}, version = "1.18.33" } = {}) {
  process.env.FAKE_CHILD = JSON.stringify(plan)
  const received = new Record() // lines the child got
  const toasts = new Record()
  const host = {
    _client: { get: async () => ({ data: { version } }), ...client.raw },
    session: {
      get: async ({ path }) => {
        received.add(JSON.parse(path.id))
        return { data: null, response: { status: 200 } }
      },
      ...client.session,
    },
    config: client.config,
    provider: client.provider,
    tui: { showToast: async ({ body }) => toasts.add(body) },
  }
  const module = await import(installed(interpreter, numbers))
  const hooks = await module.default.server({ client: host, directory: "/project", worktree: "/project" })
  const event = (type, properties = {}) => hooks.event({ event: { type, properties } })
  const got = (method) => received.until((line) => line.method === method)
  const gotEvent = (type) => received.until((line) => line.params?.event?.type === type)
  return { module, hooks, event, received, toasts, got, gotEvent }
}

// What chat.message is called with.
export function prompt(model = "primary") {
  return [
    { sessionID: "ses_1", model: { providerID: "p", modelID: model } },
    { message: { id: "msg_1", agent: "build", model: { providerID: "p", modelID: model } }, parts: [] },
  ]
}

// A folder without any command on PATH, for the time of a test.
export function emptyPath(test) {
  const path = process.env.PATH
  process.env.PATH = newFolder("empty-")
  test.after(() => {
    process.env.PATH = path
  })
}
