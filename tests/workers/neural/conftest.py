"""Engines on torch. Where torch is missing their tests say so and are left out; ``make neural`` runs them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None

if HAS_TORCH:
    import torch

    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        # Has to be said before any kernel is read.
        os.environ.setdefault("TRITON_INTERPRET", "1")


class LeftOut(pytest.Module):
    """A test module that is not even imported here; who asks for another tier has not asked for it."""

    def collect(self) -> Sequence[pytest.Item | pytest.Collector]:
        tier = self.config.option.markexpr
        if tier and "neural" not in tier:
            return []
        pytest.skip("needs torch: run `make neural`", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect a module only if it can be imported."""
    return None if HAS_TORCH else LeftOut.from_parent(parent, path=module_path)
