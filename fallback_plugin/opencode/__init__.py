"""The adapter to OpenCode: its HTTP interface, the stdio bridge, and installing into it."""

PROTOCOL_VERSION = 1
"""The bridge protocol both ends must speak; docs/bridge-protocol.md says when it changes."""

ADVICE = "Run 'fallback-plugin install opencode' and restart OpenCode."
"""What mends a bridge file and a package that do not fit each other."""
