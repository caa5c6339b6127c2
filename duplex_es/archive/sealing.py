"""AES-256-GCM with a key of its own for each session, and the operator's key around those.

The nonce of a text is a keyed digest of it: sealing the same twice gives the same bytes, so a step that is done again
writes what it wrote before, and two different texts never share a nonce.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..reading.errors import ReadingError

KEY_BYTES = 32
NONCE_BYTES = 12
_WRAPPED = b"DXK1"
_ID_BYTES = 4


class SealBroken(ReadingError):
    """What was sealed was changed since, or sealed with another key."""


def check_installed() -> None:
    """Return when what seals is installed. Raises: ReadingError."""
    _ciphers()


def _ciphers() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ReadingError("an archive needs cryptography: install duplex-es[archive]") from error
    return AESGCM


def new_key() -> bytes:
    """A random key."""
    return os.urandom(KEY_BYTES)


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, purpose, "sha256")


def seal(key: bytes, plain: bytes, about: bytes) -> bytes:
    """``plain``, readable only with ``key`` and only as what it is ``about``."""
    nonce = hmac.digest(_derived(key, b"nonce"), len(about).to_bytes(8, "big") + about + plain, "sha256")[:NONCE_BYTES]
    sealed: bytes = _ciphers()(_derived(key, b"seal")).encrypt(nonce, plain, about)
    return nonce + sealed


def unseal(key: bytes, sealed: bytes, about: bytes, where: str) -> bytes:
    """What ``seal`` sealed; ``where`` it lies, in words. Raises: SealBroken."""
    from cryptography.exceptions import InvalidTag

    cipher = _ciphers()(_derived(key, b"seal"))
    try:
        plain: bytes = cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], about)
    except (InvalidTag, ValueError) as error:
        raise SealBroken(f"{where} was changed since it was sealed, or sealed with another key") from error
    return plain


class OperatorKeys:
    """The keys that sessions' keys are wrapped with: the first wraps, all unwrap, so that one can follow another."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ReadingError(f"an operator's key has {KEY_BYTES} bytes, base64; `duplex-es archive key` makes one")
        self._keys = {sha256(b"id" + key).digest()[:_ID_BYTES]: key for key in keys}

    @classmethod
    def parse(cls, text: str) -> OperatorKeys:
        """Keys in base64, the one that wraps first. Raises: ReadingError."""
        try:
            return cls([base64.b64decode(word, validate=True) for word in text.split()])
        except binascii.Error as error:
            raise ReadingError(f"an operator's key is not base64: {error}") from error

    @classmethod
    def of_file(cls, path: str | Path) -> OperatorKeys:
        """Keys as ``duplex-es archive key`` writes them. Raises: ReadingError."""
        try:
            return cls.parse(Path(path).read_text())
        except OSError as error:
            raise ReadingError(f"cannot read {path}: {error.strerror}") from error

    @staticmethod
    def text(key: bytes) -> str:
        """A key as ``parse`` reads it."""
        return base64.b64encode(key).decode()

    def wrap(self, key: bytes, name: str) -> bytes:
        """The key of what is called ``name``, as it may lie about."""
        key_id, operator = next(iter(self._keys.items()))
        return _WRAPPED + key_id + seal(operator, key, name.encode())

    def unwrap(self, wrapped: bytes, name: str) -> bytes:
        """What ``wrap`` wrapped. Raises: ReadingError when that was another operator's, SealBroken when changed."""
        key_id = wrapped[len(_WRAPPED) : len(_WRAPPED) + _ID_BYTES]
        if not wrapped.startswith(_WRAPPED) or key_id not in self._keys:
            raise ReadingError(f"the key of {name} was wrapped with an operator's key that is not given here")
        return unseal(self._keys[key_id], wrapped[len(_WRAPPED) + _ID_BYTES :], name.encode(), f"the key of {name}")

    def digests(self, text: str) -> list[str]:
        """Names for ``text`` that only who has a key can make: the one to write first, then those of older keys."""
        keys = (_derived(key, b"digest") for key in self._keys.values())
        return [hmac.digest(key, text.encode(), "sha256").hex()[:32] for key in keys]
