"""Every view, in either theme: axe-core finds nothing, and a telephone is wide enough."""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest
from playwright.sync_api import Browser

from tests.browser.axe import violations
from tests.browser.looking import Look
from tests.browser.scenes import FIRST_USE, VIEWS, Shown, first_use, in_use
from tests.loopback.provider import ScriptedProvider

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(90)]

WIDTH: Final = 360


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, tuple[str, dict[str, str]]]]:
    """For each view, the address of a host that shows it, and its sessions."""
    root = tmp_path_factory.mktemp("hosts")
    with (
        ScriptedProvider() as provider,
        first_use(provider, root / "first") as first,
        in_use(provider, root / "used") as used,
    ):
        yield dict.fromkeys(FIRST_USE, first) | dict.fromkeys(VIEWS, used)


@pytest.mark.parametrize("view", [*FIRST_USE, *VIEWS])
def test_anybody_can_use_it_also_on_a_telephone(
    browser: Browser,
    hosts: Mapping[str, tuple[str, dict[str, str]]],
    axe: str,
    view: str,
) -> None:
    url, sessions = hosts[view]
    with browser.new_context(
        viewport={"width": WIDTH, "height": 740},
        reduced_motion="reduce",
        is_mobile=True,
        has_touch=True,
    ) as telephone:
        look = Look(telephone.new_page(), url)
        {**FIRST_USE, **VIEWS}[view](Shown(look, sessions))

        look.page.emulate_media(color_scheme="dark")
        in_the_dark = violations(look, axe)
        look.page.emulate_media(color_scheme="light")
        assert (in_the_dark, violations(look, axe)) == ([], [])
        assert look.beyond(WIDTH) == []
        assert look.complaints == []
