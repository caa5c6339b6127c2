"""Tokens cannot be guessed, and digests give nothing away."""

from __future__ import annotations

import pytest

from duplex_es.log.tokens import mint_token, token_digest

pytestmark = pytest.mark.unit


def test_a_token_has_256_bits_and_is_safe_in_a_url() -> None:
    token = mint_token()
    assert token.startswith("rt_")
    assert len(token.removeprefix("rt_")) == 43
    assert token.removeprefix("rt_").replace("-", "").replace("_", "").isalnum()
    assert len({mint_token() for _ in range(100)}) == 100


def test_a_digest_is_of_fixed_size_and_does_not_hold_the_token() -> None:
    token = mint_token()
    assert token_digest(token) == token_digest(token)
    assert len(token_digest(token)) == 32
    assert token.encode() not in token_digest(token)


def test_any_string_a_client_presents_has_a_digest() -> None:
    assert len(token_digest("\ud800")) == 32
