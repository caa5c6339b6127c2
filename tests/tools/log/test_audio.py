"""Hearing a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.log.api import Entry
from duplex_es.reading.calls import read_call
from duplex_es.reading.dxlog import FileSource, Writer
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log import audio
from tests.support.call_files import RECORDING, arguments, level, sounds

pytestmark = pytest.mark.unit


async def test_an_answer_is_heard_as_far_as_the_client_reported(tmp_path: Path) -> None:
    out = tmp_path / "heard.wav"
    await audio.run(arguments(out=out, generated=False, response=None))
    caller, assistant = sounds(out).T
    assert level(caller, 100, 1_900) > 1_000 and level(caller, 2_100, 3_400) == 0
    assert level(assistant, 0, 2_250) == 0 and level(assistant, 2_350, 3_450) > 500
    assert level(assistant, 4_550, 5_950) > 500, "until the interruption"
    assert level(assistant, 6_050, 7_300) == 0, "what was generated after it was not heard"
    await audio.run(arguments(out=tmp_path / "all.wav", generated=True, response=None))
    assert level(sounds(tmp_path / "all.wav").T[1], 6_050, 7_300) > 500


async def test_one_response_alone_begins_at_its_beginning(tmp_path: Path) -> None:
    with FileSource(RECORDING) as source:
        second = (await read_call(source, source.head)).answers[1].response_id
    for generated, length_ms in ((False, 1_500), (True, 6_000)):
        out = tmp_path / f"{generated}.wav"
        await audio.run(arguments(out=out, generated=generated, response=second))
        samples = sounds(out)
        assert samples.shape == (length_ms * 24, 1) and level(samples[:, 0], 0, 200) > 500
    with pytest.raises(ToolError, match="0 responses are called"):
        await audio.run(arguments(out=out, generated=False, response="nobody"))


async def test_sound_that_has_expired_is_silence_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mute = tmp_path / "mute.dxlog"
    with FileSource(RECORDING) as source, mute.open("wb") as file:
        writer = Writer(file, source.manifest)
        for stream in ("input", "output"):
            for entry in source.entries(stream):
                writer.add(stream, Entry(entry.id, entry.body, None if stream == "output" else entry.audio))
        writer.finish()
    await audio.run(arguments(mute, out=tmp_path / "mute.wav", generated=False, response=None))
    assert "3.90 s of sound has expired" in capsys.readouterr().err
    caller, assistant = sounds(tmp_path / "mute.wav").T
    assert level(caller, 100, 1_900) > 1_000 and not assistant.any()


@pytest.mark.parametrize(
    ("code", "values"),
    [("g711_ulaw", {0x00: -32124, 0x80: 32124, 0xFF: 0, 0x7F: 0}), ("g711_alaw", {0xAA: 32256, 0x2A: -32256, 0xD5: 8})],
)
def test_g711_is_decoded_as_the_standard_has_it(code: str, values: dict[int, int]) -> None:
    assert audio.decoded(bytes(values), code).tolist() == list(values.values())


async def test_a_call_longer_than_a_wav_can_hold_is_refused_before_a_byte_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that was set in the middle of a call makes decades of silence."""

    async def aged(source: object, head: object) -> object:
        call = await read_call(source, head)  # type: ignore[arg-type]
        call.length_ms += 40 * 365 * 86_400_000
        return call

    monkeypatch.setattr(audio, "read_call", aged)
    out = tmp_path / "call.wav"
    with pytest.raises(ToolError, match="more than a WAV can hold"):
        await audio.run(arguments(out=out, generated=False, response=None))
    assert not out.exists()
