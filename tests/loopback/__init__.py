"""Real counterparts on loopback: a scripted model provider and a real, isolated OpenCode."""
