"""Turns on tiny random weights: what transformers' own generate gives, whatever runs beside, and after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.tiny_qwen3omni import OPTIONS, Answer, Table, question, sound, tiny
from workers.engine.contract import EngineDead, EngineFull, EngineRefused
from workers.neural_qwen3omni import loading, shapes
from workers.neural_qwen3omni.engine import FIRST_FRAMES, Qwen3OmniEngine, make
from workers.neural_qwen3omni.turn import unpack_memory

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

GREEDY: dict[str, Any] = {"settings": {"temperature": 0.0, "max_tokens": 16}}


@pytest.fixture(scope="module")
def engine() -> Qwen3OmniEngine:
    return tiny()


@pytest.fixture
def table(engine: Qwen3OmniEngine) -> Iterator[Table]:
    table = Table(engine)
    yield table
    for slot in table.answers:
        engine.drop(slot)


def generated(asked: dict[str, Any], sounds: list[bytes], frames: int) -> tuple[list[int], np.ndarray]:
    """The ids and the waveform that transformers generate of the same prompt, greedily."""
    loaded = loading.load_random("cpu", 0)
    whole = make({**OPTIONS, "talker_temperature": "0"})
    whole.build(loading.load_random("cpu", 0))
    prompt = whole._prompter.prompt(asked, [len(one) // 2 for one in sounds], room=400)
    ids = torch.tensor([prompt.ids])
    more: dict[str, Any] = {}
    if sounds:
        samples = np.frombuffer(sounds[0], "<i2").astype(np.float32) / 32768
        found = loaded.extractor(
            samples, sampling_rate=16_000, padding="longest", return_attention_mask=True, return_tensors="pt"
        )
        more = {"input_features": found["input_features"], "feature_attention_mask": found["attention_mask"]}
    sequences, waveform = loaded.model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        thinker_max_new_tokens=asked["settings"]["max_tokens"],
        thinker_do_sample=False,
        thinker_eos_token_id=shapes.IM_END,
        talker_do_sample=False,
        talker_max_new_tokens=frames + 1,
        **more,
    )
    return sequences[0, ids.shape[1] :].tolist(), waveform.reshape(-1).numpy()


@pytest.mark.parametrize("heard", [False, True], ids=["words", "speech"])
def test_a_greedy_turn_is_what_transformers_generate(heard: bool) -> None:
    engine = tiny(talker_temperature="0")
    sounds = [sound()] if heard else []
    asked = question("what is this?", heard=0 if heard else None, instructions="be kind", **GREEDY)
    ids, waveform = generated(asked, sounds, frames=40)
    answer = Table(engine).whole(asked, sounds)
    assert unpack_memory(answer.memory, shapes.GROUPS)[0] == ids
    pcm = np.frombuffer(answer.pcm, "<i2") / 32768
    assert len(pcm) == len(waveform) > 10_000
    assert np.abs(waveform).max() > 0.001, "silence would prove nothing"
    np.testing.assert_allclose(pcm, waveform, atol=2e-3)


def test_an_answer_has_words_and_sound_that_say_what_they_are(table: Table) -> None:
    answer = table.whole(question("hello"))
    last = answer.pieces[-1]
    assert answer.text.strip() and len(answer.pcm) > 2 * 1920
    assert last.ends in {"stop", "length"} and last.output_tokens > 0 and last.input_tokens > 5
    assert sum(piece.drew[0] for piece in answer.pieces) == last.output_tokens
    assert sum(piece.drew[1] for piece in answer.pieces) > 0
    for piece in answer.pieces:
        assert bool(piece.pcm) == (piece.audio_metadata is not None)
        if piece.audio_metadata is not None:
            assert piece.audio_metadata == {
                "format": "pcm",
                "sample_rate_hz": 24_000,
                "frame_count": len(piece.pcm) // 2,
                "channels": 1,
            }


def test_sound_begins_long_before_the_answer_ends(table: Table) -> None:
    answer = table.ask(0, question("hello"))
    while not answer.pcm:
        table.step()
    assert len(answer.pieces) <= FIRST_FRAMES + 4
    assert not answer.is_over
    table.finish()


@pytest.mark.parametrize("frames", range(1, 15))
def test_the_last_words_come_with_a_sound_however_many_frames_there_are(engine: Qwen3OmniEngine, frames: int) -> None:
    engine._most_frames, before = frames, engine._most_frames
    try:
        answer = Table(engine).whole(question("hello", settings={"max_tokens": 6}))
    finally:
        engine._most_frames = before
    assert answer.text
    assert all(piece.pcm for piece in answer.pieces if piece.text)


def test_a_written_answer_has_the_same_words_and_no_sound(table: Table) -> None:
    aloud = table.whole(question("hello", seed="s"))
    silent = table.whole(question("hello", seed="s", aloud=False))
    assert (silent.text, silent.pcm) == (aloud.text, b"")


def test_a_turn_is_the_same_whatever_runs_beside_it(table: Table, engine: Qwen3OmniEngine) -> None:
    asked = [
        (question("one", seed="1"), []),
        (question("and two, which is longer", heard=0, seed="2"), [sound(0.7)]),
        (question("three", seed="3", settings={"temperature": 1.3, "top_p": 0.5}), []),
    ]
    alone = [table.whole(turn, sounds) for turn, sounds in asked]
    beside = [Answer()] * 3
    # Each joins at another time, in another slot; the last one takes the slot of one that was cancelled.
    beside[1] = table.ask(2, *asked[1])
    table.step()
    table.ask(0, question("cancelled", seed="9"))
    table.step()
    beside[0] = table.ask(3, *asked[0])
    for _ in range(3):
        table.step(2, 3)
    engine.drop(0)
    beside[2] = table.ask(0, *asked[2])
    table.finish()
    for one, other in zip(alone, beside, strict=True):
        assert one.memory == other.memory
        assert one.text == other.text
        difference = np.frombuffer(one.pcm, "<i2").astype(int) - np.frombuffer(other.pcm, "<i2")
        assert np.abs(difference).max() <= 2


def test_another_seed_is_another_answer_and_the_same_seed_the_same(table: Table) -> None:
    said = [table.whole(question("hello", seed=seed)).memory for seed in ("a", "b", "a")]
    assert said[0] == said[2] != said[1]


@pytest.mark.parametrize("steps", [1, 3, 6, 12, 24, 30])
def test_a_turn_goes_on_in_another_engine_behind_what_was_told(table: Table, steps: int) -> None:
    asked = question("tell me", heard=0, seed="x")
    whole = table.whole(asked, [sound()])
    first = table.ask(1, asked, [sound()])
    for _ in range(steps):
        if not first.is_over:
            table.step()
    second = Table(tiny())
    told = [len(first.text), len(first.pcm)]
    rest = second.ask(0, {**asked, "told": told}, [sound()], first.memory)
    second.finish()
    assert first.text + rest.text == whole.text
    assert first.memory + rest.memory == whole.memory
    joined = np.frombuffer(first.pcm + rest.pcm, "<i2").astype(int)
    assert np.abs(joined - np.frombuffer(whole.pcm, "<i2")).max() <= 2
    assert rest.pieces[-1].ends == whole.pieces[-1].ends


def test_a_step_that_fails_leaves_every_turn_where_it_was(
    table: Table, engine: Qwen3OmniEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [question("one", seed="1"), question("two", seed="2")]
    alone = [table.whole(turn) for turn in asked]
    answers = [table.ask(slot, turn) for slot, turn in enumerate(asked)]
    for _ in range(5):
        table.step()

    def broken(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine._talker, "residuals", broken)
        with pytest.raises(EngineFull):
            engine.step([0, 1])
    table.finish()
    assert [answer.memory for answer in answers] == [answer.memory for answer in alone]


def test_a_prompt_that_finds_no_memory_is_refused_alone(
    table: Table, engine: Qwen3OmniEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = table.whole(question("one", seed="1"))
    answer = table.ask(0, question("one", seed="1"))
    table.step()

    def broken(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine._thinker, "heard", broken)
        with pytest.raises(EngineFull, match="no memory"):
            list(engine.ask(1, question(heard=0), [sound()], b""))
    engine.drop(1)
    table.finish()
    assert answer.memory == alone.memory


def test_a_device_that_fails_is_dead(engine: Qwen3OmniEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(engine._thinker, "read", broken)
    with pytest.raises(EngineDead):
        list(engine.ask(0, question(), [], b""))


def test_what_the_model_has_not_is_refused(engine: Qwen3OmniEngine) -> None:
    with pytest.raises(EngineRefused) as refused:
        list(engine.ask(0, question(voice="nobody"), [], b""))
    assert refused.value.param == "session.voice"
    with pytest.raises(EngineRefused, match="longer than"):
        list(engine.ask(0, question("x" * 2000), [], b""))


def test_a_tool_call_is_neither_shown_nor_spoken(table: Table, engine: Qwen3OmniEngine) -> None:
    """The model writes a few words, calls a tool and ends: the ids are forced, as random weights call none."""
    call = '{"name": "light", "arguments": {"on": true}}'
    words = engine._vocabulary
    ids = [*words.encode("ok"), words.tool_open, *words.encode(call), words.tool_close, shapes.IM_END]
    forced = iter(ids)
    written = engine._written

    def write(turns: Any) -> Any:
        after = written(turns)
        for slot, turn in turns.items():
            if turn.is_writing:
                number = next(forced)
                text = turn.written.with_id(number, words)
                after[slot] = replace(after[slot], written=text, is_writing=number != shapes.IM_END, was_cut=False)
        return after

    engine._written = write  # type: ignore[method-assign]
    try:
        answer = table.whole(question("light", settings={"max_tokens": 100}))
    finally:
        del engine._written
    assert answer.text == "ok"
    (found,) = answer.pieces[-1].calls
    assert (found.name, found.arguments) == ("light", '{"on": true}')
    assert answer.pcm, "the words before it are spoken"
