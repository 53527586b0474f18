"""The command ``fallback-plugin``; ``bridge`` is told apart first, so that a host waits for nothing else."""

import sys


def main() -> None:
    """Run the bridge, or hand over to the command line."""
    if sys.argv[1:] == ["bridge"]:
        from fallback_plugin.opencode.handshake import main as bridge  # noqa: PLC0415 -- only what is asked for

        sys.exit(bridge())
    from fallback_plugin.cli.main import main as command_line  # noqa: PLC0415 -- click costs more than the handshake

    command_line()


if __name__ == "__main__":
    main()
