"""A real browser with a microphone that hears a file, for tests of the web pages."""

from __future__ import annotations

import os
import shutil
import wave
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import ConsoleMessage, Page, Request, async_playwright

SHOTS = Path("out/browser")
PATIENCE_MS = 60_000
LEAD_S = 3.0
"""The silence before the first word: the file is played from the moment the page asks for the microphone on, and a busy
machine takes a while from there to the first sample that is sent."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)


@dataclass
class Tab:
    """A page and what it complained of. ``complaints`` must be empty at the end, or the test fails."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def expect(self, *words: str) -> None:
        """Take back complaints that hold one of ``words``: the test brought them about."""
        self.complaints = [each for each in self.complaints if not any(word in each for word in words)]

    async def shot(self, name: str) -> Path:
        """A picture of what is in the window, kept as ``out/browser/NAME.png``."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        path = SHOTS / f"{name}.png"
        await self.page.screenshot(path=path)
        return path


def chromium() -> str:
    """The path of Debian's Chromium; without one the test is skipped, and fails where ``CI`` is set."""
    found = os.environ.get("DUPLEX_ES_CHROMIUM") or shutil.which("chromium")
    if found:
        return found
    missing = "no chromium: apt-get install chromium, or set DUPLEX_ES_CHROMIUM"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


@asynccontextmanager
async def opened(
    url: str, *, microphone: Path | None = None, scheme: str = "light", size: tuple[int, int] = (1280, 800)
) -> AsyncIterator[Tab]:
    """A tab at ``url`` whose microphone hears ``microphone`` once, from the moment the page asks for it.

    Fails at the end for any console error, uncaught error, or request to another host than ``url``'s.
    """
    flags = list(FLAGS)
    if microphone is not None:
        flags.append(f"--use-file-for-fake-audio-capture={microphone}%noloop")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=flags)
        context = await browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": size[0], "height": size[1]},
            permissions=["microphone"],
        )
        context.set_default_timeout(PATIENCE_MS)
        tab = Tab(await context.new_page())
        _listen(tab, urlsplit(url).hostname or "")
        try:
            await tab.page.goto(url)
            yield tab
        except BaseException as failure:
            failure.add_note(f"the browser complained: {tab.complaints}")
            raise
        finally:
            await browser.close()
        assert tab.complaints == []


def _listen(tab: Tab, host: str) -> None:
    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            tab.complaints.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def asked(request: Request) -> None:
        if urlsplit(request.url).scheme not in ("data", "blob") and urlsplit(request.url).hostname != host:
            tab.complaints.append(f"request to another host: {request.url}")

    tab.page.on("console", said)
    tab.page.on("pageerror", lambda error: tab.complaints.append(f"uncaught: {error}"))
    tab.page.on("request", asked)


def spoken(path: Path, *parts: Path | float, rate_hz: int = 24_000) -> Path:
    """Writes recordings and silences (in seconds) one after the other to ``path``: what a microphone hears.

    Raises: ValueError for a recording of another rate.
    """
    pcm = bytearray()
    for part in parts:
        pcm += bytes(2 * round(part * rate_hz)) if isinstance(part, int | float) else _samples(part, rate_hz)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(bytes(pcm))
    return path


def _samples(path: Path, rate_hz: int) -> bytes:
    with wave.open(str(path), "rb") as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (rate_hz, 1, 2):
            raise ValueError(f"{path} is not mono 16-bit PCM of {rate_hz} Hz")
        return file.readframes(file.getnframes())


async def texts(page: Page, selector: str) -> Sequence[str]:
    """The texts of all elements that ``selector`` finds, each with its white space folded."""
    return [" ".join(text.split()) for text in await page.locator(selector).all_inner_texts()]
