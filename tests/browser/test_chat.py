"""Prompts and answers: once each, stopped, queued, taken back, asked for, and what is told of them."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.held_routes import HeldRoutes
from tests.browser.looking import Look
from tests.loopback.agent_server import AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, status, stream, thinking, tool_call

pytestmark = pytest.mark.thorough


@pytest.fixture
def gate(provider: ScriptedProvider) -> Iterator[Gate]:
    """The model `fake/answers` says half of its answer, and the rest when this is opened."""
    gate = Gate()
    provider.script("answers", stream("Half of it", gate, " and the rest."), stream("The next answer."))
    yield gate
    gate.open()


@pytest.fixture
def session(server: AgentServer) -> str:
    return server.create_session()


def users(look: Look) -> list[str]:
    return look.page.locator(".message.user .body").all_inner_texts()


def test_a_page_that_is_loaded_again_in_mid_answer_shows_all_of_it(
    look: Look, session: str, gate: Gate
) -> None:
    look.open(session)
    look.say("What is it?")
    look.wait_for_text("Half of it")

    look.page.reload()

    look.wait_for_text("Half of it")
    expect(look.stop).to_be_visible()
    gate.open()
    expect(look.page.locator(".message.assistant .prose")).to_have_text("Half of it and the rest.")


def test_two_tabs_show_the_same(look: Look, session: str, gate: Gate, page: Page) -> None:
    context: BrowserContext = page.context
    other = Look(context.new_page(), look.url)
    look.open(session)
    other.open(session)

    other.say("From the other tab")

    look.wait_for_text("Half of it")
    assert users(look) == ["From the other tab"]
    look.stop.click()
    expect(other.page.locator(".stopped")).to_have_text("Stopped")
    expect(other.stop).to_be_hidden()
    expect(look.stop).to_be_hidden()
    assert look.ids() == other.ids()
    assert other.complaints == []
    assert not gate.opened.done()


def test_enter_twice_sends_one_prompt(look: Look, session: str, provider: ScriptedProvider) -> None:
    provider.script("answers", stream("Once."))
    look.open(session)
    held = HeldRoutes(look.page, lambda url: "prompt_async" in url)
    look.draft.fill("Only once")

    look.draft.press("Enter")
    look.draft.press("Enter")
    look.page.get_by_role("button", name="Send", exact=True).click(force=True)
    held.wait_for(1)
    held.release()

    look.wait_for_text("Once.")
    expect(look.draft).to_have_value("")
    assert len(held.asked) == 1
    assert users(look) == ["Only once"]


def test_a_prompt_whose_answer_was_lost_is_not_sent_twice(
    look: Look, session: str, provider: ScriptedProvider
) -> None:
    """The host has the prompt, but the page cannot know: it sends it again under the same key."""
    provider.script("answers", stream("Once."))
    look.open(session)
    lost = iter([True])

    def lose(route: Route) -> None:
        if next(lost, False):
            route.fetch()
            route.abort()
        else:
            route.continue_()

    look.page.route(lambda url: "prompt_async" in url, lose)
    look.say("Only once")
    expect(look.page.locator(".toast")).to_contain_text("not sent")
    expect(look.draft).to_have_value("Only once")

    look.draft.press("Enter")

    expect(look.draft).to_have_value("")
    look.wait_for_text("Once.")
    assert users(look) == ["Only once"]
    assert len(provider.requests("answers", session=session)) == 1


def test_stop_twice_stops_once_and_leaves_no_mess(
    look: Look, session: str, gate: Gate, provider: ScriptedProvider
) -> None:
    look.open(session)
    look.say("What is it?")
    look.wait_for_text("Half of it")
    calls = []
    look.page.on("request", lambda request: calls.append(request.url) if "cancel" in request.url else None)

    look.page.keyboard.press("Escape")
    look.page.keyboard.press("Escape")

    expect(look.page.locator(".stopped")).to_have_text("Stopped")
    expect(look.stop).to_be_hidden()
    assert len(calls) == 1
    (asked,) = provider.requests("answers", session=session)
    provider.wait_for(lambda: asked.disconnected_at is not None)
    assert not gate.opened.done()


def test_what_waits_is_shown_and_comes_back_into_the_draft_when_all_is_stopped(
    look: Look, session: str, gate: Gate
) -> None:
    look.open(session)
    look.say("First")
    look.wait_for_text("Half of it")
    look.say("Second")
    look.say("Third")
    expect(look.page.locator(".waiting li")).to_have_count(2)
    expect(look.page.locator(".waiting .said")).to_have_text(["Second", "Third"])
    look.draft.fill("And a thought")

    look.stop.click()

    expect(look.draft).to_have_value("And a thought\n\nSecond\n\nThird")
    expect(look.page.locator(".waiting li")).to_have_count(0)
    assert not gate.opened.done()


def test_each_prompt_that_waits_is_edited_or_discarded_by_itself(
    look: Look, session: str, gate: Gate
) -> None:
    look.open(session)
    look.say("First")
    look.wait_for_text("Half of it")
    for text in ("Second", "Third", "Fourth"):
        look.say(text)
    waiting = look.page.locator(".waiting li")
    expect(waiting).to_have_count(3)

    waiting.filter(has_text="Third").get_by_role("button", name="Discard").click()
    expect(waiting).to_have_count(2)
    waiting.filter(has_text="Second").get_by_role("button", name="Edit").click()

    expect(look.draft).to_have_value("Second")
    expect(waiting).to_have_count(1)
    gate.open()
    look.wait_for_text("The next answer.")
    assert users(look) == ["First", "Fourth"]


def test_what_waits_is_answered_when_only_the_answer_is_stopped(look: Look, session: str, gate: Gate) -> None:
    look.open(session)
    look.say("First")
    look.wait_for_text("Half of it")
    look.say("Second")

    look.page.get_by_role("button", name="Answer it now").click()

    look.wait_for_text("The next answer.")
    assert users(look) == ["First", "Second"]
    assert not gate.opened.done()


def test_a_prompt_joins_the_answer_under_way(look: Look, session: str, gate: Gate) -> None:
    look.open(session)
    look.say("First")
    look.wait_for_text("Half of it")
    look.draft.fill("Also this")

    look.draft.press("Control+Enter")

    expect(look.page.locator(".waiting .state")).to_have_text("Joins this answer")
    gate.open()
    look.wait_for_text("The next answer.")
    expect(look.page.locator(".waiting li")).to_have_count(0)
    assert users(look) == ["First", "Also this"]


def test_a_message_is_taken_back_into_the_draft_and_restored(
    look: Look, session: str, provider: ScriptedProvider
) -> None:
    provider.script("answers", stream("The answer."))
    look.open(session)
    look.say("A question")
    look.wait_for_text("The answer.")
    expect(look.stop).to_be_hidden()

    look.page.keyboard.press("Alt+z")

    expect(look.messages).to_have_count(0)
    expect(look.draft).to_have_value("A question")
    look.page.get_by_role("button", name="Restore them").click()
    expect(look.messages).to_have_count(2)
    expect(look.page.locator(".reverted")).to_be_hidden()


def test_a_fork_holds_what_stands_before_a_message(
    look: Look, session: str, provider: ScriptedProvider
) -> None:
    provider.script("answers", stream("The answer."))
    look.open(session)
    for text in ("One", "Two"):
        look.say(text)
        expect(look.page.locator(".took")).to_have_count(1 if text == "One" else 2)

    look.page.locator(".message.user").nth(1).hover()
    look.page.locator(".message.user").nth(1).get_by_role("button", name="Begin a new session").click()

    expect(look.page.locator("h1")).to_have_text("A test (fork)")
    expect(look.messages).to_have_count(2)
    assert users(look) == ["One"]


@pytest.mark.parametrize(("choice", "outcome"), [("Allow once", "Done"), ("Reject", "Failed")])
def test_a_question_is_answered(
    look: Look, session: str, provider: ScriptedProvider, choice: str, outcome: str
) -> None:
    provider.script("answers", tool_call("bash", {"command": "echo from the shell"}), stream("So be it."))
    look.open(session)
    look.say("Run it")
    expect(look.page.locator(".question pre")).to_have_text("echo from the shell")

    look.page.get_by_role("button", name=choice).click()

    expect(look.page.locator(".question")).to_have_count(0)
    expect(look.page.locator(".tool-status")).to_contain_text(outcome)
    expect(look.stop).to_be_hidden()


def test_tool_calls_and_thoughts_are_folded_and_open(
    look: Look, session: str, provider: ScriptedProvider
) -> None:
    provider.script(
        "answers",
        tool_call("bash", {"command": "echo from the shell"}),
        thinking("Let me see.", answer="Seen."),
    )
    look.open(session)
    look.say("Run it")
    look.page.get_by_role("button", name="Always in this session").click()
    look.wait_for_text("Seen.")
    expect(look.page.get_by_text("Let me see.")).to_have_count(0)

    for summary in look.page.locator(".fold > summary").all():
        summary.click()

    expect(look.page.get_by_text("Let me see.")).to_be_visible()
    expect(look.page.get_by_label("Output")).to_contain_text("from the shell")


def test_an_answer_is_marked_with_the_model_that_failed_also_after_a_reload(
    look: Look, session: str, provider: ScriptedProvider
) -> None:
    provider.script("fails", status(429, "Slow down.", {"retry-after": "3600"}))
    provider.script("second", stream("From the second."))
    look.open(session)
    look.page.get_by_label("Model").select_option("fake/fails")
    look.say("Who answers?")
    look.wait_for_text("From the second.")
    mark = look.page.locator(".fallback")
    expect(mark.locator("summary")).to_contain_text("fake/failsrate limited (429), until ")
    expect(look.page.locator(".toast").first).to_contain_text("fake/fails: rate limited")

    look.page.reload()

    expect(mark.locator("summary")).to_contain_text("spare/second")
    mark.locator("summary").click()
    expect(mark.locator("dl")).to_contain_text("Slow down.")
    expect(mark.locator("dt", has_text="Resets")).to_be_visible()
    expect(look.page.locator(".assistant .byline")).to_have_text("spare/secondbuild")
    look.page.keyboard.press("Alt+h")
    row = look.page.locator(".health-row", has_text="fake/fails")
    expect(row).to_have_attribute("data-state", "closed")
    expect(row).to_contain_text("Resting for 60 min")
    expect(look.page.locator(".switch").first).to_contain_text("fake/fails→spare/second")
    look.page.go_back()
    look.page.get_by_label("Model").select_option("fake/fails")
    look.say("And now?")
    expect(mark).to_have_count(2)
    expect(mark.nth(1).locator("summary")).to_contain_text("fake/failsrate limited, until ")
    assert len(provider.requests("fails", session=session)) == 1


def test_the_page_goes_along_when_a_session_goes_on_under_another_id(
    look: Look, session: str, provider: ScriptedProvider
) -> None:
    provider.script("answers", stream("The answer."), stream("The summary."), stream("The next answer."))
    look.open(session)
    look.say("A question")
    look.wait_for_text("The answer.")
    expect(look.stop).to_be_hidden()
    look.draft.fill("Written meanwhile")

    model = {"providerID": "fake", "modelID": "answers"}
    assert httpx2.post(f"{look.url}/session/{session}/summarize", json=model, timeout=20).json() is True

    expect(look.page.locator(".divider")).to_be_visible()
    look.wait_for_text("The summary.")
    assert session not in look.page.url
    expect(look.draft).to_have_value("Written meanwhile")
    look.say("And now?")
    look.wait_for_text("The next answer.")
    expect(look.page.locator(".session-list li a[aria-current]")).to_have_count(1)


def test_a_session_is_named_and_deleted(look: Look, session: str) -> None:
    look.open(session)
    row = look.page.locator(f"[data-session='{session}']")
    row.hover()
    row.get_by_role("button", name="Rename").click()
    look.page.get_by_role("textbox", name="Name").fill("<b>Another</b> name")
    look.page.keyboard.press("Enter")
    expect(look.page.locator("h1")).to_have_text("<b>Another</b> name")

    row.hover()
    row.get_by_role("button", name="Delete").click()
    look.page.get_by_role("dialog").get_by_role("button", name="Delete").click()

    expect(row).to_have_count(0)
    expect(look.page.locator("h1")).to_have_text("Sessions")


def test_each_session_keeps_its_draft(look: Look, session: str, server: AgentServer) -> None:
    other = server.create_session("Another")
    look.open(session)
    look.draft.fill("For the first")
    look.switch_to(other)
    expect(look.draft).to_have_value("")
    look.draft.fill("For the other")

    look.switch_to(session)

    expect(look.draft).to_have_value("For the first")
    look.page.reload()
    expect(look.draft).to_have_value("For the first")


def test_an_answer_goes_on_while_another_session_is_looked_at(
    look: Look, session: str, server: AgentServer, gate: Gate
) -> None:
    other = server.create_session("Another")
    look.open(session)
    look.say("What is it?")
    look.wait_for_text("Half of it")
    look.switch_to(other)
    expect(look.page.locator(f"[data-session='{session}'] .session-note")).to_have_text("Working")
    expect(look.stop).to_be_hidden()

    gate.open()

    expect(look.page.locator(f"[data-session='{session}'] .session-note")).not_to_have_text("Working")
    look.switch_to(session)
    look.wait_for_text("Half of it and the rest.")
