// What this process of OpenCode is, read from its command line.

function hostKind(argv) {
  if (/tui[\\/]worker\.[jt]s$/.test(argv[1] ?? "")) return "tui"
  const command = argv.slice(2).find((word) => ["run", "serve", "web", "acp"].includes(word))
  return command === "run" || command === "acp" ? command : "serve"
}

export const HOST_KIND = hostKind(process.argv)
export const ENDS_AT_IDLE = HOST_KIND === "run" || HOST_KIND === "acp" // whoever waits for a turn takes the first idle for its end
export const AUTO_APPROVES = ["--auto", "--yolo", "--dangerously-skip-permissions"].some((flag) => process.argv.includes(flag))
export const PRINTS_JSON = process.argv.some((word, at) => word === "--format=json" || (word === "--format" && process.argv[at + 1] === "json"))
