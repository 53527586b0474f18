// How long things may take, and a timer for them.

import { HOST_KIND } from "./command-line.js"

export const TIMES = {
  question: 250,
  toolResult: 120_000,
  nextModel: HOST_KIND === "run" ? 10_000 : 1_000,
  freshStop: 60_000, // that a stop says something about a prompt of ours that was already under way
  afterStop: 10_000, // that Python is waited for after one
  crossing: 10_000, // that a message of the user's waits for what of ours is under way; a busy machine takes 4 s
  runLook: 1_000, // between two looks whether the run of a message that was stopped goes on
  nextCall: 30, // that another call of ours may follow one
  unseen: 10_000, // that a message which comes may take to be made
  letThrough: 500, // that a request of ours waits for the messages that have waited for it
  unfinished: 250, // that the step after one without an end is held back
  onTheSpot: 12, // that the host waits for an answer, doing nothing else
  glance: 0.2, // between two looks for it
  look: 2, // the same once the host goes on
  toast: 300, // that a toast of Python waits
  shown: 2_000, // that the end of a prompt waits for its text to be written to the editor
  idleTaken: 10_000, // that the end of a prompt which overlaps with another waits for the editor's side to see its session idle
  settling: 3_600_000, // Python's own deadline is a person's setting
  idleLook: 5_000, // between two looks whether a session for which Python is waited for is idle
  // A question waits for a child that is still starting, at most this long after its start; a job has time, as above.
  coldStart: HOST_KIND === "run" ? 10_000 : 2_000,
  start: 30_000, // a child not ready by then counts as dead
  firstRestart: 500,
  longestRestart: 30_000,
  healthy: 60_000, // ready for so long: earlier deaths are forgotten
  lastWords: 100, // between the end of the child and taking its pipe for empty
  grace: 3_000, // between the end of stdin and the kill
}

// A timer that never keeps the host's process alive.
export function later(milliseconds, action) {
  const timer = setTimeout(action, milliseconds)
  timer.unref?.()
  return timer
}
