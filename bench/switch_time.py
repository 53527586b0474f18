"""How long from the failing answer's last byte to the fallback's request, against a bare abort and prompt.

Both run in the real OpenCode, in turn, on the same machine at the same time. Run it from the repository as
``python -m bench.switch_time [turns]``.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from tests.loopback.opencode_binary import find_opencode
from tests.loopback.opencode_home import OpenCodeHome
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream

BUDGET: Final = 1.5
FAILURES: Final = (429, 401)
WARM_UP_TURNS: Final = 2
PROBE: Final = Path(__file__).with_name("bare_probe.js")
# Nothing cools, so that the failing model is asked in every turn.
SETTINGS: Final = '[fallback]\ncooldown = 0\nfallback_models = ["fakeb/fallback-a"]\n'


def home_of(root: Path, provider: ScriptedProvider) -> OpenCodeHome:
    """Make an OpenCode home for this benchmark's models, without any plugin."""
    return OpenCodeHome(root, provider, {"fake": [str(code) for code in FAILURES], "fakeb": ["fallback-a"]})


def with_ours(root: Path, provider: ScriptedProvider) -> OpenCodeHome:
    """Make an OpenCode home with the plugin, installed as a person does."""
    home = home_of(root, provider)
    home.install_plugin(SETTINGS)
    return home


def with_probe(root: Path, provider: ScriptedProvider) -> OpenCodeHome:
    """Make an OpenCode home with the bare probe."""
    home = home_of(root, provider)
    home.plugin_file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROBE, home.plugin_file.parent)
    return home


def switch_ms(server: OpenCodeServer, provider: ScriptedProvider, failure: int) -> float:
    """Run one turn and return the milliseconds between the two requests."""
    session = server.create_session()
    position = server.events.position
    server.prompt(session, "Who answers?", f"fake/{failure}")
    server.wait_for_answer(session, "Answer of a.", since=position)
    failed = provider.requests(str(failure), session=session)[0].last_byte_at
    assert failed is not None
    return 1000 * (provider.requests("fallback-a", session=session)[0].arrived_at - failed)


def measure(turns: int) -> dict[tuple[int, str], list[float]]:
    """Measure both plugins in turn, turn by turn."""
    binary = find_opencode()
    if binary is None:
        sys.exit("error: OpenCode does not run here: scripts/test installs it")
    provider = ScriptedProvider({str(code): [status(code)] for code in FAILURES})
    provider.script("fallback-a", stream("Answer ", "of a."))
    times: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as root, provider:
        ours, probe = with_ours(Path(root, "ours"), provider), with_probe(Path(root, "bare"), provider)
        with OpenCodeServer(binary, ours) as our_server, OpenCodeServer(binary, probe) as probe_server:
            servers = {"ours": our_server, "bare": probe_server}
            for turn in range(WARM_UP_TURNS + turns):
                for failure in FAILURES:
                    for name, server in servers.items():
                        took = switch_ms(server, provider, failure)
                        if turn >= WARM_UP_TURNS:
                            times.setdefault((failure, name), []).append(took)
    return times


def main() -> int:
    """Print the medians and their ratio; return 1 if one is over its budget."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"load before: {os.getloadavg()} on {os.cpu_count()} cores")
    times = measure(turns)
    over = False
    print(
        f"{'failure':<8}{'bare ms':>9}{'ours ms':>9}{'ratio':>8}   budget {BUDGET}, medians of {turns} turns"
    )
    for failure in FAILURES:
        bare, ours = median(times[failure, "bare"]), median(times[failure, "ours"])
        over |= ours > BUDGET * bare
        print(
            f"{failure:<8}{bare:>9.1f}{ours:>9.1f}{ours / bare:>8.2f}   ours {spread(times[failure, 'ours'])}"
        )
    print(f"load after:  {os.getloadavg()}")
    return int(over)


def spread(times: list[float]) -> str:
    """Write the range of some milliseconds."""
    return f"{min(times):.0f}-{max(times):.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
