"""Extras of this package, which a command or a setting may need."""


def how_to_add(extra: str) -> str:
    """Say what to run for an extra, however the package was installed."""
    package = f"'fallback-plugin[{extra}]'"
    return (
        f"run pip install {package}, pip install '.[{extra}]' in a checkout, "
        f"or with pipx: pipx runpip fallback-plugin install {package}"
    )
