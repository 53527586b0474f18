// Wraps the plugin whose file stands beside this one's folder and adds up what the host spends inside its `event`
// hook, which is all that runs for a text delta. The benchmark reads the sum after every turn.

import { writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import plugin from "../measured-plugin.js"

const SPENT_FILE = fileURLToPath(new URL("../spent.json", import.meta.url))

export default {
  id: plugin.id,
  server: async (context) => {
    const hooks = await plugin.server(context)
    let spentMs = 0
    let events = 0
    return {
      ...hooks,
      event: (input) => {
        const began = performance.now()
        const answer = hooks.event(input)
        spentMs += performance.now() - began
        events += 1
        if (input.event.type === "session.idle") writeFileSync(SPENT_FILE, JSON.stringify({ spentMs, events }))
        return answer
      },
    }
  },
}
