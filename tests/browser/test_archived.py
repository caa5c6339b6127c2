"""Calls that only an archive has, in a real browser: listed, opened, heard, downloaded; and gone once erased."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duplex_es.archive.files import Files
from duplex_es.archive.following import Following
from duplex_es.archive.resealing import put_away
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.errors import ReadingError
from duplex_es.reading.notes import Tombstone
from tests.browser.test_access import axe, violations
from tests.browser.test_timeline import READY, reads, scrub, sign_in, url
from tests.gateway.reading import TOKEN
from tests.gateway.stage import running
from tests.gateway.test_archived import Clock, where
from tests.support.archives import Shelf
from tests.support.browser import opened
from tests.support.recorded_call import record_call

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


async def test_an_archived_call_is_listed_seen_heard_and_downloaded_and_erased_it_is_a_tombstone(
    tmp_path: Path,
) -> None:
    clock, shelf = Clock(), Shelf(tmp_path)
    log = MemoryLog(clock=clock)
    await record_call(log, "call-1")
    await Following(log, shelf.archiver, keep_s=1.0).sweep()
    clock.now_s += 2.0
    await record_call(log, "call-2")
    async with running(log, pages="on", **where(shelf)) as gateway, opened(url(gateway, "/sessions")) as tab:
        page = tab.page
        await sign_in(page)
        await page.get_by_role("row").filter(has_text=re.compile("call-1.*closed.*archived")).wait_for()
        row = page.get_by_role("row").filter(has_text="call-2")
        assert await row.count() == 1 and await row.get_by_text("archived").count() == 0
        await tab.shot("sessions-archived")
        await page.evaluate(axe())
        assert await violations(page) == []
        await page.get_by_role("link", name="call-1").click()
        await page.wait_for_function(READY)
        await page.locator(".call-head").get_by_text("archived", exact=True).wait_for()
        await scrub(page, 1_000)
        await reads(page, "How is the weather\\?", "")
        async with page.expect_response(re.compile(r"/audio\?lane=caller")) as heard:
            await page.get_by_role("button", name="Play").click()
        assert (await (await heard.value).body())[:4] == b"RIFF"
        await page.get_by_text("Replay this").click()
        await page.get_by_text(re.compile(r"log replay --file call-1-0\.dxlog --to")).wait_for()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="Download .dxlog").click()
        with FileSource(await (await downloading.value).path()) as source:
            assert source.broken_chain() is None and source.head.ref.session_id == "call-1"

        (manifest,) = await shelf.source.manifests("call-1")
        tombstone = Tombstone(
            session_id="call-1", incarnation=0, created_ms=0, what="session", at_ms=1, reason="ticket-81"
        )
        await put_away(shelf.files, shelf.keys, manifest, tombstone)
    async with running(log, pages="on", **where(shelf)) as gateway, opened(url(gateway, "/sessions/call-1")) as tab:
        await sign_in(tab.page)
        await tab.page.get_by_role("alert").filter(has_text="erased").filter(has_text="ticket-81").wait_for()
        tab.expect("410")
        assert TOKEN not in tab.page.url


async def test_an_archive_that_does_not_answer_is_told_above_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(self: Files, folder: str) -> dict[str, str]:
        raise ReadingError("no route to host")

    monkeypatch.setattr(Files, "stamps", down)
    log, shelf = MemoryLog(), Shelf(tmp_path)
    await record_call(log)
    async with running(log, pages="on", **where(shelf)) as gateway, opened(url(gateway, "/sessions")) as tab:
        await sign_in(tab.page)
        await tab.page.get_by_role("link", name="call-1").wait_for()
        await tab.page.get_by_role("status").filter(has_text="not listed: no route to host").wait_for()
