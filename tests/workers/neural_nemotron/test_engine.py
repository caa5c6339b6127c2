"""Sessions on tiny random weights: the same whatever runs beside, whatever was before, and after a crash."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.support.tiny_nemotron import Call, Table, ids_of, prepare, sound, tiny
from workers.engine.contract import EngineDead, EngineFull, EngineRefused
from workers.neural_nemotron.engine import NemotronEngine, make
from workers.neural_nemotron.memory import pack_frame, unpack_frames
from workers.neural_nemotron.options import RECORD_BYTES
from workers.neural_nemotron.vocabulary import ByteVocabulary

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def engine() -> NemotronEngine:
    return tiny()


@pytest.fixture
def table(engine: NemotronEngine) -> Iterator[Table]:
    yield Table(engine)
    for slot in range(engine.facts.slots):
        engine.close(slot)


def test_its_facts_are_those_that_were_announced(engine: NemotronEngine) -> None:
    facts = engine.facts
    assert (facts.samples_in, facts.samples_out, facts.frame_ms) == (1280, 1764, 80)
    assert (facts.slots, facts.window_frames, facts.memory_bytes) == (4, 120, RECORD_BYTES)
    assert facts.name == "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B (random)" and facts.device == "cpu"


def test_a_session_says_something_and_is_silent_at_times(table: Table) -> None:
    call = table.whole(sound(60))
    assert len(call.text) > 10
    assert 0 < sum(frame.speaks for frame in call.frames) < 60
    assert all(frame.pcm == b"" and len(frame.memory) == RECORD_BYTES for frame in call.frames)
    for frame, (text, _) in zip(call.frames, ids_of(call), strict=True):
        assert frame.speaks == (text not in (12, 2))


def test_what_is_said_depends_on_what_is_heard_and_on_the_prompt(table: Table) -> None:
    said = [ids_of(table.whole(sound(40, seed), prompt=prompt)) for seed, prompt in ((1, "a"), (2, "a"), (1, "b"))]
    assert said[0] != said[1] and said[0] != said[2]
    assert said[0] == ids_of(table.whole(sound(40, 1), prompt="a"))


def test_a_session_is_the_same_bit_by_bit_whatever_runs_beside_it(table: Table) -> None:
    """They join, stand still, leave, and take each other's places."""
    alone = [table.whole(sound(50, seed), slot) for slot, seed in ((0, 1), (2, 2), (3, 3))]
    first = table.open(2, sound(50, 2))
    table.step()
    table.open(0, sound(50, 9), prompt="this one is cut off")
    for _ in range(5):
        table.step()
    table.engine.close(0)
    second = table.open(0, sound(50, 1))
    for round_ in range(12):
        table.step(*((0,) if round_ % 3 else (0, 2)))
    third = table.open(3, sound(50, 3))
    table.finish()
    for one, other in zip(alone, (second, first, third), strict=True):
        assert one.memory == other.memory
        assert one.text == other.text


def test_a_session_is_the_same_in_every_slot(table: Table) -> None:
    assert len({table.whole(sound(50, 4), slot).memory for slot in range(4)}) == 1


@pytest.fixture(scope="module", params=["0", "1.0"], ids=["likeliest", "drawn"])
def pair(request: pytest.FixtureRequest) -> tuple[Call, NemotronEngine]:
    """What a session gave in one engine, and another engine."""
    whole = Table(tiny(temperature=request.param)).whole(sound(100, 5))
    return whole, tiny(temperature=request.param)


@pytest.mark.parametrize("frames", [1, 7, 16, 33, 64])
def test_a_session_goes_on_in_another_engine_where_it_stood(pair: tuple[Call, NemotronEngine], frames: int) -> None:
    whole, engine = pair
    other = Table(engine)
    other.open(3, sound(60, 6), session_id="beside")
    for _ in range(3):
        other.step()
    rest = other.open(1, sound(100, 5)[frames:], whole.memory[: frames * RECORD_BYTES])
    other.finish()
    assert ids_of(rest) == ids_of(whole)[frames:]
    assert rest.memory == whole.memory[frames * RECORD_BYTES :]


def test_a_session_that_is_read_between_two_beats_disturbs_nobody_and_is_as_it_was(table: Table) -> None:
    beside, lost = table.whole(sound(50, 1)), table.whole(sound(60, 5))
    going = table.open(0, sound(50, 1))
    pieces = 0
    for _ in table.engine.open(1, {"prompt": "be kind", "session_id": "s"}, lost.memory[: 40 * RECORD_BYTES]):
        table.step(0)
        pieces += 1
    assert pieces == 4
    table.calls[1] = Call(sound(60, 5)[40:])
    again = table.calls[1]
    table.finish()
    assert going.memory == beside.memory
    assert again.memory == lost.memory[40 * RECORD_BYTES :]


def test_letters_that_were_torn_when_it_was_lost_are_whole_in_the_end(table: Table) -> None:
    heard, told = sound(30), "é<SPECIAL_22>"
    first = table.open(0, heard)
    table.step()
    table.engine.inform(0, told)
    table.step()
    assert first.frames[-1].forced and first.frames[-1].function == ""
    rest = table.open(1, heard[2:], first.memory)
    table.engine.inform(1, told, told=1)
    table.step(1)
    table.step(1)
    assert rest.function == told


def test_a_letter_with_a_pause_in_it_is_whole_as_well(table: Table) -> None:
    words = ByteVocabulary()
    written = [words.encode("é")[0], *[words.pad] * 20]
    silence = np.zeros(1280, np.int16)
    memory = b"".join(pack_frame(frame, words.pad, number, silence) for frame, number in enumerate(written))
    call = table.open(0, sound(1), memory)
    table.engine.inform(0, "é", told=1)
    table.step()
    assert call.function == "é"


def test_reading_a_memory_is_much_faster_than_the_call_was(engine: NemotronEngine) -> None:
    # In processor time: the clock on the wall would count what else this machine does.
    began_s = time.process_time()
    call = Table(engine).whole(sound(100))
    stepped_s, began_s = time.process_time() - began_s, time.process_time()
    pieces = prepare(engine, 0, {"prompt": "be kind"}, call.memory)
    read_s = time.process_time() - began_s
    assert read_s < stepped_s / 2 and read_s < 100 * 0.08
    assert pieces == 1 + -(-100 // 16)


def test_a_longer_session_goes_on_from_its_last_frames(table: Table) -> None:
    """Not as it was: what lies further back is forgotten, but for the prompt."""
    call = table.whole(sound(130))
    rest = table.open(0, sound(10, 2), call.memory[-100 * RECORD_BYTES :])
    table.step()
    assert unpack_frames(rest.memory, 1).frame == 130


def test_a_call_that_fills_what_attention_sees_goes_on(table: Table) -> None:
    call = table.whole(sound(340))
    assert len(call.frames) == 340 and len(set(ids_of(call)[-40:])) > 1


def test_a_step_is_faster_than_a_frame(table: Table) -> None:
    for slot in range(4):
        table.open(slot, sound(30, slot))
    took_s = []
    for _ in range(30):
        began_s = time.monotonic()
        table.step()
        took_s.append(time.monotonic() - began_s)
    # The best of them: the machine may be busy with others.
    assert min(took_s) < 0.08


# -- the function channel ------------------------------------------------------------------------------------------


def test_what_is_forced_goes_in_a_token_a_frame_while_nothing_is_said(table: Table) -> None:
    call = table.open(1, sound(40))
    for _ in range(3):
        table.step()
    told = '<TOOL_RESPONSE>[{"t":3}]</TOOL_RESPONSE><SPECIAL_22>'
    table.engine.inform(1, told)
    for _ in range(36):
        table.step()
    forced = [frame for frame in call.frames if frame.forced]
    assert [frame.forced for frame in call.frames] == [False] * 3 + [True] * 36
    assert "".join(frame.function for frame in forced) == told[:36]
    assert not any(frame.speaks or frame.text for frame in forced)


def test_after_what_was_forced_it_speaks_as_one_that_knows_it(table: Table) -> None:
    plain = table.whole(sound(40, 3))
    call = table.open(0, sound(40, 3))
    table.step()
    table.engine.inform(0, "<SPECIAL_20>x<SPECIAL_21>")
    table.finish()
    assert call.function == "<SPECIAL_20>x<SPECIAL_21>"
    assert [frame.forced for frame in call.frames][:5] == [False, True, True, True, False]
    assert ids_of(call)[4:] != ids_of(plain)[4:]
    assert any(frame.speaks for frame in call.frames[4:])


def test_what_is_forced_is_behind_what_waits_and_left_out_as_far_as_it_was_told(table: Table) -> None:
    call = table.open(0, sound(12))
    table.engine.inform(0, "abc")
    table.engine.inform(0, "xyz<SPECIAL_22>", told=2)
    table.finish()
    assert call.function == "abcz<SPECIAL_22>"


def test_a_session_that_was_informed_goes_on_where_it_stood(table: Table) -> None:
    heard, told = sound(60, 7), "<TOOL_RESPONSE>[1]</TOOL_RESPONSE><SPECIAL_22>"
    whole = table.open(0, heard)
    table.engine.inform(0, told)
    table.finish()
    rest = table.open(2, heard[20:], whole.memory[: 20 * RECORD_BYTES])
    table.engine.inform(2, told, told=20)
    table.finish()
    assert rest.memory == whole.memory[20 * RECORD_BYTES :]


def test_more_than_may_wait_is_refused_and_nothing_else_happens() -> None:
    engine = tiny(pending_tokens="5")
    table = Table(engine)
    call = table.open(0, sound(6))
    engine.inform(0, "abc")
    with pytest.raises(EngineFull, match="3 tokens wait to be taken in, 3 more exceed 5"):
        engine.inform(0, "def")
    table.finish()
    assert call.function == "abc"


# -- what cannot be ------------------------------------------------------------------------------------------------


def test_a_prompt_that_is_too_long_is_refused_at_once(engine: NemotronEngine) -> None:
    with pytest.raises(EngineRefused, match=r"are 202 tokens, and may be 200") as refused:
        engine.open(0, {"prompt": "x" * 200}, b"")
    assert refused.value.param == "session.instructions"
    prepare(engine, 0, {"prompt": "x" * 198})


def test_an_opening_without_a_prompt_is_that_of_its_instructions(table: Table) -> None:
    given = table.whole(sound(20), prompt="be kind")
    assert table.whole(sound(20), prompt="", instructions="be kind").memory == given.memory
    assert len(table.whole(sound(20), prompt="", instructions=None).frames) == 20


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        (b"abc", "a memory of 3 bytes"),
        (
            pack_frame(1, 12, 12, np.zeros(1280, np.int16)) + pack_frame(3, 12, 12, np.zeros(1280, np.int16)),
            "do not follow",
        ),
        (pack_frame(1, 70_000, 12, np.zeros(1280, np.int16)), "another model's tokens"),
    ],
    ids=["torn", "gap", "foreign"],
)
def test_a_memory_that_is_none_is_refused(engine: NemotronEngine, memory: bytes, why: str) -> None:
    with pytest.raises(EngineRefused, match=why) as refused:
        engine.open(0, {"prompt": ""}, memory)
    assert refused.value.code == "runtime_open_failed"


def test_frames_that_do_not_fit_and_slots_that_are_closed_are_said(engine: NemotronEngine) -> None:
    with pytest.raises(ValueError, match="slot 2 is not open"):
        engine.step([2], np.zeros((1, 1280), np.float32))
    prepare(engine, 2, {})
    with pytest.raises(ValueError, match=r"a beat of \(1, 1000\)"):
        engine.step([2], np.zeros((1, 1000), np.float32))
    engine.close(2)
    engine.close(2)


def test_samples_that_are_none_are_silence(table: Table) -> None:
    broken = sound(10)
    broken[3] = np.nan
    silent = broken.copy()
    silent[3] = 0.0
    assert table.whole(broken).memory == table.whole(silent).memory


@pytest.mark.parametrize(
    "fault",
    [RuntimeError("CUDA error"), torch.OutOfMemoryError("CUDA out of memory"), IndexError("index out of range")],
    ids=str,
)
def test_a_step_that_fails_is_the_end_of_the_engine(
    table: Table, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Some sessions have heard their frame by then: it must not be heard again."""
    table.open(0, sound(3))

    def broken(*_: object) -> None:
        raise fault

    monkeypatch.setattr(table.engine._mind, "step", broken)
    with pytest.raises(EngineDead):
        table.step()


def test_an_opening_that_finds_no_memory_is_refused_alone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table.whole(sound(20))
    call = table.open(0, sound(20))
    table.step()

    def broken(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(table.engine._mind, "read", broken)
        with pytest.raises(EngineFull, match="no memory"):
            prepare(table.engine, 1, {"prompt": "x"})
    table.finish()
    assert call.memory == whole.memory


def test_an_option_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="option weights is missing"):
        make({})
