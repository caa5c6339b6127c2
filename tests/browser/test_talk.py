"""The talk page in a real browser: a spoken conversation, interruptions, and a gateway that dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page

from tests.support.browser import LEAD_S, opened, spoken, texts
from tests.support.up import Up, up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

AUDIO = Path("examples/audio")
QUESTION, STORY, INTERRUPT = AUDIO / "question.wav", AUDIO / "story.wav", AUDIO / "interrupt.wav"
ASKED = "Hello, my name is Martin. What is 7 times 6?"
ANSWERED = "Hello Martin, nice to meet you. 7 times 6 is 42."
ANSWER = "li[data-who=assistant]"
STATE = """
(wanted) => document.querySelector("#connection")?.dataset.phase === wanted
"""
HEARD_OUT = """
() => [...document.querySelectorAll("li[data-who=assistant][data-state=done]")].some(
  (each) => Number(each.dataset.heardMs) >= Number(each.dataset.endMs)
)
"""
HEARD = """
(ms) => [...document.querySelectorAll("li[data-who=assistant]")].some((each) => Number(each.dataset.heardMs) >= ms)
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Up]:
    """Two gateways and a worker with ``cascade``; the first gateway dies in the last test of this file."""
    with up("cascade", gateways=2) as running:
        yield running


def page_url(websocket_url: str) -> str:
    """Where the gateway at ``websocket_url`` serves its pages."""
    return websocket_url.replace("ws://", "http://") + "/"


async def start(page: Page) -> None:
    """Press the big button and wait until the session is open."""
    await page.get_by_role("button", name="Start talking").click()
    await page.wait_for_function(STATE, arg="open")


async def end(page: Page) -> None:
    """Hang up, and wait until the server has said so."""
    await page.locator("#end").click()
    await page.wait_for_function(STATE, arg="ended")


async def heard_of(cut: Locator) -> str:
    """``HEARD/MADE`` of an answer that was cut, in milliseconds."""
    heard_ms, end_ms = [int(await cut.get_attribute(f"data-{name}-ms") or 0) for name in ("heard", "end")]
    assert 0 < heard_ms <= end_ms
    return f"{heard_ms}/{end_ms}"


async def test_a_spoken_question_is_answered_aloud_and_both_sides_are_written_down(service: Up, tmp_path: Path) -> None:
    microphone = spoken(tmp_path / "question.wav", LEAD_S, QUESTION, 60.0, rate_hz=16_000)
    async with opened(page_url(service.urls[1]), microphone=microphone) as tab:
        page = tab.page
        await tab.shot("talk-idle")
        await start(page)
        await page.locator(f"{ANSWER}[data-state=done]").wait_for()
        await page.wait_for_function(HEARD_OUT)
        await tab.shot("talk-light")
        [caller, answer] = await texts(page, "li.turn .turn-text")
        assert (caller, answer) == (ASKED, ANSWERED)
        assert 200 < int((await texts(page, "#latency"))[0]) < 30_000
        # What was reported as played, and taken, is the whole answer, to the millisecond.
        await page.get_by_label("Filter events").fill("acknowledged played_ms 4775")
        await page.locator(".event", has_text="playback.acknowledged").first.wait_for()
        await end(page)


async def test_speech_over_an_answer_cuts_it_and_no_more_of_it_is_heard(service: Up, tmp_path: Path) -> None:
    microphone = spoken(tmp_path / "story.wav", LEAD_S, STORY, 8.0, INTERRUPT, 60.0, rate_hz=16_000)
    async with opened(page_url(service.urls[1]), microphone=microphone, scheme="dark") as tab:
        page = tab.page
        await start(page)
        cut = page.locator(f"{ANSWER}[data-state=interrupted]")
        await cut.wait_for()
        assert "Interrupted by your voice after" in await cut.inner_text()
        heard = await heard_of(cut)
        await page.locator(f"{ANSWER}[data-state=done]").wait_for()
        assert "time" in (await texts(page, "li[data-who=caller] .turn-text"))[-1]
        assert await heard_of(cut) == heard
        await tab.shot("talk-dark")
        await end(page)


async def test_the_button_stops_an_answer_at_once_and_typing_asks_the_next(service: Up) -> None:
    async with opened(page_url(service.urls[1])) as tab:
        page = tab.page
        await page.get_by_role("button", name="Start without a microphone").click()
        await page.wait_for_function(STATE, arg="open")
        await page.get_by_label("Type instead of speaking").fill("Tell me a story.")
        await page.keyboard.press("Enter")
        await page.wait_for_function(HEARD, arg=1_000)
        await page.get_by_role("button", name="Interrupt").click()
        cut = page.locator(f"{ANSWER}[data-state=interrupted]")
        await cut.wait_for()
        assert "Interrupted by you after" in await cut.inner_text()
        assert await heard_of(cut)
        assert await page.get_by_role("button", name="Interrupt").is_disabled()
        await page.get_by_label("Type instead of speaking").fill("What is seven times six?")
        await page.keyboard.press("Enter")
        await page.locator(f"{ANSWER}[data-state=done]").wait_for()
        assert "42" in (await texts(page, ANSWER))[-1]
        await end(page)


async def test_the_call_goes_on_at_the_other_gateway_when_its_own_dies_in_the_middle_of_an_answer(
    service: Up, tmp_path: Path
) -> None:
    microphone = spoken(tmp_path / "question.wav", LEAD_S, QUESTION, 60.0, rate_hz=16_000)
    async with opened(page_url(service.urls[0]), microphone=microphone) as tab:
        page = tab.page
        await start(page)
        await page.wait_for_function(HEARD, arg=700)
        service.kill_gateway(service.urls[0])
        await page.locator("#resumes", has_text="once").wait_for()
        assert await texts(page, "#gateway") == [service.urls[1].removeprefix("ws://")]
        # Every word came once, and every millisecond of sound was played.
        await page.locator(f"{ANSWER}[data-state=done]").wait_for()
        await page.wait_for_function(HEARD_OUT)
        assert await texts(page, "li.turn .turn-text") == [ASKED, ANSWERED]
        # The page goes on without the gateway that it came from.
        await page.get_by_label("Type instead of speaking").fill("What is my name?")
        await page.keyboard.press("Enter")
        await page.locator(f"{ANSWER}[data-state=done]").nth(1).wait_for()
        assert "Martin" in (await texts(page, ANSWER))[1]
        await tab.shot("talk-resumed")
        await end(page)
        tab.expect("WebSocket")
