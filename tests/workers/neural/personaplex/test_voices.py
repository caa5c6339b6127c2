"""Voice files: found by name, read as tensors only."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.published_personaplex import write_voice
from workers.neural.moshi.shape import TINY
from workers.neural.personaplex.voices import Voices, VoiceUnknown

pytestmark = pytest.mark.neural


def test_a_voice_is_read_once_and_only_from_its_folder(tmp_path: Path) -> None:
    rows, around = torch.randn(4, TINY.width), torch.zeros(TINY.streams, 4, dtype=torch.long)
    write_voice(tmp_path / "NATF0.pt", rows, around)
    (tmp_path / "broken.pt").write_bytes(b"")
    torch.save({"something": rows}, tmp_path / "other.pt")
    voices = Voices(tmp_path, TINY)
    assert voices.names == ("NATF0.pt", "broken.pt", "other.pt")
    assert torch.equal(voices.get("NATF0.pt").rows, rows)
    assert voices.get("NATF0.pt") is voices.get("NATF0.pt")
    for name in ("../NATF0.pt", "NATF1.pt", "", "other.pt"):
        with pytest.raises(VoiceUnknown):
            voices.get(name)


def test_a_voice_file_that_would_run_code_is_not_read(tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("the voice ran code",)

    torch.save({"embeddings": Trap(), "cache": 1}, tmp_path / "NATF0.pt")
    with pytest.raises(pickle.UnpicklingError):
        Voices(tmp_path, TINY).get("NATF0.pt")


def test_without_the_usual_voice_the_first_one_is_taken(tmp_path: Path) -> None:
    voices = Voices(tmp_path, TINY)
    assert voices.default == "NATF2.pt"
    for name in ("VARM1.pt", "NATM0.pt"):
        (tmp_path / name).touch()
    assert voices.default == "NATM0.pt"
    (tmp_path / "NATF2.pt").touch()
    assert voices.default == "NATF2.pt"
