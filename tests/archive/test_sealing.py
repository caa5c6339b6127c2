"""Sealed text opens with its key only, and only as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.archive.sealing import OperatorKeys, SealBroken, new_key, seal, unseal
from duplex_es.reading.errors import ReadingError

pytestmark = pytest.mark.unit


def test_what_was_sealed_opens_with_its_key_and_under_its_name_only() -> None:
    key, plain = new_key(), b"something that was said"
    sealed = seal(key, plain, b"call 1")
    assert plain not in sealed
    assert unseal(key, sealed, b"call 1", "here") == plain
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for other_key, text, about in ((new_key(), sealed, b"call 1"), (key, sealed, b"call 2"), (key, changed, b"call 1")):
        with pytest.raises(SealBroken, match="here was changed"):
            unseal(other_key, text, about, "here")


def test_the_same_gives_the_same_and_anything_else_another_nonce() -> None:
    key = new_key()
    assert seal(key, b"a", b"x") == seal(key, b"a", b"x")
    nonces = {seal(key, b"%d" % n, b"x")[:12] for n in range(500)} | {
        seal(key, b"0", b"%d" % n)[:12] for n in range(500)
    }
    assert len(nonces) == 1_000
    assert seal(key, b"b", b"a")[:12] != seal(key, b"", b"ab")[:12]


def test_a_key_is_wrapped_by_the_first_and_unwrapped_by_any_operators_key() -> None:
    old, new, key = new_key(), new_key(), new_key()
    wrapped = OperatorKeys([old]).wrap(key, "call-1")
    assert key not in wrapped
    both = OperatorKeys.parse(f"{OperatorKeys.text(new)}\n{OperatorKeys.text(old)}\n")
    assert both.unwrap(wrapped, "call-1") == key
    assert OperatorKeys([new]).unwrap(both.wrap(key, "call-1"), "call-1") == key
    with pytest.raises(ReadingError, match="not given here"):
        OperatorKeys([new]).unwrap(wrapped, "call-1")
    with pytest.raises(SealBroken):
        both.unwrap(wrapped, "call-2")


def test_a_digest_needs_a_key_and_those_of_older_keys_are_known() -> None:
    old, new = new_key(), new_key()
    assert OperatorKeys([new, old]).digests("anna")[1:] == OperatorKeys([old]).digests("anna")
    assert OperatorKeys([old]).digests("anna") != OperatorKeys([new]).digests("anna")


@pytest.mark.parametrize("text", ["", "not base64!", "c2hvcnQ="])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ReadingError, match="base64"):
        OperatorKeys.parse(text)


def test_a_file_of_keys_is_read_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "operator.key"
    path.write_text(f"{OperatorKeys.text(bytes(32))}\n{OperatorKeys.text(bytes(range(32)))}\n")
    wrapped = OperatorKeys([bytes(range(32))]).wrap(bytes(32), "x")
    assert OperatorKeys.of_file(path).unwrap(wrapped, "x") == bytes(32)
    with pytest.raises(ReadingError, match=r"cannot read .*none: No such file"):
        OperatorKeys.of_file(tmp_path / "none")
