"""Audio of a chat server is played only when it is what the server says it is."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from duplex_es.protocol import AudioFormat, read_wav
from tests.support.chat_server import metadata, sound
from workers.models.chat.sound import SoundReader, SoundUnusable, wav_file

pytestmark = pytest.mark.unit

PCM = sound(100)


def read(data: bytes, said: object, reader: SoundReader | None = None) -> bytes:
    return (reader or SoundReader(assumed_rate_hz=None)).read(b64encode(data).decode(), said)


def test_pcm_is_taken_as_it_is() -> None:
    reader = SoundReader(assumed_rate_hz=None)
    assert read(PCM, metadata(PCM), reader) == PCM
    assert read(PCM, metadata(PCM, format="pcm16"), reader) == PCM
    assert reader.rate_hz == 24_000


def test_a_wav_file_is_unwrapped() -> None:
    assert read(wav_file(PCM, 24_000), metadata(PCM, format="wav")) == PCM


def test_several_channels_become_one() -> None:
    stereo = np.stack([np.full(240, 100), np.full(240, 300)], axis=1).astype("<i2").tobytes()
    assert np.array_equal(np.frombuffer(read(stereo, metadata(stereo, channels=2)), "<i2"), np.full(240, 200))


def test_an_empty_piece_needs_no_metadata() -> None:
    assert read(b"", None) == b""


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"format": "mp3"}, "format"),
        ({"format": None}, "format"),
        ({"sample_rate_hz": 0}, "sample_rate_hz"),
        ({"sample_rate_hz": "24000"}, "sample_rate_hz"),
        ({"sample_rate_hz": True}, "sample_rate_hz"),
        ({"frame_count": 4_800}, "frame_count"),
        ({"frame_count": -1}, "frame_count"),
        ({"channels": 0}, "channels"),
        ({"channels": 2}, "frame_count"),
    ],
)
def test_metadata_that_cannot_be_is_refused_by_name(changes: dict[str, Any], names: str) -> None:
    with pytest.raises(SoundUnusable, match=names):
        read(PCM, {**metadata(PCM), **changes})


@pytest.mark.parametrize("missing", ["format", "sample_rate_hz", "frame_count", "channels"])
def test_every_field_is_needed(missing: str) -> None:
    said = {key: value for key, value in metadata(PCM).items() if key != missing}
    with pytest.raises(SoundUnusable, match=missing):
        read(PCM, said)


def test_audio_without_metadata_is_refused() -> None:
    with pytest.raises(SoundUnusable, match="without audio_metadata"):
        read(PCM, None)


def test_metadata_that_disagrees_with_the_file_is_refused() -> None:
    with pytest.raises(SoundUnusable, match="disagrees"):
        read(wav_file(PCM, 16_000), metadata(PCM, format="wav"))


def test_the_rate_must_not_change_within_an_answer() -> None:
    reader = SoundReader(assumed_rate_hz=None)
    read(PCM, metadata(PCM), reader)
    with pytest.raises(SoundUnusable, match="24000 to 16000"):
        read(PCM, metadata(PCM, 16_000), reader)


def test_what_is_no_base64_or_no_wav_is_refused() -> None:
    with pytest.raises(SoundUnusable, match="base64"):
        SoundReader(assumed_rate_hz=None).read("***", metadata(PCM))
    with pytest.raises(SoundUnusable, match="wav"):
        read(PCM, metadata(PCM, format="wav"))


def test_where_metadata_may_be_missing_a_rate_is_assumed() -> None:
    reader = SoundReader(assumed_rate_hz=22_050)
    assert read(PCM, None, reader) == PCM
    assert reader.rate_hz == 22_050
    other = SoundReader(assumed_rate_hz=22_050)
    assert read(wav_file(PCM, 16_000), None, other) == PCM
    assert other.rate_hz == 16_000
    with pytest.raises(SoundUnusable, match="16-bit"):
        read(b"abc", None, SoundReader(assumed_rate_hz=8_000))


def test_a_wav_file_reads_back() -> None:
    assert read_wav(wav_file(PCM, 16_000)) == (AudioFormat("pcm16", 16_000), 1, PCM)
