"""The store that the settings name."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fallback_plugin.health.place import default_file
from fallback_plugin.health.sqlite import SqliteHealth
from fallback_plugin.health.store import HealthStore
from fallback_plugin.settings.store_url import StoreUrl, store_url

if TYPE_CHECKING:
    from fallback_plugin.settings import HealthSettings


def open_health(
    settings: "HealthSettings", environ: Mapping[str, str], *, on_trouble: Callable[[str], None]
) -> HealthStore:
    """Return the store of a user: a file, with a server before it where an address is set.

    Nothing is opened before the first call. ``on_trouble`` is told in one sentence what cannot be used, what
    follows and what to do; with a server, from a thread of the store's as well.
    """
    file = settings.file or default_file(environ)
    url = _server(settings, environ, on_trouble)
    if url is None:
        return SqliteHealth(file, on_trouble=on_trouble)
    from fallback_plugin.health.redis import RedisHealth  # noqa: PLC0415 -- only where a server is used
    from fallback_plugin.health.redis_link import RedisLink  # noqa: PLC0415

    local = SqliteHealth(file, on_trouble=on_trouble, any_thread=True)
    return RedisHealth(local, RedisLink(url), server=str(url), on_trouble=on_trouble)


def _server(
    settings: "HealthSettings", environ: Mapping[str, str], on_trouble: Callable[[str], None]
) -> StoreUrl | None:
    if settings.url_env is None:
        return settings.url
    text = environ.get(settings.url_env, "")
    problem = "it is not set"
    if text:
        try:
            return store_url(text)
        except ValueError as error:
            problem = str(error)
    kept = f"{settings.url} is used instead" if settings.url else "health is shared on this machine only"
    on_trouble(f"the variable {settings.url_env} of health.url_env: {problem}. Until then {kept}")
    return settings.url
