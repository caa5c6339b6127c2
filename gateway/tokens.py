"""See ``duplex_es.log.tokens``: whoever makes a session that can be resumed mints them."""

from __future__ import annotations

from duplex_es.log.tokens import PREFIX, mint_token, token_digest

__all__ = ["PREFIX", "mint_token", "token_digest"]
