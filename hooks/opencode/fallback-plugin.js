// The OpenCode end of fallback-plugin: starts `fallback-plugin bridge` and speaks JSON-RPC 2.0 with it over
// stdio, one object a line. It carries and never decides; when Python is late, dead or missing, OpenCode goes
// on as if this file were not here. The protocol is described in docs/bridge-protocol.md. OpenCode takes every
// file in its plugin folder for a plugin, so the installer joins the modules of hooks/opencode into one.
//
// Installed by `fallback-plugin install opencode`; remove it with `fallback-plugin uninstall opencode`.

import { Bridge } from "./bridge.js"
import { takeChains } from "./chains.js"
import { TAG } from "./fetch.js"
import { isObject } from "./json.js"
import { TIMES } from "./times.js"

const DONE = Promise.resolve()

// A hook that fails is a hook that changed nothing.
function harmless(hook) {
  return async (...given) => {
    try {
      await hook(...given)
    } catch {
      // the host's turn matters more
    }
  }
}

// The host runs a tool with the object that it handed out, whatever stands in its place afterwards.
function replaceContent(object, content) {
  for (const key of Object.keys(object)) if (!Object.hasOwn(content, key)) delete object[key]
  Object.assign(object, content)
}

function hooks(bridge) {
  return {
    // Not async: order and sequence are taken as the host calls, and it calls for every text delta.
    event: (input) => {
      try {
        bridge.event(input.event)
      } catch {
        // the host's turn matters more
      }
      return DONE
    },

    config: harmless((config) => bridge.setChains(takeChains(config))),

    "chat.message": harmless(async (input, output) => {
      const messageID = input.messageID ?? output.message?.id
      const waited = await bridge.messageComes({ sessionID: input.sessionID, messageID, model: input.model })
      // The host answers the newest message, by this time, and what was sent again meanwhile counts as new.
      if (waited && output.message.time) output.message.time.created = Date.now()
      const answer = await bridge.ask("chat.message", () => ({
        sessionID: input.sessionID,
        messageID,
        agent: input.agent ?? output.message?.agent,
        model: input.model,
        variant: input.variant,
        resolved: output.message?.model,
      }))
      if (answer?.model) output.message.model = { ...answer.model, ...(answer.variant && { variant: answer.variant }) }
    }),

    "chat.headers": async (input, output) => {
      let mayBegin = true
      await harmless(async () => {
        mayBegin = await bridge.mayBegin(input)
        const tag = mayBegin && bridge.watch(input)
        if (tag) output.headers[TAG] = tag
      })()
      // Its run is stopped; were it not, no model is asked, and the host takes this for the stop that it is.
      if (!mayBegin) throw new DOMException("The user stopped this turn.", "AbortError")
    },

    "experimental.chat.messages.transform": harmless(async (_, output) => {
      const answer = await bridge.ask("experimental.chat.messages.transform", () => ({ messages: output.messages }))
      if (Array.isArray(answer?.messages)) output.messages.splice(0, Infinity, ...answer.messages)
    }),

    "tool.execute.before": harmless(async (input, output) => {
      const answer = await bridge.ask("tool.execute.before", () => ({ ...input, args: output.args }))
      if (isObject(answer?.args) && isObject(output.args)) replaceContent(output.args, answer.args)
    }),

    "tool.execute.after": harmless(async (input, output) => {
      const { title, output: text, metadata } = output
      const answer = await bridge.ask(
        "tool.execute.after",
        () => ({ ...input, title, output: text, metadata }),
        TIMES.toolResult,
      )
      if (typeof answer?.output === "string") Object.assign(output, answer)
    }),

    dispose: async () => {
      await harmless(() => bridge.settleRun())()
      bridge.dispose()
    },
  }
}

export default {
  id: "fallback-plugin",
  server: async (context) => {
    const bridge = new Bridge(context)
    bridge.start()
    return hooks(bridge)
  },
}
