"""``fallback-plugin bridge``: the end of the bridge that a host starts."""

import sys

import click


@click.command()
def bridge() -> None:
    """Speak with a host over stdin and stdout. Hosts start this themselves."""
    from fallback_plugin.opencode.handshake import main  # noqa: PLC0415 -- needed here only

    sys.exit(main())
