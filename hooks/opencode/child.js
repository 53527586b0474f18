// One run of the Python process: a pipe in, a pipe out, and the news of its end, told exactly once.

import { spawn } from "node:child_process"
import { tmpdir } from "node:os"

import { parsed } from "./json.js"
import { Lines } from "./lines.js"
import { SyncChannel } from "./sync-channel.js"
import { later, TIMES } from "./times.js"

// The installer writes the interpreter that holds the package into this line.
const INTERPRETER = null

// The ways to start it; the next one is for when the program of the first is gone.
export function childCommands() {
  const onPath = ["fallback-plugin", ["bridge"]]
  // -P: the folder OpenCode runs in must never be a place Python imports from. -c starts sooner than -m.
  const start = "from fallback_plugin.__main__ import main; main()"
  return INTERPRETER ? [[INTERPRETER, ["-P", "-c", start, "bridge"]], onPath] : [onPath]
}

export class Child {
  stderrTail = ""
  unsent = 0 // characters handed to the pipe that it has not taken; Bun's writableLength always says 0
  #process
  #onLine
  #sync = null
  #lines = 0 // written so far
  #ended = false

  constructor([program, args], { onMessage, onEnd }) {
    const end = (error) => {
      if (this.#ended) return
      this.#ended = true
      this.#sync?.close()
      onEnd(error)
    }
    this.#onLine = (line) => {
      const message = this.#ended ? null : parsed(line)
      if (message) onMessage(message)
    }
    try {
      this.#process = spawn(program, args, { cwd: tmpdir(), stdio: ["pipe", "pipe", "pipe"], windowsHide: true })
    } catch (error) {
      queueMicrotask(() => end(error))
      return
    }
    const { stdin, stdout, stderr } = this.#process
    const lines = new Lines()
    for (const stream of [stdin, stdout, stderr]) stream?.on("error", () => {})
    stdout?.on("data", (chunk) => {
      for (const line of lines.feed(chunk)) this.#onLine(line)
    })
    stderr?.on("data", (chunk) => {
      this.stderrTail = (this.stderrTail + chunk).slice(-1000)
    })
    this.#process.on("error", end)
    // What it wrote last may still be in the pipe when it exits; the pipe may outlive it if somebody inherited it.
    this.#process.on("close", () => end(null))
    this.#process.on("exit", () => later(TIMES.lastWords, () => end(null)))
    for (const holder of [this.#process, stdin, stdout, stderr]) holder?.unref?.()
  }

  write(line) {
    const stdin = this.#process?.stdin
    if (this.#ended || !stdin?.writable) return
    this.#lines += 1
    this.unsent += line.length
    stdin.write(line, () => {
      this.unsent -= line.length
    })
  }

  openSyncChannel(folder) {
    try {
      this.#sync ??= new SyncChannel(folder)
    } catch {
      // every question goes the usual way then
    }
  }

  // What a question that may overtake it has to name; undefined where none can be asked on the spot.
  get linesBefore() {
    return this.#sync ? this.#lines : undefined
  }

  // Write a question, and wait for its answer on the spot where that is possible.
  writeAndWait(line, isAnswered) {
    if (this.#ended || !this.#sync?.send(line)) return this.write(line)
    this.#flush()
    this.#sync.receive(this.#onLine, isAnswered)
  }

  // Bun 1.3 keeps what is written until the host's loop turns, which it does not while an answer is waited for;
  // of all that its stream hides, only the sink below it can be flushed. Node.js writes at once.
  #flush() {
    const { stdin } = this.#process
    const hidden = Object.getOwnPropertySymbols(stdin).map((name) => stdin[name])
    try {
      Promise.resolve(hidden.find((each) => typeof each?.flush === "function")?.flush()).catch(() => {})
    } catch {
      // then the answer comes with the loop's next turn
    }
  }

  // Ask it to leave by closing its input; make it leave after a grace.
  stop(grace = TIMES.grace) {
    const process = this.#process
    process?.stdin?.end()
    if (grace === 0) process?.kill("SIGKILL")
    else later(grace, () => this.#ended || process?.kill("SIGKILL"))
  }
}
