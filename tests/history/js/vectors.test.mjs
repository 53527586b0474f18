// The table of vectors against the page's pager.

import { readFile } from "node:fs/promises"
import test from "node:test"

import { newDriver } from "./under_node.mjs"

const { vectors } = JSON.parse(await readFile(new URL("../../vectors/history.json", import.meta.url)))

for (const { name, pager = {}, steps } of vectors)
  test(name, async () => {
    const driver = newDriver(pager)
    for (const step of steps) await driver.step(step)
  })
