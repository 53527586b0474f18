// The contiguous slice of a session that a page holds: how pages are laid beside it, and what events change in it.
// The twin of fallback_plugin/history/window.py and events.py; tests/vectors/history.json drives both.
//
// Windows, messages and parts are never changed but replaced, so that what is the same object is unchanged.

export const EMPTY = Object.freeze({
  sessionID: null,
  messages: [], // oldest first: { id, info, parts, position, cursor }, the last two null where the server tells none
  older: null, // the cursor of the old end; null if nothing stands before it
  newer: null, // the cursor of the new end; null if nothing stands after it
  revision: 0,
  isLossTold: false, // whether events told of lost messages since the last page: they explain a higher revision
  lowest: null, // the position where the old end is, null where it is not known
  highest: null, // the position of the last message before `newer`, null where it is not known
  revertedTo: null, // the message from which on everything is hidden until the next prompt deletes it
})

/** The messages that no revert hides. */
export function visible({ messages, revertedTo, older, newer }) {
  if (revertedTo === null) return messages
  const index = messages.findIndex(({ id }) => id === revertedTo)
  if (index >= 0) return messages.slice(0, index)
  return newer === null && older !== null ? [] : messages
}

// Whether a message at a position belongs between the two ends. Without a position nobody can tell, and a message that
// is not held is taken for a new one.
function covers({ older, newer, lowest, highest }, position) {
  if (position === null) return newer === null
  const isAfterStart = older === null || lowest === null || position >= lowest
  const isBeforeEnd = newer === null || (highest !== null && position <= highest)
  return isAfterStart && isBeforeEnd
}

export const firstPage = (window, limit) => pageRequest(window, limit, { order: "asc" })
export const latestPage = (window, limit) => pageRequest(window, limit)

/** The request for what is held: the last messages, or those from the old end on. */
export const samePage = (window, limit) =>
  window.newer === null ? latestPage(window, limit) : pageRequest(window, limit, { order: "asc", after: window.older })

export const olderPage = (window, limit) =>
  window.older === null ? null : pageRequest(window, limit, { before: window.older })
export const newerPage = (window, limit) =>
  window.newer === null ? null : pageRequest(window, limit, { order: "asc", after: window.newer })

function pageRequest({ sessionID }, limit, { order = "desc", before = null, after = null } = {}) {
  return sessionID === null ? null : { sessionID, limit, order, before, after }
}

/** Whether a page that was asked for still belongs at one of the ends. */
export const isBeside = (window, { order, before, after }) =>
  order === "desc" ? before === window.older : after === window.newer

/** A page as a window of its own; throws if it is out of order, holds a message twice or leads to itself. */
export function loaded(window, request, { items, nextBefore = null, nextAfter = null, revision = 0 }) {
  const [older, newer] = request.order === "desc" ? [nextBefore, request.before] : [request.after, nextAfter]
  const used = request.before ?? request.after
  const messages = items.map(message)
  if (messages.length && messages[0].cursor === null) messages[0] = { ...messages[0], cursor: older }
  if ((used !== null && used === (nextBefore ?? nextAfter)) || !isAscending(messages))
    throw new Error(`a page of session ${request.sessionID} is out of order: load it again`)
  return {
    sessionID: request.sessionID,
    messages,
    older,
    newer,
    revision,
    isLossTold: false,
    lowest: older === window.older ? window.lowest : (messages.at(0)?.position ?? null),
    highest: messages.at(-1)?.position ?? null,
    revertedTo: window.revertedTo,
  }
}

/**
 * A window with a page before it or behind it; null if they do not belong together: messages were lost that no event
 * told of, or ids and positions contradict each other. The far end is given up where it gets longer than `bound`.
 */
export function joined(window, page, bound, isOlder) {
  if (page.revision < window.revision || (page.revision > window.revision && !window.isLossTold)) return null
  const [left, right] = isOlder ? [page, window] : [window, page]
  const messages = merged(left.messages, right.messages, isOlder)
  if (messages === null) return null
  const grown = {
    ...window,
    messages,
    older: left.older,
    newer: right.newer,
    revision: page.revision,
    isLossTold: window.isLossTold && page.revision === window.revision,
    lowest: left.lowest ?? window.lowest,
    highest: right.highest ?? window.highest,
  }
  return (isOlder ? withoutNewest : withoutOldest)(grown, bound, page.messages.length)
}

// Cut where a cursor is known. Where a server tells none, a window stays too long.
function withoutOldest(window, bound, spare) {
  const { messages } = window
  for (let index = messages.length - bound; index > 0 && index <= messages.length - Math.max(spare, 1); index++) {
    const { cursor, position } = messages[index]
    if (cursor !== null) return { ...window, messages: messages.slice(index), older: cursor, lowest: position }
  }
  return window
}

function withoutNewest(window, bound, spare) {
  const { messages } = window
  for (let index = bound; index < messages.length && index >= Math.max(spare, 1); index--) {
    const { cursor } = messages[index]
    const { position } = messages[index - 1]
    if (cursor !== null) return { ...window, messages: messages.slice(0, index), newer: cursor, highest: position }
  }
  return window
}

function message(item) {
  const { info, parts = [], position = null, cursor = null } = item
  if (typeof info?.id !== "string") throw new Error("an item of a page has no info with an id")
  return { id: info.id, info, parts, position, cursor }
}

function merged(left, right, isRightHeld) {
  const ids = new Set(left.map(({ id }) => id))
  const overlap = right.filter(({ id }) => ids.has(id)).length
  const split = left.length - overlap
  if (left.slice(split).some(({ id }, index) => id !== right[index].id)) return null
  const messages = isRightHeld ? [...left.slice(0, split), ...right] : [...left, ...right.slice(overlap)]
  return isAscending(messages) ? messages : null
}

function isAscending(messages) {
  const positions = messages.map(({ position }) => position).filter((position) => position !== null)
  return (
    positions.every((position, index) => index === 0 || positions[index - 1] < position) &&
    new Set(messages.map(({ id }) => id)).size === messages.length
  )
}

/** The session an event is about. */
export function sessionOf({ properties }) {
  const { sessionID, info, part } = properties ?? {}
  return sessionID ?? info?.sessionID ?? part?.sessionID ?? info?.id ?? null
}

/** The message an event is about. */
export function messageOf({ properties }) {
  const { messageID, info, part } = properties ?? {}
  return messageID ?? part?.messageID ?? info?.id ?? null
}

/** A window after an event of its session; the same one if it changes nothing. */
export function applied(window, { type, properties }, bound) {
  const changed = Object.hasOwn(CHANGES, type) ? CHANGES[type](window, properties) : window
  return changed === window ? window : withoutOldest(changed, bound, 1)
}

const CHANGES = {
  "message.updated"(window, { info, position = null, cursor = null }) {
    if (typeof info?.id !== "string") return window
    if (find(window, info.id) >= 0) return withMessage(window, info.id, (known) => ({ ...known, info }))
    if (!covers(window, position)) return window
    const message = { id: info.id, info, parts: [], position, cursor }
    return { ...window, messages: window.messages.toSpliced(place(window.messages, position), 0, message) }
  },

  "message.removed"(window, { messageID }) {
    const index = find(window, messageID)
    if (index < 0) return { ...window, isLossTold: true }
    const messages = window.messages.toSpliced(index, 1)
    const next = messages[index]
    if (next?.cursor === null) messages[index] = { ...next, cursor: window.messages[index].cursor }
    return { ...window, messages, isLossTold: true }
  },

  "message.part.updated": (window, { part }) =>
    typeof part?.id === "string" ? withMessage(window, part.messageID, (message) => withPart(message, part)) : window,

  "message.part.delta": (window, { messageID, partID, field, delta, end = null }) =>
    withMessage(window, messageID, (message) => {
      const part = message.parts.find(({ id }) => id === partID)
      if (!part || typeof field !== "string" || typeof delta !== "string") return message
      const text = part[field] || ""
      const length = end === null ? 0 : lengthOf(part, text)
      const more = end === null ? delta : missing(length, delta, end)
      if (!more) return message
      const grown = { ...part, [field]: text + more }
      if (end !== null) lengths.set(grown, end)
      return withPart(message, grown)
    }),

  "message.part.removed": (window, { messageID, partID }) =>
    withMessage(window, messageID, (message) => {
      const parts = message.parts.filter(({ id }) => id !== partID)
      return parts.length === message.parts.length ? message : { ...message, parts }
    }),

  "session.updated"(window, { info }) {
    const revertedTo = info?.revert?.messageID ?? null
    return revertedTo === window.revertedTo ? window : { ...window, revertedTo, isLossTold: true }
  },
}

// Nearly always the end, but a message may be taken away and put again.
function place(messages, position) {
  let index = messages.length
  while (position !== null && index > 0 && (messages[index - 1].position ?? 0) > position) index--
  return index
}

// The host counts characters, and a string here has two for each beyond the first 65,536. A text that grows is
// counted once.
const lengths = new WeakMap()
const lengthOf = (part, text) => lengths.get(part) ?? [...text].length

// Nothing, if something before it is missing: the whole text comes when the part is complete.
function missing(length, delta, end) {
  const characters = [...delta]
  const known = length - (end - characters.length)
  return known < 0 ? "" : characters.slice(known).join("")
}

function withMessage(window, messageID, change) {
  const index = find(window, messageID)
  if (index < 0) return window
  const before = window.messages[index]
  const after = change(before)
  return after === before ? window : { ...window, messages: window.messages.with(index, after) }
}

const find = ({ messages }, messageID) => messages.findLastIndex(({ id }) => id === messageID)

function withPart(message, part) {
  const index = message.parts.findIndex(({ id }) => id === part.id)
  return { ...message, parts: index < 0 ? [...message.parts, part] : message.parts.with(index, part) }
}
