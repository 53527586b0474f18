"""The plugins that are loaded, and what each of them implements."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import (
    Parameter,
    isasyncgenfunction,
    isclass,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from typing import Any, Final

import pluggy

from fallback_plugin import hookspecs
from fallback_plugin.errors import PluginLoadError
from fallback_plugin.plugins.discovery import Found

logger = logging.getLogger(__name__)

_ALWAYS: Final = frozenset({"host", "session_id"})


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin by name, and where it came from: a distribution, a file, ``built-in`` or ``explicit``."""

    name: str
    origin: str


@dataclass(frozen=True, slots=True)
class Implementation:
    """One plugin's function for one hook; ``argument_names`` are those it asks for, in its order."""

    plugin: LoadedPlugin
    hook: str
    function: Callable[..., object]
    argument_names: tuple[str, ...]

    def positional(self, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the arguments the function takes, out of all there are."""
        return [arguments[name] for name in self.argument_names]


class Registry:
    """Load plugins and keep them by pluggy's rules: the last one registered is asked first."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._plugins: dict[str, LoadedPlugin] = {}
        self.hooks = frozenset(
            name for name in vars(hookspecs) if self._manager.parse_hookspec_opts(hookspecs, name) is not None
        )
        self.first_result = frozenset(name for name in self.hooks if self._is_first_result(name))

    @property
    def plugins(self) -> tuple[LoadedPlugin, ...]:
        """The loaded plugins in the order of their loading."""
        return tuple(self._plugins.values())

    def load(self, found: Iterable[Found], *, block: Collection[str] = ()) -> tuple[PluginLoadError, ...]:
        """Import and register plugins; return what went wrong, one error a plugin, for the caller to report.

        A blocked plugin is not even imported. Names are compared without regard to case, ``-`` and ``_``.
        """
        blocked = {_folded(name) for name in block}
        errors = []
        for candidate in found:
            if _folded(candidate.name) in blocked:
                logger.info("plugin %r (%s) is blocked by name", candidate.name, candidate.origin)
                continue
            try:
                self._load_one(candidate)
            except PluginLoadError as error:
                errors.append(error)
        return tuple(errors)

    def implementations(self, hook: str) -> tuple[Implementation, ...]:
        """Return who implements a hook, in the order to call them."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        return tuple(
            Implementation(self._plugins[found.plugin_name], hook, found.function, found.argnames)
            for found in reversed(caller.get_hookimpls())
        )

    def check_arguments(self, hook: str, arguments: Collection[str]) -> None:
        """Check what a host wants to call a hook with; ``host`` and ``session_id`` are always at hand.

        Raises:
            TypeError: naming the hook, what it takes and what it was given.
        """
        wanted = set(signature(getattr(hookspecs, hook)).parameters) - _ALWAYS
        given = set(arguments) - _ALWAYS
        if wanted != given:
            raise TypeError(f"{hook} takes {sorted(wanted)}, but was given {sorted(given)}")

    def _load_one(self, found: Found) -> None:
        title = f"plugin {found.name!r} ({found.origin})"
        if taken := self._plugins.get(found.name):
            raise PluginLoadError(f"{title} is skipped: {taken.origin} already has a plugin of that name")
        try:
            plugin = found.load()
            if isclass(plugin):
                plugin = plugin()
        except PluginLoadError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginLoadError(f"{title} cannot be imported: {_described(error)}") from error
        self._check(plugin, title)
        try:
            self._manager.register(plugin, found.name)
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.has_plugin(found.name):
                self._manager.unregister(name=found.name)
            raise PluginLoadError(f"{title} cannot be registered: {_described(error)}") from error
        self._plugins[found.name] = LoadedPlugin(found.name, found.origin)

    def _check(self, plugin: object, title: str) -> None:
        """Refuse what pluggy would take and we would then never call, or not as its author expects."""
        implemented = {
            attribute: options
            for attribute in dir(plugin)
            if (options := self._manager.parse_hookimpl_opts(plugin, attribute)) is not None
        }
        if not implemented:
            raise PluginLoadError(f"{title} implements no hook: mark its functions with @hookimpl")
        for attribute, options in implemented.items():
            hook = options.get("specname") or attribute
            if hook not in self.hooks:
                if options.get("optionalhook"):
                    continue
                near = get_close_matches(hook, self.hooks, n=1, cutoff=0)
                raise PluginLoadError(f"{title} implements {hook!r}, which is no hook: is it {near[0]!r}?")
            if options.get("wrapper") or options.get("hookwrapper"):
                raise PluginLoadError(
                    f"{title} wraps {hook!r}: wrappers are not supported, implement the hook"
                )
            function = getattr(plugin, attribute)
            if isgeneratorfunction(function) or isasyncgenfunction(function):
                raise PluginLoadError(
                    f"{title} has a generator for {hook!r}: nothing would run it, return instead"
                )
            if any(
                name.kind is name.KEYWORD_ONLY and name.default is name.empty
                for name in _parameters(function)
            ):
                raise PluginLoadError(
                    f"{title} takes arguments of {hook!r} by keyword only: take out the '*'"
                )
            if hook == "register_commands" and iscoroutinefunction(function):
                raise PluginLoadError(f"{title} has an async {hook!r}: it is called without an event loop")

    def _is_first_result(self, hook: str) -> bool:
        options = self._manager.parse_hookspec_opts(hookspecs, hook)
        return bool(options and options.get("firstresult"))


def _parameters(function: Callable[..., object]) -> Iterable[Parameter]:
    return signature(function).parameters.values()


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
