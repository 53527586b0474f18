"""The first failure of a process waits for nothing that could be made ready before."""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

PROGRAM: Final = """
import re
from fallback_plugin.fallback.classify import warm_up
from fallback_plugin.fallback.judgement import judge
from tests.fallback.test_corpus import CORPUS, NOW, WORDINGS

pieces = sum(1 for _ in warm_up())

def refuse(*_):
    raise AssertionError("compiled only now")

re.compile = refuse
for line in CORPUS + WORDINGS:
    if "assistant_text" not in line["error"]:
        judge(line["error"], NOW, provider=line["provider"])
print(pieces)
"""


def test_no_known_failure_compiles_anything_once_all_is_warm() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=ROOT
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100, "it is done in pieces, between which other things may happen"
