"""One process that looks after many OpenCode servers over HTTP, each with a plugin host of its own."""
