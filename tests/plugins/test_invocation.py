"""Foreign code, called so that it stays alone with its troubles."""

import asyncio

import anyio
import pytest

from fallback_plugin.plugins.invocation import attempt

pytestmark = pytest.mark.anyio


def returns(value: object) -> object:
    return value


async def returns_later(value: object) -> object:
    await anyio.lowlevel.checkpoint()
    return value


def raises(error: BaseException) -> None:
    raise error


async def raises_later(error: BaseException) -> None:
    await anyio.lowlevel.checkpoint()
    raise error


@pytest.mark.parametrize("function", [returns, returns_later], ids=["plain", "async"])
async def test_the_result_comes_back(function: object) -> None:
    assert callable(function)

    outcome = await attempt(function, 7, deadline_s=5)

    assert (outcome.value, outcome.error) == (7, None)


@pytest.mark.parametrize("function", [raises, raises_later], ids=["plain", "async"])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(2)], ids=["exception", "exit"])
async def test_the_exception_comes_back(function: object, error: BaseException) -> None:
    assert callable(function)

    outcome = await attempt(function, error, deadline_s=5)

    assert outcome.error is error


async def test_a_plain_function_may_return_an_awaitable() -> None:
    outcome = await attempt(lambda: returns_later(7))

    assert outcome.value == 7


async def test_a_call_is_cancelled_at_its_deadline() -> None:
    cancelled = anyio.Event()

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    outcome = await attempt(hang, deadline_s=0)

    assert cancelled.is_set()
    assert isinstance(outcome.error, TimeoutError)
    assert str(outcome.error) == "it was cut after 0 s"


async def test_a_time_out_of_its_own_is_not_taken_for_the_deadline() -> None:
    outcome = await attempt(raises_later, TimeoutError("mine"), deadline_s=5)

    assert str(outcome.error) == "mine"


async def test_awaiting_something_cancelled_by_itself_is_a_failure() -> None:
    async def await_cancelled() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    outcome = await attempt(await_cancelled, deadline_s=5)

    assert isinstance(outcome.error, asyncio.CancelledError)


async def test_cancellation_from_outside_passes_through() -> None:
    reached_end = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await attempt(anyio.sleep_forever, deadline_s=5)
        reached_end = True

    assert scope.cancelled_caught
    assert not reached_end
