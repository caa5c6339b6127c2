"""A sealed token is opened by who has the key, for the session it belongs to, and by nobody else."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from workers.models.bridge.seal import Seal, SecretUnusable

pytestmark = pytest.mark.unit

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def test_what_is_sealed_is_opened_again_and_shows_nothing() -> None:
    sealed = Seal(KEY).closed("token-1", "sess:0")
    assert b"token" not in sealed
    assert Seal(KEY).opened(sealed, "sess:0") == "token-1"
    assert Seal(KEY).closed("token-1", "sess:0") != sealed


@pytest.mark.parametrize(
    ("keys", "owner"), [((OTHER,), "sess:0"), ((KEY,), "sess:1"), ((), "sess:0")], ids=["key", "session", "none"]
)
def test_another_key_or_session_opens_nothing(keys: tuple[bytes, ...], owner: str) -> None:
    assert Seal(*keys).opened(Seal(KEY).closed("token-1", "sess:0"), owner) is None


def test_a_changed_seal_opens_nothing() -> None:
    sealed = bytearray(Seal(KEY).closed("token-1", "sess:0"))
    sealed[-1] ^= 1
    assert Seal(KEY).opened(bytes(sealed), "sess:0") is None
    assert Seal(KEY).opened(b"", "sess:0") is None


def test_without_a_key_nothing_is_sealed() -> None:
    assert Seal().closed("token-1", "sess:0") == b""


def test_an_old_key_still_opens_when_a_new_one_seals(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(base64.urlsafe_b64encode(OTHER).rstrip(b"=") + b"\n" + base64.b64encode(KEY) + b"\n")
    seal = Seal.read(str(path))
    assert seal.opened(Seal(KEY).closed("old", "s"), "s") == "old"
    assert Seal(OTHER).opened(seal.closed("new", "s"), "s") == "new"


@pytest.mark.parametrize("held", [b"", b"c2hvcnQ=", b"no base64 at all!"])
def test_a_file_that_holds_no_keys_is_refused_and_not_shown(tmp_path: Path, held: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(held)
    with pytest.raises(SecretUnusable) as refused:
        Seal.read(str(path))
    assert not held or held.decode() not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SecretUnusable, match="cannot be read"):
        Seal.read(str(tmp_path / "none"))
