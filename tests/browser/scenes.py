"""Every view of the page, and how it is reached: for the pictures, and for what holds of each of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.browser.looking import Look
from tests.browser.seeding import seeded
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import Gate, status, stream, thinking, tool_call

MODELS: Final = {
    "anthropic": ["claude-sonnet-4-5"],
    "openai": ["gpt-5.1"],
    "google": ["gemini-3-pro"],
    "ollama": ["qwen3-coder"],
}

SETTINGS: Final = """
[serve]
model = "anthropic/claude-sonnet-4-5"

[fallback]
fallback_models = ["openai/gpt-5.1", "ollama/qwen3-coder"]

[agents.plan]
fallback_models = ["anthropic/claude-sonnet-4-5", "google/gemini-3-pro", "openai/gpt-5.1"]

[permissions]
read = "allow"
"""

QUESTION: Final = """The login test fails on CI only. Can you find out why?

It passes on my machine every time."""

ANSWER: Final = """The test compares against the machine's local time zone, and the CI image has no zone \
data, so `zoneinfo` falls back to UTC.

1. Pin the zone in the fixture.
2. Add `tzdata` to the test extra, so that it does not depend on the image.

```python
@pytest.fixture
def clock() -> Clock:
    return Clock(ZoneInfo("Europe/Berlin"), now=datetime(2026, 3, 29, 1, 59))
```

| image | zone data | result |
| --- | --- | --- |
| `python:3.11` | yes | passes |
| `python:3.11-slim` | no | fails at 02:00 |

I changed [the fixture](https://example.org) and ran the suite: **112 passed**."""

THOUGHT: Final = "It fails on CI only, so what differs is the machine: its clock, its zone data, its locale."


@dataclass(frozen=True)
class Shown:
    """A host with sessions of every kind, and the page before it."""

    look: Look
    sessions: Mapping[str, str]

    def open(self, name: str) -> None:
        """Show a session; its end is in sight."""
        self.look.open(self.sessions[name])
        self.look.page.locator(".message").last.wait_for()


def unfolded(shown: Shown) -> None:
    """Show a conversation with everything opened that is folded."""
    shown.open("Login test fails on CI only")
    for summary in shown.look.page.locator("summary").all():
        summary.click()
    shown.look.page.locator(".fallback").scroll_into_view_if_needed()


def middle(shown: Shown) -> None:
    """Show the middle of a long session, where both jumps are offered."""
    shown.open("A long session")
    shown.look.scroll(1_500)
    shown.look.page.get_by_role("button", name="Latest").wait_for()


def empty(shown: Shown) -> None:
    """Show a session in which nothing was said."""
    shown.look.open(shown.sessions["Nothing said yet"])
    shown.look.page.locator(".empty").wait_for()


def welcome(shown: Shown) -> None:
    """Show what is there when no session is chosen."""
    shown.look.open()
    shown.look.page.locator(".session-link").first.wait_for(state="attached")


def health(shown: Shown) -> None:
    """Show the health of all models."""
    welcome(shown)
    shown.look.page.keyboard.press("Alt+h")
    shown.look.page.locator(".health-row").first.wait_for()


def drawer(shown: Shown) -> None:
    """Show the list of sessions, which a narrow screen keeps in a drawer."""
    shown.open("Login test fails on CI only")
    opener = shown.look.page.locator("#open-sidebar")
    if opener.is_visible():
        opener.click()
    else:
        shown.look.page.locator(".session-link").nth(1).hover()


def offline(shown: Shown) -> None:
    """Show that the host is away, with what is said when a prompt cannot be sent."""
    shown.open("Login test fails on CI only")
    shown.look.page.context.set_offline(True)
    shown.look.page.locator("#connection").wait_for()
    shown.look.say("And does it pass now?")
    shown.look.page.locator(".toast").first.wait_for()


def taken_back(shown: Shown) -> None:
    """Show that messages were taken back; the first time, take them back."""
    shown.look.open(shown.sessions["Typo in the changelog"])
    reverted = shown.look.page.locator(".reverted")
    shown.look.messages.first.or_(reverted).first.wait_for()
    if reverted.is_hidden():
        shown.look.page.keyboard.press("Alt+z")
    reverted.wait_for()


def dialog(shown: Shown) -> None:
    """Show the question before something is deleted."""
    drawer(shown)
    row = shown.look.page.locator(".session-list li").nth(1)
    row.hover()
    row.get_by_role("button", name="Delete").click()


def keyboard(shown: Shown) -> None:
    """Show the list of keys."""
    welcome(shown)
    shown.look.page.keyboard.press("?")


def first_health(shown: Shown) -> None:
    """Show the health of a host without a chain."""
    shown.look.page.goto(f"{shown.look.url}/#/health")
    shown.look.page.locator(".chains .empty").wait_for()


def opened(name: str) -> "View":
    """Return what shows a session."""
    return lambda shown: shown.open(name)


View: TypeAlias = Callable[[Shown], None]

VIEWS: Final[Mapping[str, View]] = {
    "welcome": welcome,
    "chat": opened("Login test fails on CI only"),
    "unfolded": unfolded,
    "busy": opened("Upgrade the payment client"),
    "question": opened("Flaky search test"),
    "held": opened("Docs: explain sessions"),
    "failed": opened("Which models are left"),
    "empty": empty,
    "long": middle,
    "drawer": drawer,
    "dialog": dialog,
    "keyboard": keyboard,
    "offline": offline,
    "taken-back": taken_back,
    "health": health,
}

FIRST_USE: Final[Mapping[str, View]] = {
    "first-use": lambda shown: shown.look.open(),
    "first-health": first_health,
}
"""What a host shows in which nothing has happened yet."""


class Conversations:
    """Sessions of every kind, as they come about on a host."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self._provider = provider
        self.gate = Gate()

    def before_a_restart(self, server: AgentServer) -> dict[str, str]:
        """Leave prompts behind that the next host holds."""
        title = "Docs: explain sessions"
        session = server.create_session(title)
        self._provider.script("gpt-5.1", stream("I begin with what a session is and ", self.gate))
        server.prompt(session, "Explain sessions in the docs", "openai/gpt-5.1")
        server.events.wait_for(lambda event: event["type"] == "message.part.delta")
        server.prompt(session, "Then add an example of a fork", "openai/gpt-5.1")
        server.prompt(
            session, "And check the links, also those of the pages that nobody has looked at for a year"
        )
        return {title: session}

    def after_it(self, server: AgentServer) -> dict[str, str]:
        """Have the rest of the conversations."""
        script = self._provider.script
        limited = status(429, "Number of requests has exceeded your rate limit.", {"retry-after": "1260"})
        made = {
            title: server.create_session(title)
            for title in (
                "Nothing said yet",
                "Which models are left",
                "Typo in the changelog",
                "Flaky search test",
                "Upgrade the payment client",
                "Login test fails on CI only",
            )
        }
        script("qwen3-coder", status(400, "This model does not support tools."))
        server.prompt(made["Which models are left"], "Which models are left?", "ollama/qwen3-coder")
        self._wait_until_idle(server, made["Which models are left"])

        script("gpt-5.1", stream("It says *recieve* twice; both are mended."))
        server.prompt(made["Typo in the changelog"], "There is a typo in the changelog", "openai/gpt-5.1")
        self._wait_until_idle(server, made["Typo in the changelog"])

        look = tool_call("bash", {"command": "grep -rn 'astimezone' tests | head"})
        script("claude-sonnet-4-5", look, limited)
        script("gpt-5.1", tool_call("read", {"path": "README.md"}), thinking(THOUGHT, answer=ANSWER))
        asked = server.events.position
        server.prompt(made["Login test fails on CI only"], QUESTION)
        self._allow(server, asked)
        self._wait_until_idle(server, made["Login test fails on CI only"])

        script("gpt-5.1", tool_call("bash", {"command": "pytest -x --count 200 tests/test_search.py"}))
        asked = server.events.position
        server.prompt(made["Flaky search test"], "Run it two hundred times", "openai/gpt-5.1")
        server.events.wait_for(lambda event: event["type"] == "permission.asked", since=asked)

        script(
            "gemini-3-pro",
            stream("The client has a new major version. What changes for us:\n\n- ", self.gate),
        )
        client = made["Upgrade the payment client"]
        asked = server.events.position
        server.prompt(client, "Upgrade the payment client", "google/gemini-3-pro")
        server.events.wait_for(lambda event: event["type"] == "message.part.delta", since=asked)
        server.prompt(client, "Then look for other clients that are two versions behind, and list them")
        server.prompt(client, "Leave the sandbox keys as they are", delivery="steer")
        return made

    def _allow(self, server: AgentServer, since: int) -> None:
        question = server.events.wait_for(lambda event: event["type"] == "permission.asked", since=since)
        server.reply_to_permission(question["properties"]["id"], "once")

    def _wait_until_idle(self, server: AgentServer, session: str) -> None:
        server.events.wait_for(
            lambda event: event["type"] == "session.idle" and event["properties"]["sessionID"] == session
        )


@contextmanager
def first_use(provider: ScriptedProvider, root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a host that nobody has used, without a chain."""
    with AgentServer(AgentHome(root, provider, MODELS)) as server:
        yield server.url, {}


@contextmanager
def in_use(provider: ScriptedProvider, root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a host with every kind of session."""
    home = AgentHome(root, provider, MODELS, SETTINGS)
    (home.directory / "README.md").write_text("# A shop\n")
    sessions = seeded(home.data, {"A long session": 600})
    conversations = Conversations(provider)
    with AgentServer(home) as server:
        sessions |= conversations.before_a_restart(server)
        server.kill()
    with AgentServer(home) as server:
        yield server.url, sessions | conversations.after_it(server)
