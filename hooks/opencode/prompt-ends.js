// The ends of an editor's prompts that overlap. OpenCode lets a prompt end at the first idle of its session after it
// began, and at the end of one it forgets all others of the session that still wait for theirs: these never end. So a
// prompt that overlaps with another one does not end before the editor's side has seen an idle session.

import { tellIdle } from "./idle-notices.js"
import { later } from "./times.js"

const OPEN = new Map() // session -> its prompts

// A prompt is sent. Call what is returned with its response; resolves with the one to hand over, as the last thing
// that happens before OpenCode ends the prompt.
export function promptBegan(sessionID) {
  const prompt = { overlaps: false }
  const open = OPEN.get(sessionID) ?? new Set()
  OPEN.set(sessionID, open.add(prompt))
  if (open.size > 1) for (const each of open) each.overlaps = true
  const over = () => {
    open.delete(prompt)
    if (open.size === 0 && OPEN.get(sessionID) === open) OPEN.delete(sessionID)
  }
  const ends = async (response) => {
    const whole = await withWholeBody(response)
    do {
      const overlapped = prompt.overlaps
      prompt.overlaps = false
      if (overlapped) await tellIdle(sessionID)
      await nextTurn() // one that is being sent right now shows
    } while (prompt.overlaps)
    return whole
  }
  return { ends, over }
}

// What is read of it takes no time afterwards.
async function withWholeBody(response) {
  const { status, statusText, headers } = response
  const body = await response.arrayBuffer()
  return new Response(body.byteLength > 0 ? body : null, { status, statusText, headers })
}

const nextTurn = () => new Promise((resolve) => later(0, resolve))
