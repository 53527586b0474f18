"""Processes that keep cores at work, for trials on a busy machine."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep ``count`` cores at work until the block ends."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    workers = [context.Process(target=_work, args=(over,), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        over.set()
        for worker in workers:
            worker.join()


def _work(until: Event) -> None:
    while not until.is_set():
        sum(range(10_000))
