// The least a plugin can do about a failed request: send it again at once, to the model that answers. It asks
// nobody and looks at nothing but the status, so what it takes is the host's own share of an inline switch.

const next = (failed) => {
  if (failed === "fails-as-well") return "fallback-b"
  return failed.startsWith("429-twice") ? "fails-as-well" : "fallback-a"
}

const straight = globalThis.fetch

async function inline(input, init) {
  const response = await straight(input, init)
  if (response.ok || typeof init?.body !== "string") return response
  await response.text()
  const { model, ...body } = JSON.parse(init.body)
  // A connection of its own: Bun 1.3 takes one that the failed request has left for closing.
  return inline(input, { ...init, body: JSON.stringify({ ...body, model: next(model) }), keepalive: false })
}

globalThis.fetch = Object.assign(Object.setPrototypeOf(inline, straight), {})

export const BareInlineProbe = async () => ({})
