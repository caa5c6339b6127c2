"""Ears and voice of a chat session: what is asked for is loaded, nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.voices import spoken
from workers.models.chat.options import ChatOptions
from workers.models.chat.senses import RATE_HZ, Senses, load_senses

pytestmark = pytest.mark.unit


async def test_nothing_is_loaded_for_a_server_that_hears_and_speaks() -> None:
    senses = load_senses(ChatOptions())
    assert (senses.hears, senses.speaks) == (False, False)
    assert await senses.understand(bytes(32)) == ""
    assert not len(await senses.pronounce("Hello."))
    senses.close()


async def test_silence_and_white_space_are_not_worked_on() -> None:
    def fail(_: object) -> str:
        raise AssertionError("nothing to do")

    senses = Senses(fail, fail)  # type: ignore[arg-type]
    assert await senses.understand(b"") == ""
    assert not len(await senses.pronounce("  "))
    senses.close()


async def test_what_the_voice_says_has_a_length_and_the_ears_understand() -> None:
    senses = load_senses(ChatOptions(audio_in="asr", audio_out="tts"))
    assert len(await senses.pronounce("Good morning.")) > RATE_HZ // 4
    pcm = np.rint(spoken("What is seven plus five?") * 32_767).astype("<i2").tobytes()
    assert "plus" in (await senses.understand(pcm)).lower()
    senses.close()
