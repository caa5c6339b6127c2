"""What is remembered lies in its own row; who does not use it is found out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from workers.neural_nemotron.rows import CacheIgnored, EarRows, MindRows, Rows, keyword_of, span_of
from workers.neural_nemotron.shapes import shape_of

pytestmark = pytest.mark.neural

LIKE = torch.zeros(0)


def mind(slots: int = 3, capacity: int = 8) -> MindRows:
    return MindRows(shape_of("tiny").language, slots, capacity, LIKE)


def test_a_slot_that_stands_still_steps_with_nobodys_row() -> None:
    rows = Rows(3, torch.device("cpu"))
    rows.aim_all([2, 0])
    assert rows.places.tolist() == [0, 3, 2]
    rows.aim_one(1)
    assert rows.places.tolist() == [1]


def test_parts_that_did_not_use_it_are_counted() -> None:
    rows = mind()
    rows.step([0])
    rows.get_recurrent_state(0)
    with pytest.raises(CacheIgnored, match="1 of 3 parts of the model used their cache"):
        rows.commit()


def test_the_keyword_is_what_the_library_calls_it() -> None:
    assert keyword_of(lambda cache: None) == "cache"
    assert keyword_of(lambda past_key_values: None) == "past_key_values"


def test_the_library_takes_what_it_is_handed_over() -> None:
    """An unknown keyword would be swallowed, and every frame would be the first."""
    from transformers import NemotronAsrStreamingEncoder, NemotronHForCausalLM

    shape = shape_of("tiny")
    with torch.device("meta"):
        language = NemotronHForCausalLM._from_config(shape.language)
        encoder = NemotronAsrStreamingEncoder._from_config(shape.encoder)
    assert keyword_of(language.model.forward) == keyword_of(encoder.layers[0].forward) == "cache"


def stepped(rows: MindRows, slots: list[int], value: float) -> Any:
    """One step in which every part is given ``value``; what attention sees, and its mask."""
    mask = rows.step(slots)
    for layer in (0, 2):
        rows.get_conv_state(layer).add_(value)
        rows.get_recurrent_state(layer).add_(value)
    keys, _ = rows.update(torch.full((3, 2, 1, 16), value), torch.full((3, 2, 1, 16), value), 1)
    rows.commit()
    return keys, mask


def test_only_the_rows_of_those_who_step_change() -> None:
    rows = mind()
    stepped(rows, [0, 2], 5.0)
    assert [rows.length(slot) for slot in range(3)] == [1, 0, 1]
    for stores in (rows._tails, rows._states, rows._keys):
        for store in stores.values():
            assert store[1].abs().sum() == 0 and store[0].abs().sum() > 0 and store[2].abs().sum() > 0
    rows.forget(0)
    assert rows.length(0) == 0 and all(store[0].abs().sum() == 0 for store in rows._states.values())
    assert all(store[2].abs().sum() > 0 for store in rows._states.values())


def test_when_it_is_full_the_oldest_behind_the_prompt_gives_way() -> None:
    rows = mind(capacity=6)
    rows.forget(1, prompt=2)
    for step in range(1, 10):
        keys, mask = stepped(rows, [1], float(step))
    assert mask[1, 0, 0].tolist() == [True] * 6 and mask[0, 0, 0].tolist() == [True] + [False] * 5
    assert keys[1, 0, :, 0].tolist() == [1.0, 2.0, 7.0, 8.0, 9.0, 6.0]


def test_reading_sees_what_was_before_and_nothing_to_come() -> None:
    rows = mind()
    stepped(rows, [1], 1.0)
    mask = rows.read(1, 3)
    assert mask[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    with pytest.raises(IndexError, match="9 tokens and frames in a slot of 8"):
        rows.read(1, 8)


def test_a_convolution_gets_its_tail_before_what_is_new() -> None:
    rows = mind()
    channels = rows._tails[0].shape[1]
    for piece in ([1.0, 2.0], [3.0, 4.0, 5.0]):
        rows.read(0, len(piece))
        whole = rows.update_conv_state(torch.tensor(piece).expand(1, channels, -1), 0)
        rows.get_recurrent_state(0)
        rows.get_recurrent_state(2)
        rows.update(torch.zeros(1, 2, len(piece), 16), torch.zeros(1, 2, len(piece), 16), 1)
        rows.commit(len(piece))
    assert whole[0, 0].tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert rows._tails[0][0, 0].tolist() == [2.0, 3.0, 4.0, 5.0]


def test_what_lies_before_the_first_column_is_nothing_at_every_stage() -> None:
    rows = EarRows(shape_of("tiny").encoder, 2, 10, LIKE)
    rows.aim_all([0, 1])
    rows.first = torch.tensor([True, False])
    found = rows.update_tail(torch.ones(2, 1, 4, 3), "stage", 1)
    assert found[0, 0, :, 0].tolist() == [0, 0, 0, 0, 1] and found[1, 0, :, 0].tolist() == [0, 1, 1, 1, 1]
    rows.first = None
    found = rows.update_tail(torch.full((2, 1, 4, 3), 2.0), "stage", 1)
    assert found[0, 0, :, 0].tolist() == [1, 2, 2, 2, 2]
    rows.forget(0)
    assert rows._tails["stage"][0].sum() == 0 and rows._tails["stage"][1].sum() > 0


def test_attention_keeps_what_it_may_look_back_at() -> None:
    config = shape_of("tiny").encoder
    rows = EarRows(config, 1, 10, LIKE)
    rows.aim_one(0)
    for step in range(1, 12):
        keys, _ = rows.update_attention(torch.full((1, 2, 1, 16), float(step)), torch.zeros(1, 2, 1, 16), 0)
    assert keys.shape[2] == config.sliding_window
    assert keys[0, 0, :, 0].tolist() == [float(step) for step in range(3, 12)]


def test_attention_looks_at_few_lengths() -> None:
    assert [span_of(most, 1000) for most in (1, 256, 257, 600, 1000)] == [256, 256, 512, 1000, 1000]


def test_a_slot_of_the_published_size_takes_what_it_was_worked_out_to() -> None:
    config = shape_of("11b").language
    still = MindRows.bytes_per_slot(config, 0, 2)
    assert still == 27 * (4 * 10_240 * 128 + 2 * 4 * 12_288)
    assert MindRows.bytes_per_slot(config, 1, 2) - still == 16_384
