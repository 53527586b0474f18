"""The page is there, talks to the host, and shows an answer as it comes."""

import re

import httpx2
import pytest
from playwright.sync_api import expect

from fallback_plugin.agent.http.page import FOLDER, INDEX, POLICY
from tests.browser.looking import Look
from tests.loopback.agent_server import AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, stream


def test_an_answer_is_shown_while_it_comes(look: Look, provider: ScriptedProvider) -> None:
    gate = Gate()
    provider.script("answers", stream("Half of **it**", gate, " and the rest."))
    look.open()
    look.page.get_by_role("button", name="New session").click()

    look.say("What is it?")

    look.wait_for_text("Half of it")
    expect(look.page.locator(".message.assistant strong")).to_have_text("it")
    expect(look.stop).to_be_visible()
    gate.open()
    look.wait_for_text("Half of it and the rest.")
    expect(look.stop).to_be_hidden()
    expect(look.messages).to_have_count(2)


@pytest.mark.parametrize(
    "path", ["/", "/web/main.js", "/web/vendor/marked/marked.esm.js", "/web/styles/tokens.css"]
)
def test_a_file_comes_with_the_policy_and_is_sent_once(path: str, server: AgentServer) -> None:
    first = httpx2.get(f"{server.url}{path}")

    again = httpx2.get(f"{server.url}{path}", headers={"if-none-match": first.headers["etag"]})

    assert first.status_code == 200
    assert first.headers["content-security-policy"] == POLICY
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {}, 200),
        ("/session", {}, 200),
        ("/session/nobody", {}, 404),
        ("/nothing", {}, 404),
        ("/event?after=x", {}, 400),
        ("/session", {"origin": "https://elsewhere.invalid"}, 403),
        ("/session", {"host": "elsewhere.invalid"}, 421),
    ],
)
def test_no_answer_is_taken_for_something_else(
    path: str, headers: dict[str, str], status: int, server: AgentServer
) -> None:
    answer = httpx2.get(f"{server.url}{path}", headers=headers)

    assert answer.status_code == status
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


def test_neither_is_a_stream_of_events(server: AgentServer) -> None:
    with httpx2.stream("GET", f"{server.url}/event") as answer:
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/web/",
        "/web/index.html",
        "/web/../page.py",
        "/web/%2e%2e/page.py",
        "/web/..%2fpage.py",
        "/web//main.js",
    ],
)
def test_no_other_path_leads_to_a_file(path: str, server: AgentServer) -> None:
    assert httpx2.get(f"{server.url}{path}").status_code == 404


def test_a_page_that_is_there_needs_no_further_file(look: Look, server: AgentServer) -> None:
    """What is first shown while the host is away, such as a note with its button, has all it needs."""
    session = server.create_session()
    look.open()
    expect(look.page.locator(f"[data-session='{session}']")).to_be_visible()
    asked: list[str] = []
    look.page.on("request", lambda request: asked.append(request.url) if "/web/" in request.url else None)

    look.switch_to(session)
    look.page.locator(f"[data-session='{session}']").hover()
    look.page.keyboard.press("Alt+h")
    look.page.keyboard.press("?")
    look.page.context.set_offline(True)
    expect(look.page.locator("#connection")).to_be_visible()

    assert {*asked} <= {f"{look.url}/web/mark.svg"}  # the browser's own, for the tab


def test_every_module_is_asked_for_at_once() -> None:
    """A browser would find one module in the other, with a way to the host and back for each level."""
    modules = {
        file.relative_to(FOLDER).as_posix()
        for suffix in ("js", "mjs")
        for file in FOLDER.rglob(f"*.{suffix}")
    }

    named = re.findall(r'(?:modulepreload" href|script.* src)="/web/([^"]+)"', (FOLDER / INDEX).read_text())

    assert sorted(named) == sorted(modules)


def test_every_file_of_the_page_is_served_as_what_it_is(server: AgentServer) -> None:
    types = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    with httpx2.Client(base_url=server.url) as http:
        for file in FOLDER.rglob("*"):
            if wanted := types.get(file.suffix):
                answer = http.get(f"/web/{file.relative_to(FOLDER).as_posix()}")
                assert answer.headers["content-type"].partition(";")[0] == wanted
                assert answer.content == file.read_bytes()
