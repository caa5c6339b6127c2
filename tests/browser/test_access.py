"""The talk page for everybody: by keyboard, by screen reader, on a phone, without a microphone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.support.browser import LEAD_S, opened, spoken, texts
from tests.support.up import Up, up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

STORY = Path("examples/audio/story.wav")
AXE = Path(os.environ.get("DUPLEX_ES_AXE", ".browser/node_modules/axe-core/axe.min.js"))
RUN_AXE = """
async () => (await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}))
  .violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`)
"""
STATE = """
(wanted) => document.querySelector("#connection")?.dataset.phase === wanted
"""
REFUSE = """
() => {
  navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("no", "NotAllowedError"));
}
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Up]:
    """One gateway and a worker with ``cascade``."""
    with up("cascade") as running:
        yield running


@pytest.fixture
def url(service: Up) -> str:
    """Where the talk page is."""
    return service.urls[0].replace("ws://", "http://") + "/"


def axe() -> str:
    """The checker's source; without it the test is skipped, and fails where ``CI`` is set."""
    if AXE.exists():
        return AXE.read_text()
    missing = f"no {AXE}: make browser installs it"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


async def violations(page: Page) -> list[str]:
    """What the checker finds wrong with the page as it is now, once nothing moves any more."""
    await page.evaluate(
        "Promise.all(document.getAnimations().filter((each) => each.effect.getTiming().iterations < 9)"
        ".map((each) => each.finished.catch(() => null)))"
    )
    return list(await page.evaluate(RUN_AXE))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_checker_finds_nothing_wrong_before_and_during_a_call(url: str, scheme: str) -> None:
    source = axe()
    async with opened(url, scheme=scheme) as tab:
        page = tab.page
        await page.evaluate(source)
        await page.get_by_role("heading", name="Talk to it").wait_for()
        assert await violations(page) == []
        await page.get_by_role("button", name="Start without a microphone").click()
        await page.wait_for_function(STATE, arg="open")
        await page.get_by_label("Type instead of speaking").fill("What is seven times six?")
        await page.keyboard.press("Enter")
        await page.locator("li[data-who=assistant][data-state=done]").wait_for()
        await page.locator(".event summary").first.click()
        assert await violations(page) == []


async def test_a_call_can_be_held_with_the_keyboard_alone(url: str, tmp_path: Path) -> None:
    microphone = spoken(tmp_path / "story.wav", LEAD_S, STORY, 60.0, rate_hz=16_000)
    async with opened(url, microphone=microphone) as tab:
        page = tab.page
        await page.get_by_role("button", name="Start talking").wait_for()
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.get_by_role("button", name="Start talking").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_function(STATE, arg="open")
        await page.locator("li[data-who=assistant][data-heard-ms]").wait_for()
        await page.keyboard.press("Escape")
        await page.locator("li[data-who=assistant][data-state=interrupted]").wait_for()
        await page.keyboard.press("m")
        await page.locator("#mute[aria-pressed=true]").wait_for()
        await page.keyboard.press("m")
        await page.locator("#mute[aria-pressed=false]").wait_for()
        live = " ".join(await texts(page, "[aria-live]"))
        assert "you said: tell me a story" in live.lower()
        assert "The answer was interrupted." in live


async def test_the_page_fits_a_phone(url: str) -> None:
    async with opened(url, scheme="dark", size=(360, 740)) as tab:
        page = tab.page
        await page.get_by_role("button", name="Start without a microphone").click()
        await page.wait_for_function(STATE, arg="open")
        assert await page.evaluate("document.documentElement.scrollWidth") == 360
        await page.get_by_label("Type instead of speaking").fill("What is seven times six?")
        await page.get_by_role("button", name="Send").click()
        await page.locator("li[data-who=assistant][data-state=done]").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") == 360
        await tab.shot("talk-phone")


async def test_a_refused_microphone_is_explained_and_the_way_without_one_stays_open(url: str) -> None:
    async with opened(url) as tab:
        page = tab.page
        await page.evaluate(REFUSE)
        await page.get_by_role("button", name="Start talking").click()
        await page.get_by_role("alert").filter(has_text="Allow it in the address bar").wait_for()
        await page.get_by_role("button", name="Start without a microphone").click()
        await page.wait_for_function(STATE, arg="open")


async def test_the_colours_follow_the_button_and_are_remembered(url: str) -> None:
    async with opened(url) as tab:
        page = tab.page
        background = "getComputedStyle(document.body).backgroundColor"
        light = await page.evaluate(background)
        button = page.get_by_role("button", name="Colours")
        await button.click()
        await button.click()
        dark = await page.evaluate(background)
        assert dark != light
        await page.reload()
        assert await page.evaluate(background) == dark
