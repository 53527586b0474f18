import subprocess
import sys
from pathlib import Path

import pytest

import fallback_plugin.settings


@pytest.mark.parametrize("name", fallback_plugin.settings.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(fallback_plugin.settings, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = fallback_plugin.settings.nothing_here


def test_importing_the_package_does_not_import_pydantic() -> None:
    script = (
        "import sys, fallback_plugin.settings as s; s.FAILURE_KINDS; s.candidate_files; s.read_host_config;"
        "sys.exit('pydantic' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, check=False).returncode == 0
