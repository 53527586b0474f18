"""Turns: from a person's message to the end of its answer, step by step, with tools and failing models."""
