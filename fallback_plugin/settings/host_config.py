"""The chains that stand in the host's own config: a layer that is read kindly and can never be wrong."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fallback_plugin.errors import ModelRefError
from fallback_plugin.settings.chain_entry import model_ref, names_several

if TYPE_CHECKING:
    from fallback_plugin.model_ref import ModelRef


def read_host_config(raw: object) -> dict[str, Any]:
    """Return the agents' models and chains of a host's config, as a layer of settings.

    The table is ``agents`` if that is an object, else ``agent``. Per agent ``model`` and ``fallback_models``
    count, the latter also under ``options``, where hosts keep keys they do not know. Whatever is of another
    type, or names no model, is left out without a word: the host's config is the host's to check. Only of
    several models in one string `host_config_warnings` speaks: they look like a chain.
    """
    agents: dict[str, dict[str, Any]] = {}
    for name, agent in _agent_table(raw).items():
        key = name.strip().lower() if isinstance(name, str) else ""
        if not key or not isinstance(agent, Mapping):
            continue
        entry: dict[str, Any] = {}
        if _is_model(model := agent.get("model")):
            entry["model"] = model
        options = agent.get("options")
        chain = _chain(agent.get("fallback_models")) or _chain(
            options.get("fallback_models") if isinstance(options, Mapping) else None
        )
        if chain:
            entry["fallback_models"] = chain
        if entry:
            agents.setdefault(key, {}).update(entry)
    return {"agents": agents} if agents else {}


def host_config_warnings(raw: object) -> Iterator[str]:
    """Yield a warning for each model or chain that is left out since one string holds several models."""
    for name, agent in _agent_table(raw).items():
        if not isinstance(agent, Mapping):
            continue
        options = agent.get("options")
        beside = options.get("fallback_models") if isinstance(options, Mapping) else None
        for key, value in (
            ("model", agent.get("model")),
            ("fallback_models", agent.get("fallback_models")),
            ("options.fallback_models", beside),
        ):
            for entry in value if isinstance(value, list | tuple) else (value,):
                if names_several(entry):
                    yield f"host config: agent.{name}.{key}: {_complaint(entry)}; it is left out"


def _agent_table(raw: object) -> Mapping[Any, Any]:
    if not isinstance(raw, Mapping):
        return {}
    for key in ("agents", "agent"):
        table = raw.get(key)
        if isinstance(table, Mapping):
            return table
    return {}


def _chain(value: object) -> list[Any]:
    """Return the entries that name a model, without repeats."""
    entries: Iterable[object] = value if isinstance(value, list | tuple) else (value,)
    models: dict[ModelRef, object] = {}
    for entry in entries:
        if _is_model(entry):
            models.setdefault(model_ref(entry), entry)
    return list(models.values())


def _complaint(entry: object) -> str:
    try:
        model_ref(entry)
    except ModelRefError as error:
        return str(error)
    return ""


def _is_model(value: object) -> bool:
    try:
        model_ref(value)
    except ValueError:
        return False
    return True
