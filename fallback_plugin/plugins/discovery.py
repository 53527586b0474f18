"""Where plugins come from: the package, installed distributions, files dropped in a folder, the program."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fallback_plugin.errors import PluginLoadError
from fallback_plugin.hookspecs import PROJECT
from fallback_plugin.plugins.bundled import BUILTINS


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that can be loaded.

    ``origin`` is where it came from, for people: a distribution with its version, a file, ``built-in`` or
    ``explicit``. ``load`` imports it and returns the plugin, or its class; it may raise anything.
    """

    name: str
    origin: str
    load: Callable[[], object]


def built_in() -> Iterator[Found]:
    """Find the plugins that come with the package."""
    for name, place in BUILTINS.items():
        yield Found(name, "built-in", partial(_named_object, place))


def installed() -> Iterator[Found]:
    """Find the entry points of installed distributions, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- 10 ms that only this step needs

    for entry in sorted(entry_points(group=PROJECT), key=lambda entry: entry.name):
        origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
        yield Found(entry.name, origin, entry.load)


def dropped_in(folders: Sequence[Path]) -> Iterator[Found]:
    """Find the ``*.py`` files of each folder, by name; those that begin with ``_`` or ``.`` are not plugins.

    The plugin is the file's object named ``plugin``, or else the module itself.
    """
    for folder in folders:
        if not folder.is_dir():
            yield Found(folder.name, str(folder), partial(_missing, folder))
            continue
        for file in sorted(folder.glob("*.py")):
            if not file.name.startswith(("_", ".")):
                yield Found(file.stem, str(file), partial(_file_plugin, file))


def passed_in(plugins: Mapping[str, object]) -> Iterator[Found]:
    """Find the plugins a program passes itself."""
    for name, plugin in plugins.items():
        yield Found(name, "explicit", partial(_itself, plugin))


def _itself(plugin: object) -> object:
    return plugin


def _named_object(place: str) -> object:
    module, _, name = place.partition(":")
    found: object = getattr(import_module(module), name)
    return found


def _missing(folder: Path) -> object:
    raise PluginLoadError(
        f"the plugin folder {folder} does not exist: create it or take it out of plugins.dirs"
    )


def _file_plugin(file: Path) -> object:
    module = _load_file(file)
    return getattr(module, "plugin", module)


def _load_file(file: Path) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415 -- see installed()

    # Two folders may hold files of one name; none of them may hide, or be hidden by, a real module.
    place = blake2b(str(file.resolve()).encode(), digest_size=6).hexdigest()
    spec = spec_from_file_location(f"_{PROJECT}_{place}_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{file} is no Python file")
    module = module_from_spec(spec)
    # dataclasses and pickle look a class's module up here.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module
