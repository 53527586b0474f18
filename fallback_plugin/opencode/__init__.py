"""The adapter to OpenCode: its HTTP interface, the stdio bridge, and installing into it."""
