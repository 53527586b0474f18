"""Whatever a model, a file or a provider is called or says: it is text, and runs and loads nothing."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import SETTINGS
from tests.browser.looking import Look
from tests.loopback.agent_server import AgentHome, AgentServer
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import status, stream, thinking, tool_call

pytestmark = pytest.mark.thorough


PAYLOADS: Final = (
    "<script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "<img src=https://elsewhere.invalid/pixel.png>",
    "![x](https://elsewhere.invalid/pixel.png)",
    "![x](javascript:window.ran=1)",
    "<svg onload='window.ran = 1'><script>window.ran = 1</script></svg>",
    "<svg><animate onbegin='window.ran=1' attributeName=x dur=1s></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.ran=1></style></mglyph></table>",
    "<iframe srcdoc='<script>parent.ran = 1</script>'></iframe>",
    "<object data='data:text/html,<script>parent.ran=1</script>'></object>",
    "<embed src='javascript:window.ran=1'>",
    "<form action='https://elsewhere.invalid'><button>Press</button></form>",
    "<input autofocus onfocus='window.ran = 1'>",
    "<details open ontoggle='window.ran = 1'><summary>x</summary></details>",
    "<video><source onerror='window.ran = 1'></video>",
    "<a href='javascript:window.ran=1' id=clicked>press me</a>",
    "[press me](javascript:window.ran=1)",
    "[press me](JaVaScRiPt&colon;window.ran=1)",
    "[press me](data:text/html;base64,PHNjcmlwdD53aW5kb3cucmFuPTE8L3NjcmlwdD4=)",
    "[press me](vbscript:window.ran=1)",
    "<a href='\x01javascript:window.ran=1'>press me</a>",
    "<style>@import 'https://elsewhere.invalid/x.css'; body { display: none }</style>",
    "<div style='position:fixed;inset:0;background:url(https://elsewhere.invalid/x)'>covers</div>",
    "<link rel=stylesheet href=https://elsewhere.invalid/x.css>",
    "<base href=https://elsewhere.invalid/>",
    "<meta http-equiv=refresh content='0;url=https://elsewhere.invalid'>",
    "<p id=draft name=body class=toast>clobbers</p>",
    "```html\n<script>window.ran = 1</script>\n```",
    "`<img src=x onerror=window.ran=1>`",
    "</div></article><script>window.ran = 1</script>",
    "<noscript><p title='</noscript><img src=x onerror=window.ran=1>'></noscript>",
    "<template><script>window.ran=1</script></template>",
    "{{constructor.constructor('window.ran=1')()}}",
)

NAME: Final = "<img src=x onerror=window.ran=1>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> Iterator[AgentServer]:
    models = {"fake": ["answers", "fails", NAME], "spare": ["second", NAME]}
    settings = SETTINGS.replace("spare/third", f"spare/{NAME}")
    with AgentServer(AgentHome(tmp_path_factory.mktemp("host"), provider, models, settings)) as server:
        yield server


def assert_harmless(look: Look, elsewhere: list[str]) -> None:
    for link in look.page.get_by_text("press me").all():
        link.click(no_wait_after=True)
    look.page.wait_for_timeout(100)
    assert look.page.evaluate("() => window.ran") is None
    assert elsewhere == []
    assert look.complaints == []
    assert (
        look.page.locator(
            "main :is(script, iframe, object, embed, form:not(.composer), style, link, meta)"
        ).count()
        == 0
    )
    assert look.page.locator(".prose :is([id], [name], [style])").count() == 0


@pytest.fixture
def elsewhere(look: Look) -> list[str]:
    """What was asked of any other server."""
    asked: list[str] = []
    look.page.on(
        "request",
        lambda request: None if request.url.startswith((look.url, "data:")) else asked.append(request.url),
    )
    return asked


def test_an_answer_runs_nothing(
    look: Look, server: AgentServer, provider: ScriptedProvider, elsewhere: list[str]
) -> None:
    text = "\n\n".join(PAYLOADS) + "\n\nThe end."
    provider.script("answers", stream(*[text[at : at + 40] for at in range(0, len(text), 40)]))
    look.open(server.create_session())
    look.say("\n".join(PAYLOADS))

    look.wait_for_text("The end.")

    expect(look.page.locator(".typed")).to_have_text("\n".join(PAYLOADS))
    assert_harmless(look, elsewhere)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_each_alone_runs_nothing(look: Look, payload: str, elsewhere: list[str]) -> None:
    look.open()

    look.page.evaluate(
        """async (text) => {
            const { rendered } = await import('/web/markdown.js');
            const box = document.createElement('div');
            box.className = 'prose';
            box.append(rendered(text));
            document.querySelector('main').append(box);
        }""",
        payload,
    )

    assert_harmless(look, elsewhere)


def test_names_and_outputs_are_text(
    look: Look, server: AgentServer, provider: ScriptedProvider, elsewhere: list[str]
) -> None:
    provider.script(
        NAME,
        tool_call("read", {"path": f"{NAME}.txt"}),
        thinking(*PAYLOADS, answer="Thought."),
    )
    provider.script("fails", status(429, f"Slow down, {NAME}"))
    provider.script("second", status(503, NAME))
    (server.home.directory / f"{NAME}.txt").write_text("\n".join(PAYLOADS))
    look.open(server.create_session(f"{NAME} {PAYLOADS[0]}"))
    look.page.get_by_label("Model").select_option("fake/fails")
    look.say(NAME)
    question = look.page.get_by_role("button", name="Allow once")
    done = look.page.locator(".message.assistant", has_text="Thought.")
    expect(question.or_(done)).to_be_visible()
    if question.is_visible():
        question.click()
    done.wait_for()

    for summary in look.page.locator("summary").all():
        summary.click()
    expect(look.page.locator(".fallback .model").first).to_have_text("fake/fails")
    expect(look.page.locator("h1")).to_contain_text("<script>")
    assert_harmless(look, elsewhere)
    look.page.keyboard.press("Alt+h")
    expect(look.page.locator(".health-row", has_text=NAME)).to_be_visible()
    assert_harmless(look, elsewhere)


def test_the_policy_runs_no_inline_script(look: Look) -> None:
    def add_script(route: Route) -> None:
        answer = route.fetch()
        inline = "<script>window.ran = 1</script><p onclick='window.ran = 1' id=inline>press me</p></body>"
        route.fulfill(response=answer, body=answer.text().replace("</body>", inline))

    look.page.route(f"{look.url}/", add_script)
    look.open()
    look.page.locator("#inline").dispatch_event("click")

    assert look.page.evaluate("() => window.ran") is None
    assert len([each for each in look.complaints if "Content Security Policy" in each]) >= 2
    look.complaints.clear()


def test_the_policy_stops_what_the_sanitiser_would_let_through(look: Look) -> None:
    look.open()

    look.page.evaluate(
        """() => {
            const script = document.createElement('script');
            try { script.text = 'window.ran = 1'; } catch { return; }
            document.body.append(script);
        }"""
    )

    assert look.page.evaluate("() => window.ran") is None
    assert look.complaints != []
    look.complaints.clear()
