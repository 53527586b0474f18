"""All layers read, checked, merged: one call that gives settings, where they came from, and what to watch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from fallback_plugin.errors import SettingsError
from fallback_plugin.settings.chain_entry import repeated_entries
from fallback_plugin.settings.discovery import candidate_files, home, present, project_files, user_file
from fallback_plugin.settings.environment import BLOCK_VARIABLE, blocked_names, environment_layer
from fallback_plugin.settings.findings import Finding, layer_findings
from fallback_plugin.settings.host_config import host_config_warnings, read_host_config
from fallback_plugin.settings.layer import Layer, LayerName, Origin, dotted, merge
from fallback_plugin.settings.sanitize import with_absolute_paths, with_agents_by_key, without_untrusted
from fallback_plugin.settings.tables import Settings
from fallback_plugin.settings.toml_file import FileReading, read_file, read_text
from fallback_plugin.settings.toml_positions import KeyPath

LastGood: TypeAlias = Callable[[Path], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings in force, and their story.

    ``origins`` names the source of every value by its dotted key. ``files`` were read, ``watched`` are all
    places where a file would count, existing or not. ``warnings`` are for a person to read.
    """

    settings: Settings
    origins: Mapping[str, Origin] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    watched: tuple[Path, ...] = ()


def load_settings(
    *,
    directory: Path,
    worktree: Path | None = None,
    environ: Mapping[str, str],
    host_config: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    file: Path | None = None,
    last_good: LastGood | None = None,
) -> LoadedSettings:
    """Read the settings that hold in a project folder.

    Args:
        directory: the folder the host works in.
        worktree: the root at which the search for a project's file ends; by default the repository's root.
        environ: the environment variables.
        host_config: the host's own config, of which only agents' models and chains are read.
        overrides: the values of the command line, as nested tables.
        file: the only file to read, in place of the user's and the project's; it has to exist.
        last_good: returns what a file held when it last made sense. If given, a file that is wrong is read as
            that, or left out.

    Raises:
        SettingsError: with one line, ``place: message``, for everything that is wrong in any layer.
    """
    user = user_file(environ)
    layers: list[Layer] = []
    findings: list[Finding] = []
    warnings: list[str] = []

    if file is not None and not present(file):
        raise SettingsError(f"{file}: there is no such file; name one that exists")

    reading = _read("user file", file or user, last_good)
    findings += reading.findings
    if reading.layer:
        layers.append(reading.layer)

    places = [place for place in project_files(directory, worktree) if place != user and present(place)]
    if places and file is None:
        reading = _read("project file", places[0], last_good)
        findings += reading.findings
        if reading.layer:
            trusted, refused = without_untrusted(reading.layer)
            layers.append(trusted)
            warnings += refused
        warnings += [
            f"{place}: not read, {places[0]} is next to it; keep one of the two"
            for place in places[1:]
            if _same_project(place, places[0])
        ]

    warnings += host_config_warnings(host_config)
    layers += [
        Layer(name="host config", values=read_host_config(host_config)),
        environment_layer(environ),
        Layer(name="command line", values=overrides or {}),
    ]
    checked = []
    for layer in layers:
        # Not relative to the project, even for a variable: that would be a way to run a cloned repository.
        placed, wrong = _checked(layer, base=user.parent, home=home(environ))
        findings += wrong
        checked.append(placed)
        if not wrong:
            warnings += _repeats(placed)
    if findings:
        raise SettingsError("\n".join(map(str, findings)))

    values, origins = merge(checked)
    if blocked := blocked_names(environ):
        _block(values, blocked)
        origins["plugins", "block"] = Origin("environment", variable=BLOCK_VARIABLE)
    settings = Settings.model_validate(values)
    return LoadedSettings(
        settings=settings,
        origins={dotted(path): origin for path, origin in (_defaults() | origins).items()},
        warnings=tuple(warnings),
        files=tuple(layer.file for layer in layers if layer.file),
        watched=candidate_files(directory=directory, worktree=worktree, environ=environ),
    )


def _checked(layer: Layer, *, base: Path, home: Path) -> tuple[Layer, list[Finding]]:
    """Return a layer as it is merged, and what is wrong with it."""
    spelled, doubled = with_agents_by_key(layer)
    placed = with_absolute_paths(spelled, base=base, home=home)
    return placed, [*doubled, *layer_findings(placed)]


def _read(name: LayerName, file: Path, last_good: LastGood | None) -> FileReading:
    """Read a file; with ``last_good``, one that is wrong as what it held before, or not at all."""
    reading = read_file(name, file)
    if last_good is None or not _is_wrong(reading):
        return reading
    text = last_good(file)
    before = FileReading() if text is None else read_text(name, file, text)
    return FileReading() if _is_wrong(before) else before


def _is_wrong(reading: FileReading) -> bool:
    """Tell whether something is wrong with a file by itself."""
    if reading.layer is None:
        return bool(reading.findings)
    layer = reading.layer
    trusted = without_untrusted(layer)[0] if layer.name == "project file" else layer
    return bool(_checked(trusted, base=Path("/"), home=Path("/"))[1])


def _same_project(one: Path, other: Path) -> bool:
    """Tell whether ``fallback.toml`` and ``.opencode/fallback.toml`` stand in one folder."""
    return one.parent.parent == other.parent and one.parent.name == ".opencode"


def _repeats(layer: Layer) -> Iterator[str]:
    """Yield a warning for each model that a chain of the layer names again."""
    fallback = layer.values.get("fallback", {})
    chains: dict[KeyPath, object] = {("fallback", "fallback_models"): fallback.get("fallback_models", ())}
    for name, agent in layer.values.get("agents", {}).items():
        chains["agents", name, "fallback_models"] = agent.get("fallback_models", ())
    for path, chain in chains.items():
        for index, model in repeated_entries(chain):
            place = layer.place((*path, index))
            yield f"{place}: {dotted(path)}: {model} is there already; the second one is dropped"


def _block(values: dict[str, Any], names: list[str]) -> None:
    plugins = values.setdefault("plugins", {})
    plugins["block"] = list(dict.fromkeys([*plugins.get("block", ()), *names]))


def _defaults() -> dict[KeyPath, Origin]:
    """Return the origin of every key that exists without being set."""
    return {
        (section, key): Origin("default")
        for section, table in Settings().model_dump().items()
        for key, value in table.items()
        if value != {}
    }
