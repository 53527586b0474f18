"""What public reports say of providers' odd endings."""

import pytest

from fallback_plugin.agent.providers.failure import ModelFailedError
from tests.agent.providers.test_answer import delta, read


@pytest.mark.parametrize("finish", ["model_context_window_exceeded", "other", "malformed_function_call"])
def test_report_B27_a_finish_reason_nobody_knows_is_a_failure_if_nothing_was_said(finish: str) -> None:
    with pytest.raises(ModelFailedError) as failure:
        read([delta(finish)])

    assert failure.value.ending != "broken"
