"""Seals the server's resume token before it goes into the log: who reads the log cannot take the session over.

Source: docs/decisions/0014-bridge-secrets.md.
"""

from __future__ import annotations

import binascii
import os
from base64 import b64decode
from pathlib import Path

KEY_BYTES = 32
NONCE_BYTES = 12


class SecretUnusable(Exception):
    """The file of keys cannot be read, or holds something else, or the package that seals is not installed."""


class Seal:
    """Authenticated encryption (ChaCha20-Poly1305) under the first of its keys; any of them opens.

    Without a key nothing is sealed: ``closed`` gives nothing.
    """

    def __init__(self, *keys: bytes) -> None:
        """Raises: SecretUnusable without the package ``cryptography``."""
        self._ciphers = []
        if keys:
            try:
                from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
            except ImportError as error:
                raise SecretUnusable(
                    "secret_file needs the package cryptography: pip install duplex-es[bridge]"
                ) from error
            self._ciphers = [ChaCha20Poly1305(key) for key in keys]

    @classmethod
    def read(cls, path: str | None) -> Seal:
        """From a file of base64 lines. Raises: SecretUnusable, which never shows what the file holds."""
        if path is None:
            return cls()
        try:
            lines = Path(path).read_text("ascii").split()
            keys = [b64decode(line.translate(str.maketrans("-_", "+/")) + "==") for line in lines]
        except (OSError, UnicodeError, binascii.Error) as error:
            raise SecretUnusable(f"secret_file {path} cannot be read: {type(error).__name__}") from error
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise SecretUnusable(f"secret_file {path} must hold lines of base64, {KEY_BYTES} bytes each")
        return cls(*keys)

    def closed(self, token: str, owner: str) -> bytes:
        """``token`` sealed for ``owner``, the session it belongs to; empty without a key."""
        if not self._ciphers or not token:
            return b""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, token.encode(), owner.encode())

    def opened(self, sealed: bytes, owner: str) -> str | None:
        """The token, ``None`` if none of the keys sealed it for ``owner``."""
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], owner.encode()).decode()
            except Exception as error:  # The package's own, imported only where it is used.
                if type(error).__name__ not in ("InvalidTag", "ValueError"):
                    raise
        return None
