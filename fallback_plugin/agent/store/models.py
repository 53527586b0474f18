"""A model in a column."""

import json
import logging

from fallback_plugin.model_ref import ModelRef

_log = logging.getLogger(__name__)


def written_model(model: ModelRef | None) -> str | None:
    """Return a model as it is stored: its name alone would not tell a variant from a tag."""
    return json.dumps([model.provider, model.model, model.variant]) if model else None


def stored_model(text: str | None, what: str) -> ModelRef | None:
    """Return a stored model; one that makes no sense counts as none, and is named in the log."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    match value:
        case [str(provider), str(model), str() | None as variant]:
            return ModelRef(provider, model, variant)
    _log.warning("%s: its row names no model but %.80r; it counts as unnamed", what, text)
    return None
