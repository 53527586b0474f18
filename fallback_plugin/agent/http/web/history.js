// What a page may ask of a session's history, in any order and at any time.
// The twin of fallback_plugin/history/pager.py; tests/vectors/history.json drives both.
//
// One operation is under way at a time, and belongs to an epoch. What replaces the window begins a new epoch at once,
// before anything is awaited, and an answer counts only in the epoch of its question.

import * as windows from "./history-window.js"

/**
 * A window on one session's messages, changed by pages, jumps and events, and by each as a whole.
 *
 * Operations return a promise of what came of them:
 *   "applied"   the window has what was asked for
 *   "replaced"  that no longer fitted, and the window was loaded anew
 *   "refused"   there was nothing to do, or something else is under way
 *   "dropped"   the answer came too late
 *   "failed"    there was none; `error` says why
 *
 * `fetch({ sessionID, limit, order, before, after }, signal)` asks the server and returns a promise of
 * `{ items, nextBefore, nextAfter, revision }`, items oldest first: the last ones before `before` ("desc"), or the first
 * ones after `after` ("asc"). A cursor stands between two messages; what comes before it and what comes after it are
 * the whole session. It may reject, never settle, or answer although it was aborted.
 */
export class HistoryPager {
  #fetch
  #pageRows
  #windowRows
  #changed
  #window
  #bound
  #isCurrent = false
  #operation = null
  #epoch = 0
  #error = null

  constructor(fetch, sessionID = null, { pageRows = 50, windowRows = 400, changed = () => {} } = {}) {
    if (pageRows < 1 || windowRows < 2 * pageRows)
      throw new RangeError(`windowRows ${windowRows} should be at least twice pageRows ${pageRows}, and that at least 1`)
    this.#fetch = fetch
    this.#pageRows = pageRows
    this.#windowRows = windowRows
    this.#changed = changed // called after each change, when the window is whole again
    this.#window = { ...windows.EMPTY, sessionID }
    this.#bound = windowRows
  }

  get sessionID() {
    return this.#window.sessionID
  }

  get window() {
    return this.#window
  }

  get messages() {
    return this.#window.messages
  }

  /** Whether the window was loaded, and no event was missed since. */
  get isCurrent() {
    return this.#isCurrent
  }

  /** How often the window was to be replaced, or a request was given up. */
  get epoch() {
    return this.#epoch
  }

  /** The operation that waits for the server. */
  get underWay() {
    return this.#operation?.kind ?? null
  }

  /** Why the last operation failed; null once another has begun. */
  get error() {
    return this.#error
  }

  /** Show the newest messages of a session, and nothing until they are there. */
  open(sessionID, { revertedTo = null } = {}) {
    this.#window = { ...windows.EMPTY, sessionID, revertedTo }
    this.#isCurrent = false
    return this.#replace("open", windows.latestPage(this.#window, this.#pageRows))
  }

  /** Show no session. */
  close() {
    this.#beginEpoch()
    this.#window = windows.EMPTY
    this.#isCurrent = false
    this.#changed()
  }

  /** Give up what is under way, for instance because it takes too long. */
  cancel() {
    if (this.#operation === null) return
    this.#beginEpoch()
    this.#changed()
  }

  /** Load again what is held: as many messages, the newest or those from the same old end on. */
  reload() {
    const limit = Math.max(this.#pageRows, Math.min(this.messages.length, this.#bound))
    return this.#replace("reload", windows.samePage(this.#window, limit))
  }

  /** Put the page before the window in front of it. */
  loadOlder() {
    return this.#extend("loadOlder", windows.olderPage(this.#window, this.#pageRows))
  }

  /** Put the page after the window behind it. There is one once the window has left the newest end. */
  loadNewer() {
    return this.#extend("loadNewer", windows.newerPage(this.#window, this.#pageRows))
  }

  /** Show the session's first page. `loadNewer` goes on from there, `jumpToLatest` goes back. */
  jumpToStart() {
    return this.#jump("jumpToStart", windows.firstPage(this.#window, this.#pageRows), this.#window.older)
  }

  /** Show the session's last page. */
  jumpToLatest() {
    return this.#jump("jumpToLatest", windows.latestPage(this.#window, this.#pageRows), this.#window.newer)
  }

  /**
   * Load what is not held page by page, older messages first: an async iterator of the pages.
   *
   * It ends when the session is held, or `maxRows` messages, or the page was added with which this has loaded `maxBytes`
   * of JSON; `window.older` and `window.newer` tell which. It ends too when something replaces the window, and throws
   * if there was no page. A second one waits for the first and yields nothing.
   */
  ensureAll({ maxRows, maxBytes }) {
    const running = this.#operation
    if (running?.kind === "ensureAll") return nothingUntil(running.ended)
    this.#beginEpoch()
    return this.#allPages(this.#epoch, maxRows, maxBytes)
  }

  /** Wait until nothing is under way. */
  async idle() {
    while (this.#operation !== null) await this.#operation.ended
  }

  /** Take in an event of the host, `{ type, properties }`, of whichever session. */
  handle(event) {
    if (event.type === "server.events.lost") {
      this.#isCurrent = false
      this.reload()
    } else if (this.sessionID !== null && windows.sessionOf(event) === this.sessionID) {
      const continuedBy = event.properties.continuedBy
      if (event.type === "session.deleted") this.close()
      else if (event.type !== "session.compacted") this.#apply(event)
      else if (typeof continuedBy === "string") this.open(continuedBy)
      else this.reload()
    }
  }

  #apply(event) {
    this.#operation?.events.push(event)
    if (!this.#isCurrent) return
    const window = windows.applied(this.#window, event, this.#bound)
    if (window === this.#window) return
    this.#window = window
    this.#changed()
  }

  // Lets no answer count that was asked for before, and puts aside who waits for one.
  #beginEpoch() {
    this.#epoch += 1
    const operation = this.#operation
    this.#operation = null
    operation?.end()
  }

  #replace(kind, request) {
    if (request === null) return refused()
    this.#beginEpoch()
    return this.#begin(kind, request, false)
  }

  #jump(kind, request, end) {
    const running = this.#operation
    if (running?.kind === kind) return running.outcome
    if (running === null && this.#isCurrent && end === null) return refused()
    return this.#replace(kind, request)
  }

  #extend(kind, request) {
    if (this.#operation !== null) return refused()
    if (!this.#isCurrent) return this.reload()
    return request === null ? refused() : this.#begin(kind, request, true)
  }

  #begin(kind, request, isExtension) {
    const operation = this.#own(kind)
    operation.outcome = this.#carryOut(operation, request, isExtension)
    this.#changed()
    return operation.outcome
  }

  #own(kind) {
    this.#error = null
    this.#operation = new Operation(kind, this.#epoch)
    return this.#operation
  }

  #release(operation) {
    if (this.#operation !== operation) return
    this.#operation = null
    operation.end()
    this.#changed()
  }

  async #carryOut(operation, request, isExtension) {
    try {
      const page = await operation.answer(this.#fetch, request)
      const outcome = this.#take(operation, request, page, isExtension ? this.#bound : null)
      if (outcome !== "replaced") return outcome
      const anew = await this.reload()
      return anew === "applied" ? outcome : anew
    } catch (error) {
      return this.#failed(operation, error)
    } finally {
      this.#release(operation)
    }
  }

  async *#allPages(epoch, maxRows, maxBytes) {
    if (epoch !== this.#epoch) return
    if (this.#operation !== null) this.#beginEpoch()
    const operation = this.#own("ensureAll")
    const bound = Math.max(this.#bound, maxRows)
    let loadedBytes = 0
    this.#changed()
    try {
      let request
      while (loadedBytes < maxBytes && (request = this.#missingPage(maxRows)) !== null) {
        const page = await operation.answer(this.#fetch, request)
        const outcome = this.#take(operation, request, page, this.#isCurrent ? bound : null)
        if (outcome === "replaced") await this.reload()
        if (outcome !== "applied") return
        this.#bound = bound
        loadedBytes += sizeBytes(page)
        this.#changed()
        yield page
      }
    } catch (error) {
      if (this.#failed(operation, error) === "failed") throw error
    } finally {
      this.#release(operation)
    }
  }

  #missingPage(maxRows) {
    const window = this.#window
    if (!this.#isCurrent) return windows.samePage(window, Math.min(this.#pageRows, maxRows))
    const limit = Math.min(this.#pageRows, maxRows - window.messages.length)
    return limit < 1 ? null : (windows.olderPage(window, limit) ?? windows.newerPage(window, limit))
  }

  // Lays a page beside the window, or puts it in its place where no bound is given. What the host said since the page
  // was asked for is said to the page too. "replaced": it does not fit, and everything has to be loaded.
  #take(operation, request, page, bound) {
    if (operation.epoch !== this.#epoch || (bound !== null && !windows.isBeside(this.#window, request))) return "dropped"
    let window = windows.loaded(this.#window, request, page)
    const held = new Set(bound === null ? [] : this.messages.map(({ id }) => id))
    for (const event of operation.events)
      if (!held.has(windows.messageOf(event))) window = windows.applied(window, event, this.#windowRows)
    if (bound !== null) {
      window = windows.joined(this.#window, window, bound, request.before !== null)
      if (window === null) return "replaced"
    }
    this.#window = window
    this.#bound = bound ?? this.#windowRows
    this.#isCurrent = true
    return "applied"
  }

  #failed(operation, error) {
    if (operation.epoch !== this.#epoch) return "dropped"
    this.#error = error
    return "failed"
  }
}

// The owner of a pager: until it has ended or was put aside, no page is asked for but by it.
class Operation {
  events = [] // what the host said since the request was sent; whether the answer knows of it is not known
  outcome = null
  #abort = new AbortController()
  #resolve

  constructor(kind, epoch) {
    this.kind = kind
    this.epoch = epoch
    this.ended = new Promise((resolve) => (this.#resolve = resolve))
  }

  async answer(fetch, request) {
    this.events = []
    const page = await fetch(request, this.#abort.signal)
    if (!page) throw new Error("the server answered without messages: sign in again, or check its address")
    return page
  }

  end() {
    this.#abort.abort()
    this.#resolve()
  }
}

const refused = () => Promise.resolve("refused")

async function* nothingUntil(ended) {
  await ended
}

const sizeBytes = ({ items }) =>
  items.reduce((sum, item) => sum + new TextEncoder().encode(JSON.stringify(item)).length, 0)
