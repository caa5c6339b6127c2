"""Resume tokens: 256 bits of chance for the client, a digest for the log. The token itself is never written."""

from __future__ import annotations

import hashlib
import secrets

PREFIX = "rt_"
_ENTROPY_BYTES = 32


def mint_token() -> str:
    """A new token: ``rt_`` and 43 URL-safe characters."""
    return PREFIX + secrets.token_urlsafe(_ENTROPY_BYTES)


def token_digest(token: str) -> bytes:
    """What the log keeps of ``token``: its SHA-256, 32 bytes. Any string has one, also what was never a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
