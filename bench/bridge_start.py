"""How long the bridge's Python end takes from spawn to handshake and to ready, against a bare interpreter.

The package is built, installed as a wheel into a fresh environment and compiled, as it is for a person; all
programs are started in turn. Run it from the repository as ``python -m bench.bridge_start [rounds]``.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

REPOSITORY: Final = Path(__file__).parents[1]
BUDGETS_MS: Final = {"handshake": 20.0, "ready": 250.0}
# To the byte what the bridge file writes first.
INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,'
    b'"host":{"name":"opencode","version":null,"kind":"serve"},"directory":"/","worktree":"/"}}\n'
)
REFERENCES: Final = {"bare interpreter": "pass", "import pydantic": "import pydantic"}


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """Run a program to its end; what it said counts only if that is a bad one."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise SystemExit(f"error: {command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def install_wheel(root: Path) -> Path:
    """Build the wheel, install it into a fresh environment and return its interpreter."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", root / "dist", REPOSITORY)
    run(sys.executable, "-m", "venv", root / "venv")
    python = root / "venv" / "bin" / "python"
    (wheel,) = (root / "dist").glob("*.whl")
    # Without the variable pip compiles what it installs.
    run(python, "-m", "pip", "install", "--quiet", wheel, env=environment(Path.home()))
    return python


def environment(home: Path) -> dict[str, str]:
    """Return this environment with another home, no checkout on the path, and bytecode written."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_"))}
    return kept | {"HOME": str(home)}


def bridge_ms(python: Path, env: dict[str, str]) -> dict[str, float]:
    """Start the bridge once and return the milliseconds to its handshake and to its subscriptions."""
    began = time.perf_counter()
    with subprocess.Popen(
        [python, "-P", "-c", "from fallback_plugin.__main__ import main; main()", "bridge"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        cwd=env["HOME"],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        answer = process.stdout.readline()
        shaken = time.perf_counter()
        assert b'"protocolVersion":1' in answer, answer
        for line in process.stdout:
            if json.loads(line).get("method") == "subscribe":
                break
        else:
            raise AssertionError("the bridge ended before it was ready")
        ready = time.perf_counter()
        process.stdin.close()
    return {"handshake": 1000 * (shaken - began), "ready": 1000 * (ready - began)}


def reference_ms(python: Path, code: str, env: dict[str, str]) -> float:
    """Run some code in a fresh interpreter and return the milliseconds to its end."""
    began = time.perf_counter()
    run(python, "-P", "-c", code, env=env)
    return 1000 * (time.perf_counter() - began)


def main() -> int:
    """Print the medians and their ratios; return 1 if one is over its budget."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    times: dict[str, list[float]] = {}
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as root:
        python = install_wheel(Path(root))
        env = environment(Path(root))
        for number in range(rounds + 1):
            measured = {name: reference_ms(python, code, env) for name, code in REFERENCES.items()}
            measured |= bridge_ms(python, env)
            if number:  # the first round warms the file cache
                for name, took in measured.items():
                    times.setdefault(name, []).append(took)
    bare = median(times["bare interpreter"])
    print(f"{'':<28}{'ms':>8}{'to bare':>9}{'budget ms':>11}   medians of {rounds} rounds")
    for name, milliseconds in times.items():
        middle = median(milliseconds)
        print(f"{name:<28}{middle:>8.1f}{middle / bare:>9.2f}{BUDGETS_MS.get(name, ''):>11}")
    print(f"load after:  {os.getloadavg()}")
    return int(any(median(times[name]) > budget for name, budget in BUDGETS_MS.items()))


if __name__ == "__main__":
    sys.exit(main())
