// What came as JSON and is yet to be trusted.

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value)

export function parsed(line) {
  try {
    const message = JSON.parse(line)
    return isObject(message) ? message : null
  } catch {
    return null // whatever it is, it is not for us
  }
}
