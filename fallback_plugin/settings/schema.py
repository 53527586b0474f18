"""The JSON schema of the settings, for editors: generated from the models, never written by hand."""

import json
from typing import Any

from fallback_plugin.settings.tables import Settings


def json_schema() -> dict[str, Any]:
    """Return the schema of a settings file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
        "title": "Settings of fallback-plugin",
    }


def schema_text() -> str:
    """Return the schema as the file ``config/fallback.schema.json`` holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
