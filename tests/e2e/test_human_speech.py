"""A person's recorded sentences as caller audio: understood, and each answered aloud."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.support.human_speech import PACKAGE, Sentence, is_installed, plain_words, sentences, word_errors
from tests.support.ordering import check_order
from tests.support.processes import StoreProcess
from tests.support.services import Deployment
from tests.support.talking import conversing, loudness

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SENTENCES = 24
AT_A_TIME = 2
MOST_WORD_ERRORS = 0.10
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"


@pytest.fixture(scope="module")
def recordings() -> list[Sentence]:
    """The recordings; where they are not installed the test is skipped, in CI it fails."""
    if not is_installed():
        missing = f"no human speech here; as root: apt-get install {PACKAGE}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return sentences(SENTENCES)


@pytest.fixture(scope="module")
def listeners(valkey: StoreProcess) -> Iterator[Deployment]:
    """A deployment of its own: this test may run without the others."""
    with Deployment(valkey.url, model="cascade") as deployment:
        yield deployment


async def told(url: str, sentence: Sentence) -> tuple[str, bool]:
    """Say one sentence to a fresh session; what was understood, and whether a voice answered."""
    async with conversing(url, model="cascade") as caller:
        await caller.play(sentence.pcm.tobytes(), silence_ms=900)
        await caller.hear_until("response.output_audio.delta")
        await caller.hear_until("response.done")
        await caller.hear_until("rate_limits.updated")
    check_order(caller.heard)
    transcript = " ".join(frame["transcript"] for frame in caller.heard if frame["type"] == TRANSCRIBED)
    return transcript, loudness(caller.answer_pcm) > 0.01


async def test_sentences_of_a_person_are_understood_and_answered(recordings: list[Sentence], listeners: Deployment):
    gate = asyncio.Semaphore(AT_A_TIME)

    async def one(sentence: Sentence) -> tuple[str, bool]:
        async with gate:
            return await told(listeners.urls[0], sentence)

    results = await asyncio.gather(*(one(sentence) for sentence in recordings))

    wrong = words = 0
    for sentence, (transcript, _) in zip(recordings, results, strict=True):
        expected = plain_words(sentence.text)
        errors = word_errors(expected, plain_words(transcript))
        wrong, words = wrong + errors, words + len(expected)
        print(f"{errors:2d}/{len(expected):2d}  {sentence.text}  ->  {transcript}")
    print(f"word error rate {wrong / words:.1%} on {len(recordings)} sentences, {words} words")
    assert len(recordings) >= 20
    assert wrong / words <= MOST_WORD_ERRORS
    assert all(answered for _, answered in results)
