"""What a request failed of, by how it ended and what came back."""

import pytest

from fallback_plugin.events import Ending, HostError
from fallback_plugin.fallback.attempt_failure import attempt_failure
from tests.fallback.stage import A

OVERLOADED = HostError(name="", response_body='{"error":{"message":"Overloaded"}}')


def test_what_a_provider_says_of_an_answer_that_it_breaks_off_tells_why() -> None:
    failure = attempt_failure(A, OVERLOADED, "broken", 0.0)

    assert (failure.kind, failure.cut_off) == ("overload", False)


@pytest.mark.parametrize("message", ["", "The socket connection was closed unexpectedly."])
@pytest.mark.parametrize("ending", ["cut", "broken"])
def test_an_answer_without_a_proper_end_was_cut_off_however_its_connection_ended(
    ending: Ending, message: str
) -> None:
    failure = attempt_failure(A, HostError(name="", message=message), ending, 0.0)

    assert (failure.kind, failure.cut_off) == ("transport", True)
