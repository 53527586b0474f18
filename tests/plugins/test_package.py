"""The package's front."""

import pytest

from fallback_plugin import plugins


def test_every_public_name_is_there() -> None:
    assert all(getattr(plugins, name) is not None for name in plugins.__all__)


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = plugins.nothing
