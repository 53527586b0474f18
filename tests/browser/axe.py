"""What axe-core has against a page."""

from tests.browser.looking import Look


def violations(look: Look, axe: str) -> list[str]:
    look.page.wait_for_timeout(300)  # what fades in has its own colour by then
    look.page.evaluate(axe)
    found = look.page.evaluate(
        "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
    )
    return [
        f"{each['impact']} {each['id']}: {[node['target'] for node in each['nodes']]}"
        for each in found
        if each["impact"] in {"serious", "critical", "moderate"}
    ]
