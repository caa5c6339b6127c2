"""Engines on torch. Where torch is missing their tests say so and are left out; ``make neural`` runs them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
WITHOUT_TORCH = ("test_prompt.py", "test_vocabulary.py", "test_words.py")

if HAS_TORCH:
    import torch

    torch.set_num_threads(1)


class LeftOut(pytest.Module):
    """A test module that is not even imported here; who asks for another tier has not asked for it."""

    def collect(self) -> Sequence[pytest.Item | pytest.Collector]:
        tier = self.config.option.markexpr
        if tier and "neural" not in tier:
            return []
        pytest.skip("needs torch: run `make neural`", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect a module only if it can be imported."""
    return None if HAS_TORCH or module_path.name in WITHOUT_TORCH else LeftOut.from_parent(parent, path=module_path)
