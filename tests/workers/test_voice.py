"""The voice: what the client hears is what the model said, in the sound the client asked for, to the last sample."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from duplex_es.model import ModelFailed, ModelFinished, ModelListened, ModelProducedAudio, ModelSpoke
from duplex_es.protocol import AudioFormat, read_wav
from duplex_es.session.inputs import SpeechReady
from duplex_es.session.state import Begun, Response, Session, Settings
from workers import g711
from workers.voice import LONGEST_PIECE_MS, Heard, Voice, wanted_sound

pytestmark = pytest.mark.unit

MODEL_HZ = 22_050
TONE_HZ = 440.0


def speaking(output_format: str = "pcm16", rate_hz: int | None = None, *, turn: int = 3, epoch: int = 1) -> Session:
    """A session in the middle of an answer."""
    return Session(
        id="s",
        state="open",
        epoch=epoch,
        settings=Settings(output_format=output_format, output_rate_hz=rate_hz),
        response=Response(id="r", item_id="i", turn_id=0, turn=turn),
    )


def tone(seconds: float, rate_hz: int = MODEL_HZ) -> np.ndarray:
    at = np.arange(int(seconds * rate_hz))
    return np.rint(np.sin(2 * np.pi * TONE_HZ * at / rate_hz) * 16_000).astype(np.int16)


def spoken(pcm: np.ndarray, text: str = "", *, turn: int = 3, epoch: int = 1, rate_hz: int | None = None) -> Heard:
    return ModelProducedAudio(epoch=epoch, turn=turn, pcm=pcm.tobytes(), text=text, rate_hz=rate_hz)


FINISHED = ModelFinished(epoch=1, turn=3)


def told(session: Session, voice: Voice, *pieces: np.ndarray) -> list[SpeechReady]:
    """A whole answer in these pieces, words numbered."""
    heard = [part for number, piece in enumerate(pieces) for part in voice.take(session, spoken(piece, f"{number} "))]
    heard += voice.take(session, FINISHED)
    assert heard.pop() == FINISHED
    assert all(isinstance(part, SpeechReady) for part in heard)
    return heard  # type: ignore[return-value]


def cut(samples: np.ndarray, seed: int = 1, longest: int = 3_000) -> list[np.ndarray]:
    draw, at, pieces = np.random.default_rng(seed), 0, []
    while at < samples.size:
        size = int(draw.integers(1, longest))
        pieces.append(samples[at : at + size])
        at += size
    return pieces


def pitch(samples: np.ndarray, rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(samples.size)))
    return float(np.argmax(spectrum)) * rate_hz / samples.size


# -- which sound ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sound"),
    [
        (Settings(), AudioFormat("pcm16", MODEL_HZ)),
        (Settings(output_rate_hz=24_000), AudioFormat("pcm16", 24_000)),
        (Settings(output_format="wav"), AudioFormat("wav", MODEL_HZ)),
        (Settings(output_format="g711_ulaw"), AudioFormat("g711_ulaw", 8_000)),
        (Settings(output_format="g711_alaw", output_rate_hz=24_000), AudioFormat("g711_alaw", 8_000)),
    ],
)
def test_the_client_hears_its_format_at_the_rate_it_declared_or_the_models(
    settings: Settings, sound: AudioFormat
) -> None:
    assert wanted_sound(settings, MODEL_HZ) == sound


def test_a_sound_asked_for_one_answer_goes_before_the_sessions() -> None:
    live = Response(id="r", item_id="i", turn_id=0, turn=3, output_format="g711_alaw")
    settings = Settings(output_format="pcm16", output_rate_hz=24_000)

    assert wanted_sound(settings, MODEL_HZ, live) == AudioFormat("g711_alaw", 8_000)
    assert wanted_sound(settings, MODEL_HZ, Response(id="r", item_id="i", turn_id=0)) == AudioFormat("pcm16", 24_000)


@pytest.mark.parametrize("rate_hz", [None, MODEL_HZ])
def test_samples_at_the_models_own_rate_are_not_touched(rate_hz: int | None) -> None:
    signal = spoken(tone(0.1), "Hello.")
    voice, session = Voice(MODEL_HZ), speaking(rate_hz=rate_hz)
    assert voice.take(session, signal) == [signal]
    assert voice.take(session, FINISHED) == [FINISHED]


def test_an_answer_at_a_rate_of_its_own_is_converted_from_that_one() -> None:
    voice, session = Voice(MODEL_HZ), speaking(rate_hz=24_000)
    signal = spoken(tone(0.1, 24_000), rate_hz=24_000)
    assert voice.take(session, signal) == [signal]


# -- resampling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 48_000])
def test_an_answer_is_as_long_and_as_high_as_the_model_made_it(rate_hz: int) -> None:
    sound = tone(3.0)
    heard = told(speaking(rate_hz=rate_hz), Voice(MODEL_HZ), *cut(sound))
    made = np.frombuffer(b"".join(part.audio for part in heard), np.int16)
    assert abs(made.size - sound.size * rate_hz / MODEL_HZ) <= 1
    assert pitch(made, rate_hz) == pytest.approx(TONE_HZ, abs=1)
    assert {(part.format, part.rate_hz, part.model_rate_hz) for part in heard} == {("pcm16", rate_hz, MODEL_HZ)}


def test_durations_in_model_time_are_exact_and_every_word_is_told_once() -> None:
    pieces = cut(tone(3.0))
    heard = told(speaking(rate_hz=24_000), Voice(MODEL_HZ), *pieces)
    assert sum(part.samples for part in heard) == sum(piece.size for piece in pieces)
    assert "".join(part.text for part in heard) == "".join(f"{number} " for number in range(len(pieces)))


def test_there_is_no_click_where_two_pieces_meet() -> None:
    sound = tone(1.5)
    whole = told(speaking(rate_hz=24_000), Voice(MODEL_HZ), sound)
    parts = told(speaking(rate_hz=24_000), Voice(MODEL_HZ), *cut(sound))
    assert b"".join(part.audio for part in parts) == b"".join(part.audio for part in whole)
    made = np.frombuffer(b"".join(part.audio for part in whole), np.int16).astype(np.float64)
    # The second difference of a sine is at most its amplitude times the square of the angle between two samples.
    assert np.max(np.abs(np.diff(made[500:-500], 2))) < 16_000 * (2 * np.pi * TONE_HZ / 24_000) ** 2 * 1.02 + 3


def test_the_client_never_waits_for_more_than_30_ms_of_it() -> None:
    voice, session = Voice(MODEL_HZ), speaking(rate_hz=8_000)
    given = heard = 0
    for piece in itertools.chain.from_iterable(itertools.repeat(cut(tone(1.0)), 2)):
        given += piece.size
        heard += sum(len(part.audio) // 2 for part in voice.take(session, spoken(piece)))
        assert given / MODEL_HZ - heard / 8_000 < 0.03


# -- telephony -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["g711_ulaw", "g711_alaw"])
@pytest.mark.parametrize("model_hz", [8_000, MODEL_HZ, 24_000])
def test_g711_comes_in_whole_frames_of_20_ms_and_reads_back_as_what_was_said(law: str, model_hz: int) -> None:
    sound = tone(1.507, model_hz)
    heard = told(speaking(law), Voice(model_hz), *cut(sound))
    assert all(len(part.audio) % 160 == 0 for part in heard)
    assert {(part.format, part.rate_hz) for part in heard} == {(law, 8_000)}
    codes = b"".join(part.audio for part in heard)
    assert 0 <= len(codes) - sound.size * 8_000 / model_hz < 161
    read = g711.decode(law, codes).astype(np.float64)
    assert pitch(read[:12_000], 8_000) == pytest.approx(TONE_HZ, abs=1)
    assert np.sqrt(np.mean(read[:12_000] ** 2)) == pytest.approx(16_000 / np.sqrt(2), rel=0.02)


# -- files ---------------------------------------------------------------------------------------------------------


def test_every_wav_delta_is_a_file_by_itself() -> None:
    sound = tone(1.0)
    heard = told(speaking("wav", 24_000), Voice(MODEL_HZ), *cut(sound))
    parts = [read_wav(part.audio) for part in heard]
    assert {(found, channels) for found, channels, _ in parts} == {(AudioFormat("pcm16", 24_000), 1)}
    data = b"".join(samples for _, _, samples in parts)
    assert abs(len(data) / 2 - sound.size * 24_000 / MODEL_HZ) <= 1
    assert {part.format for part in heard} == {"wav"}


# -- when ----------------------------------------------------------------------------------------------------------


def test_nothing_is_converted_that_the_session_drops() -> None:
    voice, stale = Voice(MODEL_HZ), spoken(tone(0.1), epoch=0)
    session = speaking("g711_ulaw")
    assert voice.take(session, stale) == [stale]
    other = spoken(tone(0.1), turn=2)
    assert voice.take(session, other) == [other]
    idle = Session(id="s", state="open", epoch=1)
    assert voice.take(idle, spoken(tone(0.1))) == [spoken(tone(0.1))]


def test_where_only_text_is_wanted_the_words_go_through_as_they_are() -> None:
    session = speaking("g711_ulaw")
    written = Session(
        id="s",
        state="open",
        epoch=1,
        settings=session.settings,
        response=Response(id="r", item_id="i", turn_id=0, turn=3, modalities=("text",)),
    )
    signal = spoken(tone(0.1), "Hello.")
    assert Voice(MODEL_HZ).take(written, signal) == [signal]


@pytest.mark.parametrize(
    "end",
    [
        ModelFinished(epoch=1, turn=3),
        ModelFailed(epoch=1, code="response_error", message="no"),
        ModelSpoke(epoch=1, turn=4),
    ],
)
def test_the_rest_of_an_answer_comes_before_its_end(end: Heard) -> None:
    voice, session = Voice(24_000), speaking("g711_ulaw")
    first = voice.take(session, spoken(tone(0.1, 24_000)))
    *rest, last = voice.take(session, end)
    assert last == end
    (ready,) = rest
    assert isinstance(ready, SpeechReady)
    assert sum(len(part.audio) for part in [*first, ready]) == 800
    assert voice.take(session, end) == [end]


def test_an_interrupted_answer_has_no_rest() -> None:
    voice = Voice(24_000)
    voice.take(speaking("g711_ulaw"), spoken(tone(0.1, 24_000)))
    later = speaking("g711_ulaw", epoch=2, turn=4)
    assert voice.take(later, ModelFinished(epoch=2, turn=4)) == [ModelFinished(epoch=2, turn=4)]


def test_a_turn_that_only_begins_to_be_heard_is_converted_from_its_first_piece() -> None:
    begun = Session(id="s", state="open", epoch=1, settings=Settings(output_format="g711_ulaw"), begun=Begun(turn=3))
    (ready,) = Voice(24_000).take(begun, spoken(tone(0.1, 24_000)))
    assert isinstance(ready, SpeechReady)


def test_other_signals_pass_through() -> None:
    listened = ModelListened(epoch=1)
    assert Voice(24_000).take(speaking("g711_ulaw"), listened) == [listened]


@pytest.mark.parametrize("output_format", ["pcm16", "wav"])
def test_a_long_piece_is_cut_so_that_every_frame_stays_small(output_format: str) -> None:
    sound = tone(5.0, 48_000)
    heard = Voice(48_000).take(speaking(output_format), spoken(sound, "All of it."))
    sizes = [len(part.pcm if isinstance(part, ModelProducedAudio) else part.audio) for part in heard]  # type: ignore[union-attr]
    assert max(sizes) <= LONGEST_PIECE_MS * 48 * 2 + 44
    assert [part.text for part in heard] == ["", "", "All of it."]  # type: ignore[union-attr]
