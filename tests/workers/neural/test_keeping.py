"""Tensors in memory that another process owns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.support.held import Lines, holder
from workers.engine.holding_memory import NoMemory
from workers.neural.keeping import Keeping, files_of

pytestmark = pytest.mark.neural

CPU = torch.device("cpu")
CONTENTS = {"files": [["a", 1, 2]]}


class Small(nn.Module):
    """Weights of odd sizes and other numbers, a buffer that is saved and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 5)
        self.short = nn.Parameter(torch.randn(7).bfloat16())
        self.register_buffer("count", torch.tensor(4))
        self.register_buffer("aside", torch.arange(3), persistent=False)

    def all(self) -> list[torch.Tensor]:
        return [*self.parameters(), *self.buffers()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    with holder() as found:
        yield found


def empty() -> Small:
    with torch.device("meta"):
        return Small()


def test_weights_that_one_process_filled_are_another_ones(lines: Lines) -> None:
    first, second = Keeping(lines(), CPU), Keeping(lines(), CPU)
    filled, found = Small(), empty()
    true = [tensor.clone() for tensor in filled.all()]
    assert not second.find_weights("model", found, CONTENTS)
    first.make_weights("model", filled)
    assert not second.find_weights("model", found, CONTENTS)
    first.filled("model", CONTENTS)
    assert second.find_weights("model", found, CONTENTS)
    for mine, theirs, was in zip(found.all(), filled.all(), true, strict=True):
        assert mine.dtype == was.dtype and torch.equal(mine, was) and torch.equal(theirs, was)
    with torch.no_grad():
        filled.inner.weight.fill_(3)
    assert bool((found.inner.weight == 3).all())
    assert torch.equal(found.inner(torch.ones(3)), filled.inner(torch.ones(3)))


def test_a_model_that_is_nowhere_yet_is_filled_where_it_is_kept(lines: Lines) -> None:
    first, second = Keeping(lines(), CPU), Keeping(lines(), CPU)
    made, found = empty(), empty()
    first.make_weights("model", made)
    assert all(bool((tensor == 0).all()) for tensor in made.all())
    with torch.no_grad():
        made.inner.bias.fill_(2)
    first.filled("model", CONTENTS)
    assert second.find_weights("model", found, CONTENTS) and found.inner.bias.tolist() == [2] * 5


def test_weights_of_other_files_or_sizes_are_not_taken(lines: Lines) -> None:
    keeping = Keeping(lines(), CPU)
    keeping.make_weights("model", Small())
    keeping.filled("model", CONTENTS)
    assert not keeping.find_weights("model", empty(), {"files": [["a", 1, 3]]})
    with torch.device("meta"):
        assert not keeping.find_weights("model", nn.Linear(2, 2), CONTENTS)


def test_a_tensor_is_as_it_was_left(lines: Lines) -> None:
    keeping, other = Keeping(lines(), CPU), Keeping(lines(), CPU)
    with pytest.raises(NoMemory, match="not there as it was left"):
        other.find_tensor("ring", (2, 3), torch.int8)
    made = keeping.make_tensor("ring", (2, 3), torch.int8)
    assert made.tolist() == [[0] * 3] * 2
    made[1, 2] = 9
    assert other.find_tensor("ring", (2, 3), torch.int8)[1, 2] == 9
    with pytest.raises(NoMemory, match="not there as it was left"):
        other.find_tensor("ring", (2, 4), torch.int8)


def test_a_table_is_found_with_what_was_noted_of_it(lines: Lines) -> None:
    keeping, other = Keeping(lines(), CPU), Keeping(lines(), CPU)
    assert other.find_table("table", CONTENTS) is None
    keeping.make_table("table", 100)[:3] = b"abc"
    keeping.filled("table", CONTENTS, {"slots": 7})
    found = other.find_table("table", CONTENTS)
    assert found is not None and found[0][:3] == b"abc" and found[1] == {"slots": 7}
    assert other.find_table("table", {"files": []}) is None


def test_a_file_that_was_written_again_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"abc")
    before = files_of(path)
    assert before == files_of(path)
    os.utime(path, ns=(1, 1))
    assert files_of(path) != before
