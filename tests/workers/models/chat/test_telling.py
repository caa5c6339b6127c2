"""Parts of an answer as signals; test_session.py has the whole way."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pytest

from duplex_es.model import ModelMeasured, ModelProducedText
from duplex_es.testing.model_suite import Ear
from workers.models.chat.answering import Called, Spoken, Used, Written
from workers.models.chat.options import ChatOptions
from workers.models.chat.senses import Senses
from workers.models.chat.telling import Telling
from workers.models.floor import Floor

pytestmark = pytest.mark.unit


async def test_what_was_said_is_remembered_words_first_then_calls() -> None:
    ear = Ear()
    floor = Floor(ear, output_rate_hz=24_000, lead_ms=None)
    telling = Telling(floor.begin(), floor, ChatOptions(), Senses(None, None), aloud=True)
    assert not telling.has_begun
    for part in (Written("Let me see."), Called("c", "look", "{}"), Used(3, 4)):
        await telling.tell(part)
    assert telling.has_begun
    await telling.finish()
    assert [signal.text for signal in ear.of(ModelProducedText)] == ["Let me see."]
    assert [(item.text, item.call_id) for item in telling.said()] == [("Let me see.", None), ("{}", "c")]


async def test_the_stream_shows_tokens_and_times_of_the_words() -> None:
    ear = Ear()
    floor = Floor(ear, output_rate_hz=24_000, lead_ms=None)
    telling = Telling(floor.begin(), floor, ChatOptions(), Senses(None, None), aloud=True)
    for part in (Written("Let "), Written("me "), Written("see."), Used(40, 3)):
        await telling.tell(part)
    await telling.finish()
    (measured,) = ear.of(ModelMeasured)
    assert list(measured.stages) == ["0"]
    words = measured.stages["0"]
    assert (words.num_tokens_in, words.num_tokens_out, words.output_unit_count) == (40, 3, 3)
    assert 0 < words.vllm_ttft_ms <= words.stage_gen_time_ms and len(words.vllm_itls_ms) == 2


async def test_sound_of_the_server_is_a_stage_of_its_own() -> None:
    ear = Ear()
    floor = Floor(ear, output_rate_hz=24_000, lead_ms=None)
    options = ChatOptions(audio_metadata=False, output_rate_hz=24_000)
    telling = Telling(floor.begin(), floor, options, Senses(None, None), aloud=True)
    data = b64encode(bytes(9_600)).decode()
    for part in (Spoken(data, transcript="Yes. "), Spoken(data), Used(40, 9)):
        await telling.tell(part)
    await telling.finish()
    (measured,) = ear.of(ModelMeasured)
    words, sound = measured.stages["0"], measured.stages["1"]
    assert (words.num_tokens_out, words.inter_output_latencies_ms) == (9, ())  # It was taken at the pace of the sound.
    assert (sound.audio_generated_frames, sound.audio_duration_s, sound.output_unit_count) == (9_600, 0.4, 2)


async def test_what_is_spoken_here_is_told_sentence_by_sentence() -> None:
    ear = Ear()
    floor = Floor(ear, output_rate_hz=24_000, lead_ms=None)
    voice = Senses(None, lambda sentence: np.zeros(2_400, np.float32))
    telling = Telling(floor.begin(), floor, ChatOptions(), voice, aloud=True)
    for part in (Written("One. Two. "), Written("Three.")):
        await telling.tell(part)
    await telling.finish()
    voice.close()
    told = [(stage, each.audio_generated_frames) for one in ear.of(ModelMeasured) for stage, each in one.stages.items()]
    assert told == [("1", 2_400), ("1", 2_400), ("1", 2_400), ("0", 0)]
