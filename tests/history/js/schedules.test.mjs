// Schedules that the Python pager was run through, each step with what it showed then.

import { readFile } from "node:fs/promises"
import test from "node:test"

import { Driver } from "./driving.mjs"

const schedules = JSON.parse(await readFile(process.env.SCHEDULES))

test("each schedule shows what it shows in Python", async () => {
  for (const { options, steps } of schedules) {
    const driver = new Driver(options)
    for (const [index, step] of steps.entries())
      try {
        await driver.step(step)
      } catch (error) {
        error.message = `step ${index} of ${JSON.stringify({ options, steps: steps.map(({ then, ...step }) => step) })}: ${error.message}`
        throw error
      }
  }
})
