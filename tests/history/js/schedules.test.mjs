// Schedules that the Python pager was run through, each step with what it showed then.

import { readFile } from "node:fs/promises"
import test from "node:test"

import { newDriver } from "./under_node.mjs"

const schedules = JSON.parse(await readFile(process.env.SCHEDULES))

test("each schedule shows what it shows in Python", async () => {
  for (const { options, steps } of schedules) {
    const driver = newDriver(options)
    for (const [index, step] of steps.entries())
      try {
        await driver.step(step)
      } catch (error) {
        error.message = `step ${index} of ${JSON.stringify({ options, steps: steps.map(({ then, ...step }) => step) })}: ${error.message}`
        throw error
      }
  }
})
