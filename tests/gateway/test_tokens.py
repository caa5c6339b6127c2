"""Gateways take the tokens that tools have made, too."""

from __future__ import annotations

import pytest

from duplex_es.log import tokens
from gateway.tokens import mint_token, token_digest

pytestmark = pytest.mark.unit


def test_a_gateway_knows_a_token_by_the_digest_that_the_log_keeps() -> None:
    for token in (mint_token(), tokens.mint_token()):
        assert token_digest(token) == tokens.token_digest(token)
