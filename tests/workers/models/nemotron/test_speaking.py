"""Clauses given to the process that speaks: in order, cut, tried again, and given up in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.toy_talker import sound_of
from workers.engine.process import EngineProcess
from workers.models.nemotron import speaking
from workers.models.nemotron.mouth import Mouth
from workers.models.nemotron.speaking import Speaker

pytestmark = pytest.mark.unit

PATIENCE_S = 60.0


@pytest.fixture
async def engine() -> AsyncIterator[EngineProcess]:
    process = EngineProcess("tests.support.toy_talker:make", {})
    await process.start(timeout_s=PATIENCE_S)
    yield process
    await process.stop()


def heard(mouth: Mouth, text: str) -> None:
    for word in text.split():
        mouth.hear(word + " ")


async def told(mouth: Mouth, words: str) -> bytes:
    """The sound of ``words``, once all of it was made."""
    pcm, said = b"", ""
    async with asyncio.timeout(PATIENCE_S):
        while said != words:
            more, text = mouth.take(1 << 20)
            pcm, said = pcm + more, said + text
            await asyncio.sleep(0)
    return pcm


def sounds(text: str) -> bytes:
    return b"".join(map(sound_of, text.split()))


async def test_clauses_are_spoken_in_order_whenever_they_come(engine: EngineProcess) -> None:
    mouth = Mouth()
    speaker = Speaker(engine, mouth, "s", None)
    heard(mouth, "Well, here I am. ")
    speaker.wake()
    assert await told(mouth, "Well, ") == sound_of("Well,")
    heard(mouth, "So? It is. And")
    speaker.wake()
    assert await told(mouth, "here I am. So? It is. ") == b"".join(
        map(sound_of, ["here", "I", "am.", "So?", "It", "is."])
    )
    speaker.close()


async def test_what_was_cut_is_not_spoken_and_the_next_is(engine: EngineProcess) -> None:
    mouth = Mouth()
    speaker = Speaker(engine, mouth, "s", None)
    heard(mouth, "Well, here I am. ")
    speaker.wake()
    mouth.drop()
    speaker.hush()
    heard(mouth, "No, it")
    speaker.wake()
    assert await told(mouth, "No, ") == sound_of("No,")
    assert speaker.is_open
    speaker.close()
    await asyncio.sleep(0)
    assert not speaker.is_open


async def test_a_clause_that_cannot_be_spoken_is_told_and_the_next_is_spoken(engine: EngineProcess) -> None:
    mouth = Mouth()
    speaker = Speaker(engine, mouth, "s", None)
    heard(mouth, "I am sick, you know. Yes. Or")
    speaker.wake()
    assert await told(mouth, "I am sick, you know. Yes. ") == bytes(2) + sound_of("you") + sound_of("know.") + sound_of(
        "Yes."
    )
    speaker.close()


async def test_a_process_that_does_not_come_back_is_not_waited_for_for_ever(
    engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaking, "PATIENCE_S", 0.05)
    await engine.stop()
    mouth = Mouth()
    speaker = Speaker(engine, mouth, "s", None)
    heard(mouth, "Well, here")
    speaker.wake()
    assert await told(mouth, "Well, ") == bytes(2)
    speaker.close()


async def test_a_process_that_hangs_is_not_waited_for_for_ever(
    engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaking, "PATIENCE_S", 0.2)
    mouth = Mouth()
    speaker = Speaker(engine, mouth, "s", None)
    heard(mouth, "Well, I am stuck. Yes. Or")
    speaker.wake()
    assert (await told(mouth, "Well, I am stuck. Yes. "))[-4:] == bytes(4)
    speaker.close()
    await engine.stop(patience_s=0.0)


async def test_a_voice_that_was_changed_speaks_the_next_clause() -> None:
    """A line to nobody notes what is asked."""
    mouth, asked = Mouth(), asyncio.Queue[object]()

    class Nobody(EngineProcess):
        def open(self, session, opening, hear, memory=b""):  # type: ignore[no-untyped-def]
            asked.put_nowait(opening["voice"])

    speaker = Speaker(Nobody("none:none", {}), mouth, "s", "one")
    heard(mouth, "Well, ")
    speaker.wake()
    assert await asked.get() == "one"
    speaker.hush()
    mouth.drop()
    speaker.voice = "other"
    heard(mouth, "Well, ")
    speaker.wake()
    async with asyncio.timeout(PATIENCE_S):
        assert await asked.get() == "other"
    speaker.close()
