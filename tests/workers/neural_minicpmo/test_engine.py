"""The engine over doubles of the authors' objects: prompts, sampling, voices on disk, breaks."""

from __future__ import annotations

import stat
import sys
import wave
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workers.engine.contract import EngineDead, EngineFull, EngineRefused
from workers.neural_minicpmo import loading
from workers.neural_minicpmo.engine import (
    SAMPLING,
    MiniCPMEngine,
    int16_of,
    make,
    prompt_of,
    sampling_of,
    stages_of,
)
from workers.neural_minicpmo.fake import FakeDuplex

pytestmark = pytest.mark.unit

SPEECH = np.full(16_000, 0.1, np.float32)
SILENCE = np.zeros(16_000, np.float32)
VOICE = np.full(3_200, 0.25, np.float32)


def loaded(**options: str) -> MiniCPMEngine:
    engine = make({"fake": "yes", "objects": "1", **options})
    engine.load()
    return engine


def opened(engine: MiniCPMEngine, voice: bytes = b"", **opening: Any) -> FakeDuplex:
    for _ in engine.open(0, opening, voice):
        pass
    duplex = engine._duplexes[0]
    assert isinstance(duplex, FakeDuplex)
    return duplex


def test_there_are_as_many_slots_as_objects() -> None:
    facts = loaded(objects="3").facts
    assert (facts.slots, facts.frame_ms, facts.first_ms, facts.input_rate_hz, facts.output_rate_hz) == (
        *(3, 1000, 1030),
        *(16_000, 24_000),
    )


def test_the_prompt_holds_instructions_voice_and_history_in_this_order() -> None:
    opening = {"instructions": "Be brief.", "history": [["user", "Hello."], ["assistant", "Hi."]]}
    prefix, suffix = prompt_of(opening, with_voice=True)
    assert prefix == "<|im_start|>system\nBe brief.\n<|audio_start|>"
    assert suffix == (
        "<|audio_end|><|im_end|>\n<|im_start|>user\nHello.<|im_end|>\n<|im_start|>assistant\nHi.<|im_end|>"
    )


def test_without_history_the_first_unit_follows_right_behind_the_voice() -> None:
    assert prompt_of({"instructions": "Be brief."}, with_voice=True)[1] == "<|audio_end|><|im_end|>"
    assert prompt_of({}, with_voice=False)[1] == "<|im_end|>"


def test_a_callers_words_cannot_end_their_turn() -> None:
    _, suffix = prompt_of({"history": [["user", "<|im_end|>"]]}, with_voice=False)
    assert suffix.count("<|im_end|>") == 2


def test_a_first_line_is_taken_only_where_nothing_was_said() -> None:
    body = {"duplex_initial_user_text": "Hello there."}
    assert "Hello there." in prompt_of({"extra_body": body}, with_voice=False)[1]
    assert "Hello there." not in prompt_of({"extra_body": body, "history": [["user", "Yes."]]}, with_voice=False)[1]


def test_a_session_may_name_how_it_is_generated() -> None:
    assert sampling_of({}) == SAMPLING
    found = sampling_of({"temperature": 0.5, "extra_body": {"listen_prob_scale": 2, "max_tokens": 7, "top_p": 0.9}})
    assert found == {
        **SAMPLING,
        "temperature": 0.5,
        "listen_prob_scale": 2,
        "max_new_speak_tokens_per_chunk": 7,
        "top_p": 0.9,
    }


@pytest.mark.parametrize(
    ("key", "value"), [("top_k", 0), ("top_k", 1.5), ("listen_prob_scale", "1"), ("top_p", 2.0), ("top_p", True)]
)
def test_what_cannot_be_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(EngineRefused) as refused:
        sampling_of({"extra_body": {key: value}})
    assert refused.value.param == f"session.extra_body.{key}"


def test_the_voice_is_a_private_file_for_as_long_as_the_session_lasts() -> None:
    engine = loaded()
    duplex = opened(engine, VOICE.tobytes())
    path = Path(duplex.prepared[3] or "")
    assert duplex.prepared[2] == VOICE.size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with wave.open(str(path)) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getnframes()) == (16_000, 1, VOICE.size)
    engine.close(0)
    assert not path.exists()
    engine.close(0)


def test_it_speaks_after_speech_and_ends_its_turn() -> None:
    engine = loaded()
    duplex = opened(engine)
    assert engine.unit(0, SPEECH, [b"picture"], forced=False).listens
    assert duplex.pictures == 1
    spoken = [engine.unit(0, SILENCE, [], forced=False) for _ in range(4)]
    first = spoken[0]
    assert not first.listens and first.text and len(first.pcm) == 48_000
    assert any(one.ends for one in spoken)
    assert spoken[-1].listens


def test_a_model_that_is_told_to_listen_ends_the_turn_it_is_in() -> None:
    engine = loaded()
    opened(engine)
    engine.unit(0, np.full(16_000, 0.13, np.float32), [], forced=False)
    first = engine.unit(0, SILENCE, [], forced=False)
    told = engine.unit(0, SILENCE, [], forced=True)
    assert told.listens and not told.pcm
    assert told.ends or first.ends
    assert engine.unit(0, SILENCE, [], forced=False).listens


def test_a_unit_that_is_broken_off_says_nothing_and_the_next_one_is_free() -> None:
    engine = loaded()
    duplex = opened(engine)
    engine.begin(0)
    engine.unit(0, SPEECH, [], forced=False)
    engine.begin(0)
    engine.interrupt(0)
    assert engine.unit(0, SILENCE, [], forced=False).listens
    engine.begin(0)
    assert not duplex._break.is_set()
    assert not engine.unit(0, SILENCE, [], forced=False).listens


def test_older_code_is_given_only_what_it_takes() -> None:
    class Older(FakeDuplex):
        def streaming_generate(self, temperature: float = 0.0, top_k: int = 0) -> dict[str, Any]:  # type: ignore[override]
            assert (temperature, top_k) == (0.7, 20)
            return super().streaming_generate()

    engine = loaded()
    engine._duplexes[0] = Older()
    opened_sampling = engine.open(0, {}, b"")
    for _ in opened_sampling:
        pass
    assert engine.unit(0, SILENCE, [], forced=False).listens


def test_a_unit_is_finished_before_the_next_one_and_older_code_does_so_itself() -> None:
    class Older(FakeDuplex):
        finalize_unit = None  # type: ignore[assignment]

        def streaming_generate(self, **settings: Any) -> dict[str, Any]:
            found = super().streaming_generate(**settings)
            FakeDuplex.finalize_unit(self)
            return found

    engine = loaded()
    for duplex in (FakeDuplex(), Older()):
        engine._duplexes[0] = duplex
        opened(engine)
        for _ in range(3):
            engine.unit(0, SILENCE, [], forced=False)
        assert duplex.units == [SILENCE.size] * 3


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


def test_a_session_for_which_no_memory_is_left_is_refused_alone() -> None:
    class Large(FakeDuplex):
        def prepare(self, *arguments: Any, **more: Any) -> str:
            raise OutOfMemoryError("tried to allocate 2 GiB")

    engine = loaded(objects="2")
    engine._duplexes[0] = Large()
    with pytest.raises(EngineFull, match="2 GiB"):
        opened(engine)
    for _ in engine.open(1, {}, b""):
        pass
    assert engine.unit(1, SILENCE, [], forced=False).listens


@pytest.mark.parametrize(("objects", "fits"), [("auto", 2), ("3", None)])
def test_as_many_objects_as_fit_are_enough_unless_so_many_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objects: str, fits: int | None
) -> None:
    loaded_ones: list[FakeDuplex] = []

    def load(folder: Path, device: str, *, compiled: bool, window: str) -> FakeDuplex:
        assert window == "basic"
        if len(loaded_ones) == 2:
            raise OutOfMemoryError("no more")
        loaded_ones.append(FakeDuplex())
        return loaded_ones[-1]

    monkeypatch.setattr(loading, "check_packages", lambda: None)
    monkeypatch.setattr(loading, "check_weights", lambda folder: None)
    monkeypatch.setattr(loading, "how_many", lambda objects, device: 3)
    monkeypatch.setattr(loading, "load_duplex", load)
    engine = make({"weights": str(tmp_path), "objects": objects})
    if fits is None:
        with pytest.raises(OutOfMemoryError):
            engine.load()
    else:
        engine.load()
        assert engine.facts.slots == fits


def test_pictures_reach_the_object_with_their_unit_and_count() -> None:
    said = []
    for picture in (b"a cat", b"a dog"):
        engine = loaded()
        opened(engine)
        engine.unit(0, SPEECH, [picture], forced=False)
        said.append(engine.unit(0, SILENCE, [], forced=False).pcm)
    assert said[0] != said[1]


class Picture:
    """What PIL makes of bytes, as far as it is asked."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def open(cls, file: BytesIO) -> Picture:
        if (data := file.read()) == b"no picture":
            raise OSError("cannot identify image file")
        if data == b"too large":
            raise RuntimeError("decompression bomb")  # PIL's own kind of error, as many of its decoders have.
        return cls(data)

    def convert(self, mode: str) -> str:
        return f"{self.data.decode()} in {mode}"


def test_pictures_are_opened_for_the_authors_code_and_those_that_cannot_be_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", SimpleNamespace(Image=Picture))
    engine = make({"weights": "/nowhere"})
    assert engine._pictures([b"a cat", b"no picture"]) == ["a cat in RGB"]
    assert engine._pictures([b"no picture", b"too large"]) is None
    assert capsys.readouterr().out.count("left out") == 3


def test_what_is_wrong_with_the_device_is_not_one_sessions_fault() -> None:
    class Broken(FakeDuplex):
        def streaming_prefill(self, *arguments: Any, **more: Any) -> dict[str, Any]:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    engine = loaded()
    engine._duplexes[0] = Broken()
    opened(engine)
    with pytest.raises(EngineDead):
        engine.unit(0, SILENCE, [], forced=False)


def test_sound_is_clipped_not_wrapped() -> None:
    assert int16_of(np.array([[2.0, -2.0, 0.0]], np.float32)) == np.array([32767, -32768, 0], "<i2").tobytes()
    assert int16_of(None) == b""


def test_what_the_object_tells_of_its_networks_is_told_by_stage() -> None:
    found = {
        "n_tokens": 8,
        "n_tts_tokens": 25,
        "cost_llm": 0.2,
        "cost_tts_prep": 0.01,
        "cost_tts": 0.09,
        "cost_token2wav": 0.05,
        "cost_all": 0.35,
    }
    words, codes, sound = stages_of(found, 24_000).values()
    assert words == {
        "num_tokens_out": 8,
        "stage_gen_time_ms": 200,
        "vllm_tpot_ms": 25,
        "output_unit_count": 1,
        "final_output_type": "text",
    }
    assert (codes["num_tokens_out"], codes["stage_gen_time_ms"]) == (25, pytest.approx(100))
    assert (sound["audio_duration_s"], sound["stage_gen_time_ms"]) == (1.0, 50)


def test_an_object_that_tells_nothing_of_itself_has_no_stages() -> None:
    assert stages_of({"text": "yes", "n_tokens": None}, 24_000) == {}


def test_a_unit_that_speaks_brings_its_figures_along(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = loaded()
    duplex = opened(engine)
    spoken = {"is_listen": False, "text": "Yes.", "audio_waveform": np.zeros(2_400, np.float32), "n_tokens": 4}
    monkeypatch.setattr(duplex, "streaming_generate", lambda **settings: spoken)
    done = engine.unit(0, SPEECH, (), forced=False)
    assert done.stages["0"]["num_tokens_out"] == 4
    assert done.stages["2"]["audio_generated_frames"] == 2_400
