"""Appends, model units and the pictures between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.client import AudioFormat, chunk_period_ms, duplex_unit_boundary_ms, has_residual_model_unit
from duplex_es.client.units import chunks

pytestmark = pytest.mark.unit

PCM16 = AudioFormat("pcm16", 16_000)


def seconds(count: float) -> bytes:
    return bytes(int(count * 16_000) * 2)


def test_the_first_unit_is_a_little_longer_than_the_others() -> None:
    assert [duplex_unit_boundary_ms(unit) for unit in range(3)] == [1_030, 2_030, 3_030]


@given(st.binary(max_size=400), st.floats(0.01, 10), st.sampled_from(["pcm16", "pcm_f32le"]))
def test_no_byte_is_lost_and_no_sample_is_cut(pcm: bytes, chunk_ms: float, encoding: str) -> None:
    audio = AudioFormat(encoding, 16_000)
    pieces = [chunk.pcm for chunk in chunks(pcm, audio, chunk_ms=chunk_ms)]
    assert b"".join(pieces) == pcm
    assert all(len(piece) % audio.bytes_per_sample == 0 for piece in pieces[:-1])


def test_each_frame_rides_the_append_that_completes_its_unit() -> None:
    pieces = list(chunks(seconds(3.2), PCM16, chunk_ms=100, video_frames=["a", "b", "c"]))
    assert [(chunk.end_ms, chunk.frames) for chunk in pieces if chunk.frames] == [
        (1_100, ("a",)),
        (2_100, ("b",)),
        (3_100, ("c",)),
    ]


def test_an_append_that_ends_exactly_at_the_unit_carries_its_frame() -> None:
    pieces = list(chunks(seconds(2.06), PCM16, chunk_ms=1_030, video_frames=["a", "b"]))
    assert [chunk.frames for chunk in pieces] == [("a",), ("b",)]


def test_long_appends_carry_one_frame_each_until_the_units_are_caught_up() -> None:
    pieces = list(chunks(seconds(6), PCM16, chunk_ms=3_000, video_frames=["a", "b", "c"]))
    assert [chunk.frames for chunk in pieces] == [("a",), ("b",)]


def test_the_last_frame_repeats_with_its_composite() -> None:
    pieces = chunks(seconds(4.2), PCM16, chunk_ms=100, video_frames=["a", "b"], stacked_video_frames=[None, "b+"])
    assert [chunk.frames for chunk in pieces if chunk.frames] == [("a",), ("b", "b+"), ("b", "b+"), ("b", "b+")]


def test_a_clip_shorter_than_its_first_unit_sends_no_frame() -> None:
    assert not any(chunk.frames for chunk in chunks(seconds(1), PCM16, chunk_ms=100, video_frames=["a"]))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], 1_000),
        ([{"session": {"capabilities": {"chunk_period_ms": 80}}}], 80),
        ([{"session": {"capabilities": {"chunk_period_ms": 80}}}, {"session": {}}], 80),
        ([{"session": {"capabilities": {"chunk_period_ms": True}}}], 1_000),
        ([{"session": {"capabilities": {"chunk_period_ms": 0}}}], 1_000),
    ],
)
def test_the_length_of_a_unit_is_the_servers_newest_word(events: list[dict[str, object]], expected: int) -> None:
    assert chunk_period_ms(events) == expected


def test_a_residue_is_what_does_not_fill_a_unit() -> None:
    assert not has_residual_model_unit(seconds(2), chunk_period_ms=1_000)
    assert has_residual_model_unit(seconds(2) + b"\0\0", chunk_period_ms=1_000)
    assert not has_residual_model_unit(b"", chunk_period_ms=80)
