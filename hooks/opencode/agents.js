// The agents that the host itself lets work beside a turn, or for it.

const BACKGROUND = ["title", "summary"] // nobody waits for their requests

export const COMPACTION = "compaction" // shortens the history before a turn goes on

// An agent's name: the host gives some hooks the name, and some the agent.
export const agentName = (agent) => (typeof agent === "string" ? agent : agent?.name)

export const isBackground = (agent) => BACKGROUND.includes(agentName(agent))

// Whether no person's turn is stopped for a request of an agent.
export const isBeside = (agent) => isBackground(agent) || agentName(agent) === COMPACTION
