"""What is taken out of a record and what stays."""

from __future__ import annotations

import pytest

from duplex_es.archive.masks import masked, texts_in, unsounded, without_texts
from duplex_es.reading.notes import MASK

pytestmark = pytest.mark.unit

RECORD = {
    "type": "conversation.item.created",
    "item": {
        "id": "item_1",
        "role": "user",
        "content": [{"type": "input_audio", "transcript": "hello", "audio": "UklG"}],
    },
    "data": b"\x01",
    "usage": {"note": "kept"},
    "n": 5,
    "blank": " ",
    "metadata": {"caller": "anna"},
}


def test_words_and_bytes_go_and_what_holds_the_record_together_stays() -> None:
    assert masked(RECORD) == {
        "type": "conversation.item.created",
        "item": {
            "id": "item_1",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": MASK, "audio": MASK}],
        },
        "data": b"",
        "usage": {"note": "kept"},
        "n": 5,
        "blank": " ",
        "metadata": {"caller": "anna"},
    }


def test_a_mask_says_nothing_of_how_long_the_text_was() -> None:
    assert masked({"text": "a"}) == masked({"text": "a" * 99})


def test_sound_in_a_record_goes_and_its_words_stay() -> None:
    left = unsounded(RECORD)
    assert left["item"]["content"][0] == {"type": "input_audio", "transcript": "hello", "audio": ""}
    assert left["data"] == b""


def test_a_text_is_found_and_taken_out_wherever_it_is_repeated() -> None:
    assert texts_in(RECORD) == {"hello", "UklG"}
    assert without_texts({"a": ["hello", "hello you"], "type": "hello"}, {"hello"}) == {
        "a": [MASK, "hello you"],
        "type": "hello",
    }
