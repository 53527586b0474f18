"""The demonstration, as a person runs it who has Python and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(60)
def test_the_demonstration_saves_a_turn_with_nothing_but_python(tmp_path: Path) -> None:
    environ = {"PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}

    ran = subprocess.run(
        [sys.executable, "scripts/demo_timeline.py"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    asked = ran.stdout.index("demo/first-model is asked and answers 429")
    assert (
        asked < ran.stdout.index("demo/second-model is asked") < ran.stdout.index("Now on demo/second-model")
    )
    assert "complete, from demo/second-model" in ran.stdout
    assert "User messages in the transcript: 1." in ran.stdout
    assert list(tmp_path.iterdir()) == []
