"""The timeline in a real browser: open, scrub, listen, read, jump, compare, follow; and as a file without a service."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page

from duplex_es.log.memory import MemoryLog
from duplex_es.tools.log import report
from tests.browser.test_access import axe, violations
from tests.gateway.reading import TOKEN
from tests.gateway.stage import Gateway, running
from tests.support.browser import Tab, opened
from tests.support.call_files import arguments
from tests.support.long_call import SCRIPT
from tests.support.recorded_call import RecordedCall, record_call

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

READY = """
() => window.duplexTimeline?.width > 0 && [...duplexTimeline.peaks.tiles.values()].every((tile) => tile.bins)
"""
AT = "() => duplexTimeline.cursor"
NOTHING = "\N{EN DASH}"
SPAN = "() => duplexTimeline.view[1] - duplexTimeline.view[0]"
MIDDLE = "(at) => duplexTimeline.x(at)"


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def gateway(log: MemoryLog) -> AsyncIterator[Gateway]:
    await record_call(log)
    async with running(log, operator_token=TOKEN, pages="on") as gateway:
        yield gateway


def url(gateway: Gateway, path: str) -> str:
    return f"http://127.0.0.1:{gateway.port}{path}"


async def sign_in(page: Page) -> None:
    """Say the token, as a person does."""
    await page.get_by_label("Operator token").fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()


async def signed_in(tab: Tab) -> Page:
    """The page of a call, with all its peaks."""
    await sign_in(tab.page)
    await tab.page.wait_for_function(READY)
    return tab.page


ANYTHING = ".*"


async def reads(page: Page, caller: str, assistant: str) -> None:
    """Wait until the page says that this is said at the cursor; the assistant's words may go on after it."""
    for who, words in (("caller", f"^{caller}$"), ("assistant", f"^{assistant}")):
        await page.get_by_test_id(f"{who}-words").filter(has_text=re.compile(words)).wait_for()


async def scrub(page: Page, at_ms: float) -> None:
    """Press on the ruler where this time is."""
    x = await page.evaluate(MIDDLE, at_ms)
    box = await page.locator("canvas.lanes").first.bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + x, box["y"] + 8)
    await page.wait_for_function(f"() => Math.abs(duplexTimeline.cursor - {at_ms}) < 40")


async def test_calls_are_listed_for_whoever_knows_the_token_and_for_nobody_else(gateway: Gateway) -> None:
    async with opened(url(gateway, "/sessions")) as tab:
        page = tab.page
        await page.get_by_label("Operator token").fill("not-the-token-at-all")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("alert").filter(has_text="not the operator token").wait_for()
        tab.expect("401")
        await sign_in(page)
        await page.get_by_role("link", name="call-1").wait_for()
        await tab.shot("sessions")
        await page.get_by_label("State").select_option("waiting")
        await page.get_by_text("No call is like that.").wait_for()
        await page.wait_for_url("**/sessions?state=waiting")
        await page.get_by_label("State").select_option("")
        await page.get_by_role("link", name="call-1").click()
        await page.wait_for_function(READY)
        await page.goto(url(gateway, "/sessions"))
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Operator token").wait_for()


async def test_without_a_token_configured_the_pages_say_what_to_do(log: MemoryLog) -> None:
    async with running(log, pages="on") as gateway, opened(url(gateway, "/sessions/call-1")) as tab:
        await tab.page.get_by_text("--operator-token-file").wait_for()
        assert await tab.page.locator("canvas").count() == 0


async def test_a_call_is_scrubbed_played_and_read(gateway: Gateway) -> None:
    async with opened(url(gateway, "/sessions/call-1")) as tab:
        page = await signed_in(tab)
        await tab.shot("timeline")
        await scrub(page, 1_000)
        await reads(page, "How is the weather\\?", f"{NOTHING}$")
        await scrub(page, 5_100)
        await reads(page, NOTHING, "Once upon$")
        await page.get_by_role("button", name="Play").click()
        await page.wait_for_function("() => duplexTimeline.cursor > 5_700")
        await reads(page, ANYTHING, "Once upon a")
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("button", name="as generated").click()
        await scrub(page, 7_500)
        await reads(page, ANYTHING, "Once upon a time there was")


async def test_a_seq_a_mark_and_a_link_lead_to_the_record(gateway: Gateway) -> None:
    async with opened(url(gateway, "/sessions/call-1")) as tab:
        page = await signed_in(tab)
        await page.get_by_label("Jump to a seq").fill("44")
        await page.get_by_role("button", name="Go").click()
        await page.get_by_test_id("raw").filter(has_text="Tell me a story.").wait_for()
        await page.get_by_test_id("record-name").filter(has_text=re.compile("^output 1-44$")).wait_for()
        await page.get_by_role("button", name="Record after").click()
        await page.get_by_test_id("record-name").filter(has_text="1-45").wait_for()
        await page.wait_for_function("() => location.hash.includes('seq=45')")
        await page.wait_for_function(READY)  # a page that is left in the middle of its requests complains of them
        await page.reload()
        await page.get_by_test_id("record-name").filter(has_text="1-45").wait_for()
        await page.get_by_text("All marks as a list").click()
        await page.get_by_label("Lane").select_option("overlap")
        row = page.get_by_role("row").filter(has_text="answer cancelled")
        await row.get_by_role("button").click()
        await page.get_by_test_id("record-name").filter(has_text="1-129").wait_for()
        await page.wait_for_function("() => duplexTimeline.cursor === 6_000")


async def test_by_keyboard_alone_one_gets_everywhere(gateway: Gateway) -> None:
    async with opened(url(gateway, "/sessions/call-1")) as tab:
        page = await signed_in(tab)
        stage = page.get_by_role("slider", name="Position in the call")
        await stage.focus()
        await page.keyboard.press("End")
        await page.wait_for_function("() => duplexTimeline.cursor === 9_100")
        await page.keyboard.press("Home")
        wide = await page.evaluate(SPAN)
        await page.keyboard.press("+")
        await page.wait_for_function(f"() => duplexTimeline.view[1] - duplexTimeline.view[0] < {wide}")
        await page.keyboard.press("0")
        await page.keyboard.press("n")
        await page.get_by_test_id("raw").wait_for()
        first = await page.evaluate(AT)
        await page.keyboard.press("n")
        await page.wait_for_function(f"() => duplexTimeline.cursor > {first}")
        told = await stage.get_attribute("aria-valuetext")
        assert told is not None and re.match(r"0:\d\d\.\d\d", told)
        await page.keyboard.press(" ")
        await page.get_by_role("button", name="Pause").wait_for()
        await page.keyboard.press(" ")


async def test_two_calls_are_compared_where_they_part(gateway: Gateway, log: MemoryLog) -> None:
    other = await RecordedCall.begin(log, "other", SCRIPT % 800)
    await other.listen(1)
    await other.turn()
    async with opened(url(gateway, "/sessions/call-1")) as tab:
        page = await signed_in(tab)
        await page.get_by_label("Compare with the session").fill("other")
        await page.get_by_role("button", name="Compare", exact=True).click()
        await page.get_by_text("they part at decision").wait_for()
        await page.get_by_role("button", name="Show where").click()
        await tab.shot("timeline-compared")
        await page.get_by_role("button", name="End the comparison").click()
        await page.get_by_test_id("compared").wait_for(state="detached")
    await other.end()


async def test_a_live_call_is_followed_as_it_goes_on(gateway: Gateway, log: MemoryLog) -> None:
    call = await RecordedCall.begin(log, "live", SCRIPT % 800)
    await call.listen(1)
    async with opened(url(gateway, "/sessions/live")) as tab:
        page = await signed_in(tab)
        await page.get_by_role("button", name="Follow live").wait_for()
        await call.turn()
        await page.get_by_role("list", name="Turns").get_by_text("Then something else happened.").wait_for()
        call.wait(800)
        await call.listen(2)
        await page.wait_for_function("() => duplexTimeline.doc.length_ms >= 3_800")
    await call.end()


async def test_it_fits_a_phone_and_the_dark(gateway: Gateway) -> None:
    async with opened(url(gateway, "/sessions/call-1"), scheme="dark", size=(360, 740)) as tab:
        page = await signed_in(tab)
        assert await page.evaluate("() => document.documentElement.scrollWidth") <= 360
        await tab.shot("timeline-phone")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_checker_finds_nothing_wrong(gateway: Gateway, scheme: str) -> None:
    source = axe()
    async with opened(url(gateway, "/sessions"), scheme=scheme) as tab:
        page = tab.page
        await page.get_by_label("Operator token").wait_for()
        await page.evaluate(source)
        assert await violations(page) == []
        await sign_in(page)
        await page.get_by_role("link", name="call-1").wait_for()
        assert await violations(page) == []
        await page.goto(url(gateway, "/sessions/call-1#seq=44"))
        await page.get_by_test_id("raw").wait_for()
        await page.get_by_text("All marks as a list").click()
        await page.evaluate(source)
        assert await violations(page) == []


async def test_a_report_opens_from_a_file_and_plays(tmp_path: Path) -> None:
    path = tmp_path / "call.html"
    assert await report.run(arguments(html=path, audio=True)) == 0
    async with opened(path.as_uri()) as tab:
        tab.expect(path.as_uri())  # The file itself has no host; nothing else is asked for.
        page = tab.page
        await page.wait_for_function(READY)
        await scrub(page, 5_100)
        await reads(page, NOTHING, "Once upon$")
        await page.get_by_role("button", name="Play").click()
        await page.wait_for_function("() => duplexTimeline.cursor > 5_700")
        await page.get_by_label("Jump to a seq").fill("44")
        await page.get_by_role("button", name="Go").click()
        await page.get_by_test_id("raw").filter(has_text="Tell me a story.").wait_for()
        assert await page.get_by_role("button", name="Follow live").count() == 0
