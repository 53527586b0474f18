"""How many failures are classified in a second, against the least one can do with the same text.

The least is to decode the body and to search the text once. Run it from the repository as
``python -m bench.classifications [rounds]``.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from fallback_plugin.events import HostError
from fallback_plugin.fallback.classify import classify
from fallback_plugin.fallback.evidence import MAX_TEXT
from fallback_plugin.wire.error import read_error

CORPUS: Final = Path(__file__).parents[1] / "tests" / "fallback" / "corpus" / "errors.jsonl"
BUDGET_US: Final = 1_000.0
NOW: Final = 1_780_000_000.0


def corpus_errors() -> list[HostError]:
    """Return the corpus' errors as the engine gets them."""
    errors = []
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)["error"]
        status = raw.get("status")
        said = raw.get("text") or (status.get("message") if isinstance(status, dict) else None)
        errors.append(HostError(name="", message=said) if said else read_error(raw))
    return errors


def seconds_each(run: Callable[[HostError], object], errors: list[HostError]) -> float:
    """Return the seconds one error takes."""
    began = time.perf_counter()
    for error in errors:
        run(error)
    return (time.perf_counter() - began) / len(errors)


def least(error: HostError) -> None:
    """Decode the body and search the text once."""
    body = error.response_body
    if body and body.startswith("{"):
        json.loads(body)
    re.search(r"rate[- ]limit|quota|overloaded", f"{error.message}\n{body or ''}".lower())


def main() -> int:
    """Print the figures; return 1 if a classification takes longer than its budget."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    errors = corpus_errors()
    long_text = [HostError(name="", message="the model said nothing of use " * (MAX_TEXT // 15))]
    seconds_each(lambda error: classify(error, NOW), errors + long_text)
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    ours = median(seconds_each(lambda error: classify(error, NOW), errors) for _ in range(rounds))
    bare = median(seconds_each(least, errors) for _ in range(rounds))
    worst = median(seconds_each(lambda error: classify(error, NOW), long_text) for _ in range(rounds))
    print(f"{len(errors)} errors of the corpus, medians of {rounds} rounds")
    print(f"a classification {1e6 * ours:8.1f} us, {1 / ours:9,.0f} a second; budget {BUDGET_US:,.0f} us")
    print(f"the least        {1e6 * bare:8.1f} us, {1 / bare:9,.0f} a second; ratio {ours / bare:.1f}")
    print(f"the longest text {1e6 * worst:8.1f} us, no rule matches")
    return int(ours > BUDGET_US / 1e6)


if __name__ == "__main__":
    sys.exit(main())
