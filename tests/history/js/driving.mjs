// Runs the steps of a vector or a schedule against the page's pager; ../driving.py is its twin and says what they mean.
// It runs under node and in a browser, which load the page's modules and compare what was found each in its own way.

const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase())
const snake = (name) => name && name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

export class Driver {
  requests = []
  answers = []
  aborted = []
  outcomes = []
  painted = []
  idle = 0

  /** `compare(found, expected, name)` is called with each thing that a step says is true. */
  constructor({ HistoryPager, visible }, options, compare) {
    const { session = null, page_rows = 10, window_rows = 40, cursors = "items", obeys_aborts = false } = options
    this.visible = visible
    this.compare = compare
    this.isObedient = obeys_aborts
    this.hasCursors = cursors === "items"
    this.pager = new HistoryPager((request, signal) => this.fetch(request, signal), session, {
      pageRows: page_rows,
      windowRows: window_rows,
      changed: () => this.paint(),
    })
  }

  async step(step) {
    for (const one of step.together ?? [step]) {
      this.do(one)
      this.check(one.at_once ?? {})
    }
    await settle()
    this.check(step.then ?? {})
  }

  state() {
    const { pager } = this
    const { window } = pager
    return {
      session: pager.sessionID,
      window: compact(pager.messages.map(({ id }) => id)),
      visible: compact(this.visible(window).map(({ id }) => id)),
      older: window.older,
      newer: window.newer,
      revision: window.revision,
      epoch: pager.epoch,
      under_way: snake(pager.underWay),
      current: pager.isCurrent,
      error: pager.error !== null,
      requests: this.requests.map(spelled),
      aborted: this.aborted,
      outcomes: this.outcomes,
      painted: this.painted,
      idle: this.idle,
      text: Object.fromEntries(pager.messages.flatMap(({ parts }) => parts.map(({ id, text = "" }) => [id, text]))),
      info: Object.fromEntries(pager.messages.map(({ id, info }) => [id, info])),
    }
  }

  check(expected) {
    const state = this.state()
    for (const [name, value] of Object.entries(expected)) {
      const isPartial = value !== null && typeof value === "object" && !Array.isArray(value)
      const found = isPartial
        ? Object.fromEntries(Object.keys(value).map((key) => [key, state[name][key] ?? null]))
        : state[name]
      this.compare(found, value, name)
    }
  }

  do(step) {
    const { pager } = this
    if (step.call === "cancel" || step.call === "close") pager[step.call]()
    else if (step.call === "idle") void pager.idle().then(() => this.idle++)
    else if (step.call === "ensure_all") {
      const { max_rows = 1000, max_bytes = 1e9 } = step.limits ?? {}
      this.note(takeAll(pager.ensureAll({ maxRows: max_rows, maxBytes: max_bytes }), step.leave_after))
    } else if (step.call) this.note(pager[camel(step.call)](...(step.args ?? [])))
    else if (step.event) pager.handle(step.event)
    else if (step.updated) pager.handle(this.messageUpdated(step.updated))
    else if (step.removed) {
      const properties = { sessionID: sessionOf(step.removed), messageID: step.removed }
      pager.handle({ type: "message.removed", properties })
    } else if (step.part) {
      const part = textPart(step.part, step.text)
      pager.handle({ type: "message.part.updated", properties: { sessionID: part.sessionID, part } })
    } else if (step.delta) pager.handle(delta(step.delta, step.text, step.end))
    else this.answer(step)
  }

  answer(step) {
    if ("fail" in step) this.answers[step.fail].reject(new Error(step.error ?? "500"))
    else if ("no_data" in step) this.answers[step.no_data].resolve(null)
    else if ("reply" in step) this.answers[step.reply].resolve(this.page(step))
    else throw new Error(`no such step: ${JSON.stringify(step)}`)
  }

  page(step) {
    const raw = step.page ?? { ...step, items: spread(step.items).map((one) => this.item(one)) }
    const { items, next_before = null, next_after = null, revision = 0 } = raw
    return { items, nextBefore: next_before, nextAfter: next_after, revision }
  }

  item(one) {
    if (typeof one !== "string") return { ...this.item(one.id), parts: [textPart(one.id, one.text)] }
    return { info: { id: one, sessionID: sessionOf(one) }, parts: [], ...this.place(one) }
  }

  messageUpdated(id) {
    const sessionID = sessionOf(id)
    const info = { id, sessionID, new: true }
    return { type: "message.updated", properties: { sessionID, info, ...this.place(id) } }
  }

  place(id) {
    return this.hasCursors ? { position: Number(id.slice(1)), cursor: id } : {}
  }

  fetch(request, signal) {
    const number = this.requests.push(request) - 1
    return new Promise((resolve, reject) => {
      this.answers.push({ resolve, reject })
      signal.addEventListener("abort", () => {
        if (this.isAnswered(number)) return
        this.aborted.push(number)
        if (this.isObedient) reject(signal.reason)
      })
    }).finally(() => (this.answers[number].isDone = true))
  }

  isAnswered(number) {
    return this.answers[number].isDone === true
  }

  note(outcome) {
    const number = this.outcomes.push(null) - 1
    outcome.then((found) => (this.outcomes[number] = found))
  }

  paint() {
    const window = compact(this.pager.messages.map(({ id }) => id))
    if (this.painted.at(-1) !== window) this.painted.push(window)
  }
}

// One turn of the event loop, in which all promises there are have been settled.
const settle = () => new Promise(globalThis.setImmediate ?? setTimeout)

async function takeAll(pages, leaveAfter) {
  let taken = 0
  await null // as in Python, where nothing is taken before the caller has gone on
  try {
    for await (const _ of pages) if (++taken === leaveAfter) break
  } catch {
    return `${taken} pages, failed`
  }
  return `${taken} pages`
}

const sessionOf = (id) => id[0].toUpperCase()

const textPart = (id, text) => ({ id: `${id}/p`, messageID: id, sessionID: sessionOf(id), type: "text", text })

function delta(id, text, end) {
  const properties = { sessionID: sessionOf(id), messageID: id, partID: `${id}/p`, field: "text", delta: text }
  return { type: "message.part.delta", properties: end === undefined ? properties : { ...properties, end } }
}

function spelled({ sessionID, limit, order, before, after }) {
  const end = order === "desc" ? "last" : "first"
  return `${sessionID} ${end} ${limit}${before === null ? "" : ` before ${before}`}${after === null ? "" : ` after ${after}`}`
}

function spread(items) {
  if (typeof items !== "string") return items.flatMap((item) => (typeof item === "string" ? spread(item) : [item]))
  return items.split(",").filter(Boolean).flatMap((piece) => {
    const [first, last = first] = piece.split("-")
    const [from, to] = [first, last].map((id) => Number(id.slice(1)))
    return Array.from({ length: to - from + 1 }, (_, index) => `${first[0]}${from + index}`)
  })
}

function compact(ids) {
  const runs = []
  for (const id of ids) {
    const run = runs.at(-1)
    if (run && next(run.at(-1)) === id) run.splice(1, 1, id)
    else runs.push([id])
  }
  return runs.map((run) => run.join("-")).join(",")
}

const next = (id) => id.replace(/\d+$/, (number) => String(Number(number) + 1))
