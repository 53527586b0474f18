"""Asking models: one streaming request to an OpenAI-compatible endpoint, and what became of it."""
