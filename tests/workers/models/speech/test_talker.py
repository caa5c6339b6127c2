"""The voice that comes with the package, behind the contract of an engine that is asked turn by turn."""

from __future__ import annotations

import pytest

from workers.engine.turns import TurnPiece
from workers.models.speech.talker import PIECE_MS, RATE_HZ, Talker, make

pytestmark = pytest.mark.unit

TEXT = "Well, here I am. "


@pytest.fixture(scope="module")
def talker() -> Talker:
    talker = make({})
    talker.load()
    return talker


def said(talker: Talker, slot: int, **asked: object) -> list[TurnPiece]:
    for _ in talker.ask(slot, {"text": TEXT, **asked}, (), b""):
        pass
    pieces = []
    while not pieces or not pieces[-1].ends:
        pieces += talker.step([slot])
    talker.drop(slot)
    return pieces


def test_a_clause_comes_in_pieces_with_the_words_that_begin_in_them(talker: Talker) -> None:
    *pieces, end = said(talker, 0)
    assert end == TurnPiece(ends="stop")
    assert "".join(piece.text for piece in pieces) == TEXT
    assert {len(piece.pcm) for piece in pieces[:-1]} == {RATE_HZ * PIECE_MS // 1000 * 2}
    assert 0.5 < sum(len(piece.pcm) for piece in pieces) / 2 / RATE_HZ < 3.0
    first = pieces[0].audio_metadata
    assert first == {"format": "pcm", "sample_rate_hz": RATE_HZ, "frame_count": 1764, "channels": 1}


def test_one_that_broke_off_goes_on_with_the_same_samples(talker: Talker) -> None:
    whole = said(talker, 0)
    pcm, text = b"".join(piece.pcm for piece in whole), "".join(piece.text for piece in whole)
    for told_chars, told_bytes in ((0, 3528), (6, 5000), (len(TEXT), len(pcm))):
        rest = said(talker, 1, told=[told_chars, told_bytes])
        assert b"".join(piece.pcm for piece in rest) == pcm[told_bytes:]
        assert "".join(piece.text for piece in rest) == text[told_chars:]


def test_clauses_beside_each_other_do_not_mix_and_one_that_is_dropped_is_gone(talker: Talker) -> None:
    alone = said(talker, 0)
    for slot, text in ((0, TEXT), (1, "Something else. ")):
        for _ in talker.ask(slot, {"text": text}, (), b""):
            pass
    talker.drop(1)
    talker.drop(1)
    assert [talker.step([0])[0] for _ in alone] == alone


def test_what_cannot_be_pronounced_ends_at_once(talker: Talker) -> None:
    assert said(talker, 0, text=" … ")[-1].ends == "stop"


def test_it_has_no_options_and_speaks_only_once_loaded() -> None:
    with pytest.raises(ValueError, match="'colour'"):
        make({"colour": "red"})
    with pytest.raises(RuntimeError, match="not loaded"):
        next(make({}).ask(0, {"text": "a"}, (), b""))
