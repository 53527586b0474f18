// The page's pager under node, driven by the steps of a test.

import assert from "node:assert/strict"
import path from "node:path"

import { Driver } from "./driving.mjs"

const load = (file) => import(path.join(process.env.WEB, file))
const page = { ...(await load("history.js")), ...(await load("history-window.js")) }

export const newDriver = (options) => new Driver(page, options, assert.deepEqual)
