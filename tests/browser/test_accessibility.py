"""Everybody can use it: axe-core's rules, the keys alone, a narrow screen, either theme."""

from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.axe import violations
from tests.browser.looking import Look
from tests.loopback.agent_server import AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, status, stream, thinking, tool_call

TEXT: Final = """# A heading

A [link](https://example.org), `code` and a list:

- [x] done
- [ ] not done

| one | two |
| --- | --- |
| a very long cell of a table that does not fit | and-another-one-that-cannot-be-broken-anywhere |

```python
print("a line of code that is a good deal longer than any telephone is wide, and then some more")
```
"""


@pytest.fixture(scope="module")
def session(server: AgentServer, provider: ScriptedProvider) -> str:
    """A session with everything in it: thoughts, a tool, a fallback, a question, what waits."""
    session = server.create_session("A session with everything in it, whose title is rather long")
    gate = Gate()
    bash = tool_call("bash", {"command": "echo hello"})
    provider.script("fails", status(429, "Slow down.", {"retry-after": "900"}))
    provider.script("second", thinking("A thought.", answer=TEXT), bash, stream("Half of it", gate))
    server.prompt(session, "A question\nof two lines", "fake/fails")
    server.events.wait_for(lambda event: event["type"] == "session.idle")
    server.prompt(session, "Another", "spare/second")
    asked = server.events.wait_for(lambda event: event["type"] == "permission.asked")
    server.prompt(
        session,
        "It waits, and it is a good deal longer than a telephone is wide, in one line",
        "spare/second",
    )
    assert asked
    return session


def show(look: Look, session: str, view: str) -> None:
    if view == "welcome":
        look.open()
        look.page.locator(".session-link").first.wait_for()
        return
    look.open(session)
    look.page.locator(".question").wait_for()
    if view == "unfolded":
        for summary in look.page.locator("summary").all():
            summary.click()
    elif view == "health":
        look.page.keyboard.press("Alt+h")
        look.page.locator(".health-row").first.wait_for()
    elif view == "help":
        look.page.locator("#help").click()
    elif view == "dialog":
        look.page.locator(f"[data-session='{session}']").hover()
        look.page.get_by_role("button", name="Delete A session").click()


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("view", ["welcome", "chat", "unfolded", "health", "help", "dialog"])
def test_axe_finds_nothing(look: Look, session: str, axe: str, view: str, theme: str) -> None:
    look.page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    show(look, session, view)

    assert violations(look, axe) == []


@pytest.mark.parametrize("view", ["welcome", "chat", "unfolded", "health", "help"])
def test_nothing_is_wider_than_a_telephone(look: Look, session: str, view: str) -> None:
    look.page.set_viewport_size({"width": 360, "height": 740})
    if view == "help":
        show(look, session, "chat")
        look.page.locator("#open-sidebar").click()
        look.page.locator("#help").click()
    elif view == "welcome":
        look.open()
    else:
        show(look, session, view)

    assert look.beyond(360) == []


def test_where_nothing_hovers_what_a_message_and_code_offer_is_shown(
    browser: Browser, server: AgentServer, session: str
) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as phone:
        look = Look(phone.new_page(), server.url)
        show(look, session, "chat")

        for name in ("Copy", "Take this message and all after it back"):
            button = look.page.get_by_role("button", name=name).first
            expect(
                button.locator("xpath=ancestor-or-self::*[contains(@class, 'copy') or self::footer][1]")
            ).to_have_css("opacity", "1")
        assert look.complaints == []


def test_a_session_can_be_begun_where_the_list_is_out_of_sight(look: Look) -> None:
    look.page.set_viewport_size({"width": 360, "height": 740})
    look.open()

    look.page.get_by_role("button", name="Begin a session").click()

    expect(look.draft).to_be_visible()


def test_a_narrow_screen_keeps_the_sessions_in_a_drawer(look: Look, session: str) -> None:
    look.page.set_viewport_size({"width": 360, "height": 740})
    look.open(session)
    link = look.page.locator(f"[data-session='{session}'] a")
    expect(link).not_to_be_visible()

    look.page.get_by_role("button", name="Sessions", exact=True).click()
    expect(link).to_be_visible()
    look.page.keyboard.press("Escape")

    expect(link).not_to_be_visible()
    expect(look.page.locator(".question")).to_be_visible()  # the key closed the drawer and stopped nothing


def test_the_chosen_theme_stays(look: Look) -> None:
    look.page.emulate_media(color_scheme="light")
    look.open()
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = look.page.evaluate(paper)
    look.page.locator("#theme").click()
    look.page.locator("#theme").click()
    dark = look.page.evaluate(paper)

    look.page.reload()

    assert look.page.evaluate(paper) == dark != light


def test_the_keys_alone_lead_everywhere(look: Look, server: AgentServer, provider: ScriptedProvider) -> None:
    provider.script("answers", stream("The answer."))
    look.open()
    keys = look.page.keyboard
    keys.press("Alt+n")
    expect(look.draft).to_be_focused()

    keys.type("What is it?")
    keys.press("Shift+Enter")
    keys.type("Say it.")
    keys.press("Enter")

    look.wait_for_text("The answer.")
    expect(look.page.locator(".typed")).to_have_text("What is it?\nSay it.")
    expect(look.page.locator("#announcer")).to_have_text("The answer is complete.")
    keys.press("Alt+h")
    expect(look.page.locator("h1")).to_have_text("Health")
    keys.press("?")
    expect(look.page.get_by_role("dialog")).to_contain_text("Keyboard")
    keys.press("Escape")
    expect(look.page.get_by_role("dialog")).to_have_count(0)
    assert server.home.directory.exists()
