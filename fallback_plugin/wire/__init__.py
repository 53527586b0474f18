"""OpenCode's own shapes, read into normalised types and written from them.

Measured on OpenCode 1.18.33. Unknown fields and unknown event types are ignored on purpose: the set grows
with every release.
"""
