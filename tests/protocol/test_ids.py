"""Ids are derived: equal for equal names, different otherwise."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.protocol import (
    answer_item_id,
    derive_event_id,
    event_id_from,
    mint_item_id,
    mint_response_id,
    response_of_item,
    session_id_from,
)

pytestmark = pytest.mark.unit

NAMED = st.tuples(st.text(), st.integers(0), st.integers(0))


@given(one=NAMED, other=NAMED)
def test_two_frames_share_an_event_id_only_if_they_are_the_same_frame(
    one: tuple[str, int, int], other: tuple[str, int, int]
) -> None:
    assert (derive_event_id(*one) == derive_event_id(*other)) == (one == other)


def test_the_event_id_of_a_place_in_the_log_never_changes_between_builds() -> None:
    assert derive_event_id("sess_demo_01", 0, 41) == "event_1d1730ce9f9a7a8c0c80432ce6eed6ca"


def test_parts_of_a_name_cannot_run_into_each_other() -> None:
    assert derive_event_id("s", 1, 23) != derive_event_id("s", 12, 3)
    assert mint_item_id("s\x1f1:1", 1, 1) != mint_item_id("s", 1, 11)


def test_responses_and_items_of_one_number_have_different_ids() -> None:
    assert mint_response_id("s", 0, 1)[5:] != mint_item_id("s", 0, 1)[5:]


@pytest.mark.parametrize(
    ("minted", "shape"),
    [
        (derive_event_id("s", 0, 1), "event_[0-9a-f]{32}"),
        (mint_response_id("s", 0, 1), "resp_[0-9a-f]{32}"),
        (mint_item_id("s", 0, 1), "item_[0-9a-f]{32}"),
        (session_id_from(bytes(16)), "duplex-[0-9a-f]{32}"),
        (event_id_from(bytes(16)), "event_[0-9a-f]{32}"),
    ],
)
def test_an_id_has_the_shape_of_its_kind(minted: str, shape: str) -> None:
    assert re.fullmatch(shape, minted)


@given(st.integers(0))
def test_an_answer_is_named_after_its_response_and_leads_back_to_it(number: int) -> None:
    response_id = mint_response_id("s", 0, number)
    assert answer_item_id(response_id) == f"item_{response_id}"
    assert response_of_item(answer_item_id(response_id)) == response_id


def test_a_user_item_leads_to_no_response() -> None:
    assert response_of_item(mint_item_id("s", 0, 1)) is None


def test_too_little_entropy_is_refused() -> None:
    with pytest.raises(ValueError, match="16 random bytes"):
        session_id_from(b"short")
