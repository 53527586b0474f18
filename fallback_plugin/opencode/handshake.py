"""Answer the host's first line before anything is imported: a person may be waiting for their first prompt.

Even json costs as much as the start of a bare interpreter, so the usual line is told by its first bytes.
"""

import gc
import os
import sys

from fallback_plugin import __version__
from fallback_plugin.opencode import ADVICE

EXIT_REFUSED = 2
"""Exit status when the host does not speak our protocol."""

LONGEST_FIRST_LINE = 1024 * 1024

USUAL_START = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,'
"""How our own bridge file begins its first line."""

USUAL_ANSWER = (
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,'
    b'"server":{"name":"fallback-plugin","version":"%s"}}}\n' % __version__.encode()
)

_CHUNK = 65536


def first_line(fd: int) -> tuple[bytes, bytes]:
    """Read up to the first newline, and return that line and what came after it.

    At the end of input, or beyond `LONGEST_FIRST_LINE`, the line is what was read so far.
    """
    received = b""
    while b"\n" not in received and len(received) <= LONGEST_FIRST_LINE:
        chunk = os.read(fd, _CHUNK)
        if not chunk:
            break
        received += chunk
    line, _, rest = received.partition(b"\n")
    return line, rest


def main() -> int:
    """Serve the host at the other end of stdin and stdout; return the exit status."""
    if os.isatty(0):
        sys.stderr.write(f"fallback-plugin bridge is started by OpenCode, not by hand. {ADVICE}\n")
        return EXIT_REFUSED
    line, rest = first_line(0)
    if not line:
        return 0
    usual = line.startswith(USUAL_START)
    if usual:
        os.write(1, USUAL_ANSWER)

    # Imports leave hardly any garbage; looking for it takes a twentieth of the start. The bridge ends this.
    gc.disable()

    # The rest is imported once the answer is out.
    from fallback_plugin.opencode.greeting import (  # noqa: PLC0415 -- see above
        RefusedError,
        read_greeting,
        refuse,
        welcome,
    )

    try:
        greeting = read_greeting(line)
    except RefusedError as refused:
        os.write(1, refuse(refused))
        return EXIT_REFUSED
    if not usual:
        os.write(1, welcome(greeting))

    from fallback_plugin.opencode.bridge import run  # noqa: PLC0415 -- see above

    run(greeting, rest)
    return 0
