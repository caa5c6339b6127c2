"""The engine on tiny random weights: openings, beats, and going on from what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.published_personaplex import write_codec, write_model, write_text_pieces, write_voice
from workers.engine.contract import EngineDead, EngineFull, EngineRefused, Stepped
from workers.neural.mimi.noise import noisy_mimi
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.transformers import MoshiModel
from workers.neural.personaplex.engine import PersonaPlexEngine, make
from workers.neural.personaplex.memory import pack_frame, unpack_frames
from workers.neural.personaplex.weights import CODEC_FILE, MODEL_FILE, TEXT_FILE, WeightsMissing

pytestmark = [pytest.mark.neural, pytest.mark.timeout(240)]

TINY_OPTIONS = {"weights": "random", "shape": "tiny", "slots": "3", "threads": "1"}
OPENING = {"session_id": "sess_1", "incarnation": 0, "instructions": "be kind"}
FRAMES = 36
SOUND = np.random.default_rng(1).normal(0, 0.1, (2, FRAMES, 1, 1920)).astype(np.float32)


def loaded(**more: str) -> PersonaPlexEngine:
    engine = make({**TINY_OPTIONS, **more})
    engine.load()
    return engine


def opened(engine: PersonaPlexEngine, slot: int, opening: Mapping[str, object] = OPENING, memory: bytes = b"") -> int:
    """Open a slot; how many pieces of work that took."""
    return sum(1 for _ in engine.open(slot, opening, memory))


def given(engine: PersonaPlexEngine, codes: Callable[[], np.ndarray]) -> Iterator[None]:
    """Within it the caller's codes are these, whatever the encoder finds."""
    beat = engine.parts.beat
    parts = beat.parts

    def encode() -> None:
        beat.stepper.user.copy_(torch.from_numpy(codes())[None].expand(beat.stepper.slots, -1))

    beat.parts = (encode, *beat.parts[1:])
    yield
    beat.parts = parts


@pytest.fixture(scope="module")
def engine() -> PersonaPlexEngine:
    return loaded()


@pytest.fixture(scope="module")
def whole(engine: PersonaPlexEngine) -> list[Stepped]:
    """A session of its own in slot 0, never interrupted."""
    opened(engine, 0)
    found = [engine.step([0], frame)[0] for frame in SOUND[0]]
    engine.close(0)
    return found


def test_it_says_what_it_is(engine: PersonaPlexEngine) -> None:
    facts = engine.facts
    assert (facts.samples_in, facts.samples_out, facts.frame_ms, facts.slots) == (1920, 1920, 80, 3)
    assert (facts.memory_bytes, facts.window_frames) == (38, 2 * TINY.window)
    assert facts.memory_bytes * facts.window_frames == engine.options.memory_bytes


def test_every_frame_gives_sound_words_and_a_memory(engine: PersonaPlexEngine, whole: list[Stepped]) -> None:
    assert {len(one.pcm) for one in whole} == {3840}
    assert {len(one.memory) for one in whole} == {38}
    assert any(one.text for one in whole) and any(one.speaks for one in whole)
    first, ids = unpack_frames(b"".join(one.memory for one in whole))
    assert first == engine.opening_frames(OPENING)
    # The text of a frame is heard in the next one.
    texts = ["" if number in (0, 3) else f" {number}" for number in ids[:, 0]]
    assert [one.text for one in whole[1:]] == texts[:-1]


def test_a_session_is_the_same_whatever_runs_beside_it(engine: PersonaPlexEngine, whole: list[Stepped]) -> None:
    """In another slot, joined later, with a neighbour that comes and goes and is opened meanwhile."""
    neighbour = {"session_id": "other", "incarnation": 3, "instructions": "say more than that"}
    opened(engine, 0, neighbour)
    found: list[Stepped] = []
    coming = iter(())
    for number in range(FRAMES + 2):
        if number == 2:
            opened(engine, 1)
        if number == 20:
            engine.close(0)
            coming = engine.open(0, neighbour, b"")
        next(coming, None)
        slots = [slot for slot, steps in ((0, number % 3 and number < 20), (1, number >= 2)) if steps]
        if not slots:
            continue
        frames = np.concatenate([SOUND[1, number % FRAMES] if slot == 0 else SOUND[0, number - 2] for slot in slots])
        found += [one for slot, one in zip(slots, engine.step(slots, frames), strict=True) if slot == 1]
    engine.close(0)
    engine.close(1)
    assert [one.memory for one in found] == [one.memory for one in whole]
    assert [one.pcm for one in found] == [one.pcm for one in whole]


@pytest.mark.parametrize("rebuild", ["fast", "exact"])
@pytest.mark.parametrize("kv", ["auto", "int8"])
def test_another_engine_goes_on_from_the_memory(rebuild: str, kv: str) -> None:
    """Equal ids for equal codes of the caller, and the sound within one step of the last bit."""
    first, second = loaded(kv=kv, rebuild=rebuild), loaded(kv=kv, rebuild=rebuild, slots="2")
    opened(first, 2)
    whole = [first.step([2], frame)[0] for frame in SOUND[0]]
    _, ids = unpack_frames(b"".join(one.memory for one in whole))
    opened(second, 1, memory=b"".join(one.memory for one in whole[:20]))
    at = 20
    with_codes = given(second, lambda: ids[at, 9:])
    next(with_codes)
    for at in range(20, FRAMES):
        found = second.step([1], SOUND[1, at])[0]
        assert (found.memory, found.text) == (whole[at].memory, whole[at].text)
        sound, true = (np.frombuffer(one.pcm, np.int16).astype(int) for one in (found, whole[at]))
        assert abs(sound - true).max() <= 1


def test_a_fresh_encoder_is_told_what_the_caller_said_last(engine: PersonaPlexEngine, whole: list[Stepped]) -> None:
    """It need not hear the same codes as the lost one, but it has left its beginning behind."""
    opened(engine, 1, memory=b"".join(one.memory for one in whole[:20]))
    assert not bool(engine.parts.beat.codec._is_fresh[1])
    opened(engine, 1)
    assert bool(engine.parts.beat.codec._is_fresh[1])
    engine.close(1)


def test_the_end_of_a_long_memory_is_enough_to_go_on(engine: PersonaPlexEngine, whole: list[Stepped]) -> None:
    later = b"".join(one.memory for one in whole[10:])
    opened(engine, 1, memory=later)
    found = engine.step([1], SOUND[0, 0])[0]
    engine.close(1)
    number, _ = unpack_frames(found.memory)
    assert number == engine.opening_frames(OPENING) + FRAMES


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_so_is_a_memory_of_a_frame_or_two(engine: PersonaPlexEngine, whole: list[Stepped], kept: int) -> None:
    opened(engine, 1, memory=b"".join(one.memory for one in whole[-kept:]))
    number, _ = unpack_frames(engine.step([1], SOUND[0, 0])[0].memory)
    assert number == engine.opening_frames(OPENING) + FRAMES
    engine.close(1)


def test_a_memory_that_cannot_be_continued_is_refused(engine: PersonaPlexEngine) -> None:
    for memory in (b"x" * 37, pack_frame(5, np.full(17, 60_000))):
        with pytest.raises(EngineRefused) as refused:
            engine.open(0, OPENING, memory)
        assert refused.value.code == "runtime_open_failed"


def test_instructions_that_fill_the_window_are_refused_by_name(engine: PersonaPlexEngine) -> None:
    with pytest.raises(EngineRefused) as refused:
        engine.open(0, {**OPENING, "instructions": "word " * 40}, b"")
    assert (refused.value.code, refused.value.param) == ("invalid_duplex_runtime_config", "session.instructions")


def test_samples_that_are_no_numbers_are_silence_and_harm_nobody(engine: PersonaPlexEngine) -> None:
    broken = np.full((1, 1920), np.nan, np.float32)
    broken[0, :9] = np.inf
    opened(engine, 0)
    engine.step([0], broken)
    opened(engine, 0)
    found = [engine.step([0], frame)[0].memory for frame in SOUND[0][:5]]
    opened(engine, 0)
    assert found == [engine.step([0], frame)[0].memory for frame in SOUND[0][:5]]
    engine.close(0)


def test_a_beat_that_cannot_be_is_refused_before_anything_moves(engine: PersonaPlexEngine) -> None:
    opened(engine, 0)
    for slots, frames in (([0, 1], SOUND[0, :2, 0]), ([0], SOUND[0, 0][:, :100])):
        with pytest.raises(ValueError, match="of which not all are open"):
            engine.step(slots, frames)
    assert engine._frames[0] == engine.opening_frames(OPENING)
    engine.close(0)
    engine.close(0)


def test_too_little_memory_ends_one_opening_and_a_fault_of_the_device_all(
    engine: PersonaPlexEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(error: Exception) -> Callable[..., None]:
        def fail(*arguments: object) -> None:
            raise error

        return fail

    opened(engine, 1)
    stepper = engine.parts.beat.stepper
    monkeypatch.setattr(stepper, "prefill", raising(torch.OutOfMemoryError("full")))
    with pytest.raises(EngineFull, match="no room for this session"):
        opened(engine, 0)
    monkeypatch.setattr(stepper, "prefill", raising(RuntimeError("CUDA error: unspecified launch failure")))
    with pytest.raises(EngineDead, match="launch failure"):
        opened(engine, 0)
    monkeypatch.undo()
    engine.step([1], SOUND[0, 0])
    monkeypatch.setattr(engine.parts.beat, "parts", (raising(RuntimeError("CUDA error: an illegal access")),))
    with pytest.raises(EngineDead, match="illegal access"):
        engine.step([1], SOUND[0, 0])
    monkeypatch.undo()
    engine.close(1)


# -- from files ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published layout, in small."""
    found = tmp_path_factory.mktemp("personaplex")
    model = MoshiModel(TINY)
    model.fill_with_noise(4)
    write_model(model, found / MODEL_FILE)
    write_codec(noisy_mimi(small=True, seed=4), found / CODEC_FILE)
    write_text_pieces(found / TEXT_FILE, TINY.text_card)
    (found / "voices").mkdir()
    for name, seed in (("NATF2.pt", 1), ("NATM0.pt", 2)):
        dice = torch.Generator().manual_seed(seed)
        rows = torch.randn(3, TINY.width, generator=dice)
        write_voice(found / "voices" / name, rows, torch.randint(0, 64, (17, 4), generator=dice))
    return found


def test_an_engine_from_files_speaks_with_the_voice_that_was_asked_for(folder: Path) -> None:
    engine = loaded(weights=str(folder))
    opening = {"session_id": "s", "incarnation": 0}
    found = {}
    for voice in (None, "NATF2.pt", "NATM0.pt"):
        opened(engine, 0, {**opening, "voice": voice})
        found[voice] = b"".join(engine.step([0], frame)[0].memory for frame in SOUND[0][:8])
    assert found[None] == found["NATF2.pt"] != found["NATM0.pt"]
    assert engine.opening_frames(opening) == 3 + 12
    with pytest.raises(EngineRefused) as refused:
        engine.open(0, {**opening, "voice": "../NATF2.pt"}, b"")
    assert (refused.value.code, refused.value.param) == ("invalid_duplex_runtime_config", "session.voice")


def test_an_engine_without_its_files_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WeightsMissing, match=r"model\.safetensors is missing: accept the licence"):
        make({"weights": str(tmp_path)}).load()
