"""What it costs to ask whether a model is closed, against how much is closed, and to take a lease.

Look-ups are what the engine does with each candidate; they are to cost the same whatever is closed. A lease
is taken once a failure. A redis-server, where there is one, runs at a socket of its own as long as this does.
Run it from the repository as ``python -m bench.health_lookups``.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fallback_plugin.health import HealthStore, MemoryHealth, SqliteHealth
from fallback_plugin.health.closure import Closure
from fallback_plugin.health.redis import RedisHealth
from fallback_plugin.health.redis_link import RedisLink
from fallback_plugin.health.scope import closing_key
from fallback_plugin.health.store import LocalHealth
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings.store_url import store_url

NOW: Final = 1_800_000_000.0
CLOSED: Final = (10, 1_000, 100_000)
LOOKUPS: Final = 20_000
CLAIMS: Final = 1_000
ROUNDS: Final = 7
FLAT: Final = 2.0
"""At most so many times slower with the most that is closed than with the least."""


def fill(store: LocalHealth, count: int) -> list[ModelRef]:
    """Close so many models; return as many closed as open ones, spread over all."""
    models = [ModelRef(f"provider-{number % 97}", f"vendor/model-{number}") for number in range(count)]
    store.take_in({closing_key(model, "model"): Closure(NOW + 60, "quota", 1, NOW) for model in models})
    sample = models[:: max(1, count // 50)]
    return [*sample, *(ModelRef(model.provider, f"{model.model}-open") for model in sample)]


def seconds_each(work: Callable[[], object], count: int) -> float:
    """Return the median over all rounds of the time one of ``count`` pieces of work takes."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        rounds.append((time.perf_counter() - began) / count)
    return statistics.median(rounds)


def lookups(store: HealthStore, models: list[ModelRef]) -> float:
    """Return the seconds of one look-up: a fresh view, and whether a model is closed in it."""
    turns = LOOKUPS // len(models)

    def work() -> None:
        for _ in range(turns):
            for model in models:
                store.view(NOW).closed_until(model)

    store.view(NOW)
    return seconds_each(work, turns * len(models))


def claims(store: HealthStore) -> float:
    """Return the seconds of one lease that nobody has."""
    taken = iter(range(10**9))

    def work() -> None:
        for _ in range(CLAIMS):
            assert store.claim(f"failure {next(taken)}", "bench", NOW, ttl_s=60)

    return seconds_each(work, CLAIMS)


def report_lookups(name: str, opened: Callable[[int], LocalHealth]) -> None:
    """Print look-ups a second for each number of closed models, and whether they are flat."""
    times = []
    for count in CLOSED:
        store = opened(count)
        times.append(lookups(store, fill(store, count)))
        store.shut()
    each = ", ".join(f"{count:,}: {1 / one:,.0f}/s" for count, one in zip(CLOSED, times, strict=True))
    ratio = times[-1] / times[0]
    print(f"look-ups, {name:7} by closed models  {each}")
    print(f"look-ups, {name:7} {CLOSED[-1]:,} / {CLOSED[0]}: {ratio:.2f} (flat: below {FLAT:.0f})")


def report_server(folder: Path) -> None:
    """Print what a lease costs at a server of this machine."""
    binary = shutil.which("redis-server")
    if binary is None:
        print("lease, redis    not measured: redis-server is not installed")
        return
    url = store_url(f"unix://{folder}/redis.sock")
    options = ["--port", "0", "--unixsocket", f"{folder}/redis.sock", "--save", "", "--dir", str(folder)]
    with subprocess.Popen([binary, *options], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            assert any("ready to accept connections" in line.lower() for line in server.stdout)
            local = SqliteHealth(folder / "beside.sqlite3", on_trouble=print, any_thread=True)
            store = RedisHealth(local, RedisLink(url), server=str(url), on_trouble=print)
            store.settle(5)
            print(f"lease, redis    {claims(store) * 1e6:7.1f} us, with the file beside it")
            models = fill(local, CLOSED[0])
            print(
                f"look-ups, redis {CLOSED[0]}: {1 / lookups(store, models):,.0f}/s, no way over the network"
            )
            store.shut()
        finally:
            server.terminate()


def main() -> None:
    """Measure and print."""
    print(f"median of {ROUNDS} rounds, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report_lookups("memory", lambda _: MemoryHealth())
        report_lookups("sqlite", lambda count: SqliteHealth(folder / str(count), on_trouble=print))
        print(f"lease, memory   {claims(MemoryHealth()) * 1e6:7.1f} us")
        file = SqliteHealth(folder / "leases", on_trouble=print)
        print(f"lease, sqlite   {claims(file) * 1e6:7.1f} us")
        file.shut()
        report_server(folder)


if __name__ == "__main__":
    main()
