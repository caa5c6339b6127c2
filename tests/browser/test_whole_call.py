"""One call from its first word to what an operator sees of it: spoken, interrupted, its gateway killed, then read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.test_talk import ANSWER, HEARD, INTERRUPT, STATE, STORY, end, page_url, start
from tests.browser.test_timeline import READY
from tests.gateway.reading import TOKEN
from tests.support.browser import LEAD_S, opened, spoken, texts
from tests.support.up import Up, up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def service() -> Iterator[Up]:
    """Two gateways whose recorded calls can be read, and a worker with ``cascade``."""
    os.environ["DUPLEX_ES_OPERATOR_TOKEN"] = TOKEN
    try:
        with up("cascade", gateways=2) as running:
            yield running
    finally:
        del os.environ["DUPLEX_ES_OPERATOR_TOKEN"]


async def test_a_call_is_held_interrupted_and_saved_and_its_timeline_tells_all_of_it(
    service: Up, tmp_path: Path
) -> None:
    microphone = spoken(tmp_path / "story.wav", LEAD_S, STORY, 8.0, INTERRUPT, 60.0, rate_hz=16_000)
    async with opened(page_url(service.urls[0]), microphone=microphone) as tab:
        page = tab.page
        await start(page)
        await page.locator(f"{ANSWER}[data-state=interrupted]").wait_for()
        await page.locator(f"{ANSWER}[data-state=done]").wait_for()
        await page.wait_for_function(HEARD, arg=700)
        service.kill_gateway(service.urls[0])
        # Not by the state in between: it may be over before the page is looked at.
        await page.locator("#resumes", has_text="once").wait_for()
        await page.wait_for_function(STATE, arg="open")
        answered = (await texts(page, f"{ANSWER}[data-state=done] .turn-text"))[0]
        await end(page)
        tab.expect("ERR_CONNECTION_REFUSED", "WebSocket")
    async with opened(f"{page_url(service.urls[1])}sessions", size=(1280, 1180)) as tab:
        page = tab.page
        await page.get_by_label("Operator token").fill(TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await page.locator("table.calls a").first.click()
        await page.wait_for_function(READY)
        turns = page.get_by_role("list", name="Turns")
        await turns.get_by_text("cancelled").first.wait_for()
        said = turns.locator("li.assistant").last.get_by_role("button")
        assert answered.split()[0] in await said.inner_text()
        await said.click()
        await page.get_by_test_id("raw").filter(has_text="response.created").wait_for()
        await page.get_by_role("button", name="Play", exact=True).click()
        first = answered.split()[0]
        await page.get_by_test_id("assistant-words").filter(has_text=first).wait_for()
        await tab.shot("timeline-whole-call")
        lanes = await page.evaluate("() => duplexTimeline.doc.marks")
        assert len([mark for mark in lanes["sockets"] if mark["kind"] == "socket"]) == 2
