"""Stepping is what the library makes of the whole at once; what is remembered grows; a wrong keyword is found out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.support.tiny_nemotron import OPTIONS
from workers.neural_nemotron import loading
from workers.neural_nemotron.mind import Mind, grouped_attention
from workers.neural_nemotron.options import read_engine_options
from workers.neural_nemotron.rows import CacheIgnored

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

SLOTS, WIDTH = 3, 64


@pytest.fixture(scope="module")
def loaded() -> loading.Loaded:
    return loading.load(read_engine_options(OPTIONS))


@pytest.fixture(scope="module")
def library() -> loading.Loaded:
    """The same numbers, used by the library alone."""
    return loading.load(read_engine_options(OPTIONS))


@pytest.fixture
def mind(loaded: loading.Loaded) -> Mind:
    return Mind(loaded.language, loaded.function_head, loaded.shape, slots=SLOTS, capacity=300)


def given(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))


def stepped(mind: Mind, slots: list[int], vectors: Tensor) -> tuple[Tensor, Tensor]:
    rows = torch.zeros(SLOTS, WIDTH)
    rows[slots] = vectors
    with torch.inference_mode():
        return mind.step(slots, rows)


def whole(library: loading.Loaded, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """What the library's own forward gives, without any memory."""
    with torch.inference_mode():
        found = library.language.model(inputs_embeds=vectors[None], use_cache=False).last_hidden_state[0]
        return library.language.lm_head(found), library.function_head(found)


def test_three_channels_are_added_by_their_weights(loaded: loading.Loaded, mind: Mind) -> None:
    table, heard = loaded.language.model.embeddings.weight, given(2)
    found = mind.fused([5, 6], heard, [7, 12])
    assert torch.allclose(found, table[[5, 6]] + heard + 2.0 * table[[7, 12]])


@pytest.mark.parametrize("read", [0, 1, 17, 40], ids=lambda count: f"{count} read first")
def test_stepping_is_what_the_whole_at_once_is(library: loading.Loaded, mind: Mind, read: int) -> None:
    vectors = given(60)
    expected = whole(library, vectors)
    with torch.inference_mode():
        for start in range(0, read, 16):
            mind.read(1, vectors[start : min(start + 16, read)])
    for place in range(read, 60):
        found = stepped(mind, [1], vectors[place][None])
        for one, other in zip(found, expected, strict=True):
            assert (one[1] - other[place]).abs().max() < 1e-3, place
    assert expected[0].std() > 0.1


def test_what_is_remembered_grows_and_changes(mind: Mind) -> None:
    before = [store[1].clone() for store in mind.rows._states.values()]
    for number in range(1, 4):
        stepped(mind, [1], given(1, number))
        assert mind.rows.length(1) == number
        after = [store[1].clone() for store in mind.rows._states.values()]
        assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
        for keys in mind.rows._keys.values():
            assert (keys[1].abs().sum((0, 2)) > 0).tolist() == [True] * number + [False] * (300 - number)
        before = after
    assert mind.rows.length(0) == 0


def test_a_model_that_ignores_its_memory_is_found_out(mind: Mind) -> None:
    """As older and newer versions of the library do with each other's keyword: they swallow it."""
    mind._keyword = "past_values"
    with pytest.raises(RuntimeError):
        stepped(mind, [0], given(1))


def test_a_model_without_its_memory_is_found_out(library: loading.Loaded, mind: Mind) -> None:
    def forgetful(*, inputs_embeds: Tensor, **_: object) -> object:
        return library.language.model(inputs_embeds=inputs_embeds, use_cache=False)

    forgetful.embeddings = library.language.model.embeddings  # type: ignore[attr-defined]
    mind._backbone = forgetful
    with pytest.raises(CacheIgnored, match="0 of 3 parts"):
        stepped(mind, [0], given(1))
    assert mind.rows.length(0) == 0


def test_a_row_is_the_same_bit_by_bit_whatever_the_others_do(mind: Mind) -> None:
    """Also when another is so long that attention looks at more columns."""
    mine = given(20, 1)
    alone = [stepped(mind, [2], vector[None]) for vector in mine]
    with torch.inference_mode():
        mind.forget(2, 0)
        mind.read(0, given(250, 2))
    for number, vector in enumerate(mine):
        slots = [2, 0] if number % 3 else [2, 1, 0]
        others = given(len(slots) - 1, 100 + number)
        found = stepped(mind, slots, torch.cat((vector[None], others)))
        assert all(torch.equal(one[2], other[2]) for one, other in zip(found, alone[number], strict=True)), number
    assert mind.rows.length(0) > 256


def test_columns_that_give_way_change_nothing_until_they_do(loaded: loading.Loaded) -> None:
    small = Mind(loaded.language, loaded.function_head, loaded.shape, slots=SLOTS, capacity=20)
    large = Mind(loaded.language, loaded.function_head, loaded.shape, slots=SLOTS, capacity=300)
    same = []
    for vector in given(30):
        one, other = (stepped(mind, [0], vector[None])[0][0] for mind in (small, large))
        same.append(torch.allclose(one, other, atol=1e-4))
    assert same == [True] * 20 + [False] * 10


@pytest.mark.parametrize("new", [1, 7])
def test_heads_that_share_keys_see_what_they_would_see_of_copies(new: int) -> None:
    dice = torch.Generator().manual_seed(3)
    query = torch.randn(2, 6, new, 8, generator=dice)
    key, value = torch.randn(2, 2, 2, 11, 8, generator=dice)
    mask = torch.rand(2, 1, new, 11, generator=dice) < 0.6
    mask[..., 0] = True
    found, _ = grouped_attention(None, query, key, value, mask, scaling=0.3)
    copies = [part.repeat_interleave(3, dim=1) for part in (key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(query, *copies, attn_mask=mask, scale=0.3)
    assert torch.allclose(found, expected.transpose(1, 2), atol=1e-6)
