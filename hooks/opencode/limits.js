// How much is held, sent or looked at.

const MEBIBYTE = 1024 * 1024
export const LIMITS = {
  lineBytes: 32 * MEBIBYTE, // longest line either side accepts
  waitingBytes: 16 * MEBIBYTE, // events kept until the child is ready
  congestedBytes: 256 * 1024, // unsent bytes from which text deltas are dropped
  unsentBytes: 64 * MEBIBYTE, // unsent bytes at which the child counts as dead
  syncBytes: 60 * 1024, // longest question that is waited for on the spot: less than an empty pipe takes at once
  errorBody: 64 * 1024, // characters of a refused request's body that are told
  standIns: 1000, // sessions whose turn is answered by another model than the host's
  event: 8 * MEBIBYTE, // characters of one event of a stream, beyond which it is not looked at
  sessions: 1000, // that were stopped, sent again or deleted, and are remembered as that
  messages: 20, // of a session, that were stopped or are about to be answered
  unusedTags: 1000, // requests that were announced and not made
  unsaid: MEBIBYTE, // bytes of a stream that says nothing, after which it is handed on all the same
}
