"""What goes into the echo comes out of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest

from duplex_es.model import (
    CloseModel,
    FeedAudio,
    ModelFinished,
    ModelHeardSpeech,
    ModelHeardTurn,
    ModelInterrupted,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    ToolOutput,
)
from duplex_es.testing.model_suite import Caller, ModelSuite, check_order, words_of
from workers.models.echo import PLUGIN
from workers.models.echo.session import RATE_HZ, pitch_of
from workers.models.echo.session import words_of as pieces_of

pytestmark = pytest.mark.unit

Opening = Callable[..., Awaitable[Caller]]


@pytest.fixture
async def opening() -> AsyncIterator[Opening]:
    """Opens echo sessions that speak as fast as they can, unless told otherwise."""
    callers: list[Caller] = []

    async def opened(options: dict[str, str] | None = None, **fields: object) -> Caller:
        callers.append(await ModelSuite().opened(PLUGIN({"lead_ms": "none", **(options or {})}), **fields))
        return callers[-1]

    yield opened
    for caller in callers:
        await caller.perform(CloseModel())
        check_order(caller.ear.signals)


def caller_audio(duration_ms: int) -> tuple[bytes, bytes]:
    """Speech-like noise of that length, as the session gets it (float32) and as it was recorded (int16)."""
    samples = np.random.default_rng(5).integers(-8000, 8000, duration_ms * RATE_HZ // 1000).astype("<i2")
    return (samples / 32768).astype("<f4").tobytes(), samples.tobytes()


async def test_a_committed_turn_comes_back_sample_for_sample(opening: Opening) -> None:
    caller = await opening()
    floats, recorded = caller_audio(1010)
    await caller.say(floats)
    item_id = await caller.commit()
    answer = await caller.ear.answered(0)
    heard = caller.ear.of(ModelHeardTurn)[0]
    assert b"".join(signal.pcm for signal in answer if isinstance(signal, ModelProducedAudio)) == recorded
    assert (heard.item_id, heard.transcript, heard.audio_ms) == (item_id, "", 1010)


async def test_a_turn_that_fell_silent_comes_back_by_itself(opening: Opening) -> None:
    caller = await opening()
    floats, recorded = caller_audio(400)
    await caller.be_silent(2000)
    await caller.say(floats)
    await caller.be_silent(500)
    answer = await caller.ear.answered(0)
    echoed = b"".join(signal.pcm for signal in answer if isinstance(signal, ModelProducedAudio))
    assert caller.ear.of(ModelHeardSpeech)[0].start_ms == 2000
    assert echoed.strip(b"\0") == recorded
    assert len(echoed) // 2 == (200 - 60 + 60 + 400 + 500) * RATE_HZ // 1000


async def test_silence_is_not_echoed(opening: Opening) -> None:
    caller = await opening()
    await caller.be_silent(700)
    await caller.commit()
    assert (await caller.ear.first(ModelListened)).reason == "silence_or_noise"
    assert caller.ear.of(ModelSpoke) == []


async def test_only_a_commit_ends_a_turn_without_auto_response(opening: Opening) -> None:
    caller = await opening(extra_body={"auto_response": False})
    floats, recorded = caller_audio(300)
    for _ in range(2):
        await caller.say(floats)
        await caller.be_silent(1000)
    await caller.commit()
    answer = await caller.ear.answered(0)
    gap = bytes(1000 * RATE_HZ // 1000 * 2)
    assert b"".join(s.pcm for s in answer if isinstance(s, ModelProducedAudio)) == (recorded + gap) * 2


async def test_the_client_decides_what_is_speech_when_it_says_so(opening: Opening) -> None:
    caller = await opening()
    floats, _ = caller_audio(500)
    await caller.perform(FeedAudio(epoch=0, pcm=floats, end_ms=500, is_speech=False))
    await caller.commit()
    await caller.ear.first(ModelListened)
    assert caller.ear.of(ModelHeardSpeech) == []


async def test_while_it_must_listen_only_a_commit_ends_a_turn(opening: Opening) -> None:
    caller = await opening()
    pcm = caller_audio(500)[0] + bytes(RATE_HZ * 4)
    await caller.perform(FeedAudio(epoch=0, pcm=pcm, end_ms=1500, force_listen=True))
    assert caller.ear.of(ModelHeardTurn) == []
    await caller.commit()
    await caller.ear.answered(0)
    await caller.perform(FeedAudio(epoch=0, pcm=pcm, end_ms=3000))
    await caller.ear.answered(1)
    assert [heard.item_id for heard in caller.ear.of(ModelHeardTurn)] == ["item_1", None]


async def test_speech_over_an_echo_cuts_it_where_the_policy_says_so(opening: Opening) -> None:
    for policy, cut in (("barge_in_on_speech", 1), ("listen_only", 0)):
        caller = await opening({"lead_ms": "200"}, overlap_policy=policy)
        await caller.say(caller_audio(3000)[0])
        await caller.commit()
        await caller.ear.first(ModelProducedAudio)
        await caller.say(caller_audio(200)[0])
        assert len(caller.ear.of(ModelInterrupted)) == cut


async def test_text_comes_back_word_by_word(opening: Opening) -> None:
    caller = await opening()
    await caller.ask("Say  hello to Martin ", "text")
    answer = await caller.ear.answered(0)
    assert [signal.text for signal in answer if isinstance(signal, ModelProducedText)] == [
        "Say  ",
        "hello ",
        "to ",
        "Martin ",
    ]


async def test_a_spoken_word_is_a_tone_of_its_own(opening: Opening) -> None:
    caller = await opening()
    await caller.ask("hello Martin hello")
    audio = [signal for signal in await caller.ear.answered(0) if isinstance(signal, ModelProducedAudio)]
    assert [signal.text for signal in audio] == ["hello ", "Martin ", "hello"]
    assert {len(signal.pcm) for signal in audio} == {200 * RATE_HZ // 1000 * 2}
    first = np.abs(np.fft.rfft(np.frombuffer(audio[0].pcm, "<i2")))
    assert np.argmax(first) * 5 == pytest.approx(pitch_of("hello"), abs=5)


async def test_a_tools_output_is_said_back(opening: Opening) -> None:
    caller = await opening()
    await caller.perform(ToolOutput(epoch=0, call_id="c", output="it is sunny"))
    await caller.ear.first(ModelFinished)
    assert words_of(caller.ear.signals) == "it is sunny"


def test_no_character_of_a_text_is_lost() -> None:
    for text in ("", " ", "one", " two  words ", "a\nb"):
        assert "".join(pieces_of(text)) == text


def test_a_words_tone_does_not_depend_on_its_case() -> None:
    assert pitch_of("Hello ") == pitch_of("hello")
    assert 200 <= pitch_of("hello") <= 800
