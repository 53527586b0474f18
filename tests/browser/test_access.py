"""Ways to the page other than the plain one: with a password, and over a connection that is not secure."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import MODELS, SETTINGS
from tests.browser.looking import Look
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream

PASSWORD = "open sesame"  # noqa: S105 -- of a host that lives as long as the test


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> Iterator[AgentServer]:
    home = AgentHome(tmp_path_factory.mktemp("host"), provider, MODELS, SETTINGS)
    with AgentServer(home, password=PASSWORD) as server:
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of a browser that was given the password, as a person gives it once."""
    with browser.new_context(http_credentials={"username": "opencode", "password": PASSWORD}) as context:
        page = context.new_page()
        page.set_default_timeout(10_000)
        yield page


def assert_answers_stream(look: Look, provider: ScriptedProvider) -> None:
    gate = Gate()
    provider.script("answers", stream("Half of it", gate, " and the rest."))
    look.page.get_by_role("button", name="New session").click()
    look.say("What is it?")
    look.wait_for_text("Half of it")
    gate.open()
    look.wait_for_text("Half of it and the rest.")
    expect(look.stop).to_be_hidden()
    expect(look.page.locator("#connection")).to_be_hidden()


def test_a_password_is_asked_for_once_and_covers_calls_and_events(
    look: Look, provider: ScriptedProvider
) -> None:
    look.open()

    assert_answers_stream(look, provider)


def test_without_the_password_there_is_no_page(browser: Browser, server: AgentServer) -> None:
    with browser.new_context() as context:
        answer = context.request.get(server.url)

    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.thorough
def test_an_address_that_holds_the_password_works(
    browser: Browser, server: AgentServer, provider: ScriptedProvider
) -> None:
    address = urlsplit(server.url)
    with browser.new_context() as context:
        look = Look(context.new_page(), f"http://opencode:{PASSWORD}@{address.netloc}".replace(" ", "%20"))
        look.open()

        assert_answers_stream(look, provider)
        assert look.complaints == []


@pytest.mark.thorough
def test_a_connection_that_is_not_secure_works(
    look: Look, server: AgentServer, provider: ScriptedProvider
) -> None:
    """As from another machine: a browser keeps locks, the clipboard and more from such a page."""
    look.url = server.url.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 -- the one address here that is not secure
    look.open()
    assert look.page.evaluate("() => isSecureContext") is False

    assert_answers_stream(look, provider)
    provider.script("answers", stream("```\nto be copied\n```"))
    look.say("Some code")
    copy = look.page.get_by_role("button", name="Copy")
    copy.wait_for()
    expect(look.stop).to_be_hidden()
    copy.click()
    assert look.page.evaluate("() => getSelection().toString().trim()") == "to be copied"
    look.complaints.clear()  # the browser notes that a policy of the page is for secure connections
