"""A message in the moment in which attach answers the failure of the one before: it is answered as well."""

from itertools import product
from pathlib import Path
from typing import Final

import pytest

from tests.attach.real.conftest import Attach
from tests.loopback.opencode_home import OpenCodeHome, provider_each, ref
from tests.loopback.opencode_server import OpenCodeServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import error_object, status, stream
from tests.loopback.stop_trial import Stop, StopTrial, summary

pytestmark = [pytest.mark.real_host, pytest.mark.thorough, pytest.mark.timeout(300)]

FAILURES: Final = {"401": status(401), "404": status(404), "broken": error_object("Half an answer, ")}
DELAYS_S: Final = (0.0, 0.005, 0.01, 0.02)
SETTINGS: Final = f'[fallback]\nfallback_models = ["{ref("fallback")}"]\ncooldown = 0\n'


def test_P2_a_message_right_after_a_failed_run_is_answered(
    opencode_binary: Path, attach: Attach, tmp_path: Path
) -> None:
    """The host runs it by itself while attach is about to send the failed one again: 8 of 13 were lost."""
    # Each on a model of its own, so that what one of them did says nothing about another.
    moments = {f"{kind}-{delay_s}": (kind, delay_s) for kind, delay_s in product(FAILURES, DELAYS_S)}
    scripts = {name: [FAILURES[kind]] for name, (kind, _) in moments.items()}
    with ScriptedProvider({**scripts, "fallback": [stream("Answer ", "of the fallback.")]}) as provider:
        home = OpenCodeHome(tmp_path / "home", provider, provider_each([*moments, "fallback"]))
        home.write_settings(SETTINGS)
        with OpenCodeServer(opencode_binary, home) as server:
            server.warm_up(f"of-{next(iter(moments))}")
            attach(server)
            trial = [
                Stop(ref(name), delay_s, None, "idle", "build", None, 0.0, is_stopped=False)
                for name, (_, delay_s) in moments.items()
            ]
            outcomes = StopTrial(server.url, provider).run(trial, side_by_side=4)

    assert len(outcomes) == len(trial)
    assert all(outcome.is_kept for outcome in outcomes), summary(outcomes)
