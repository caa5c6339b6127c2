"""The published files, or random numbers in their place; what is missing is said by name before anything is read."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import RowCache
from .shapes import tiny_config
from .vocabulary import PublishedVocabulary, ToyVocabulary, Vocabulary

NAME = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
NEEDS = {"torch": "torch", "transformers": "transformers", "safetensors": "safetensors"}
OLDEST_TRANSFORMERS = (5, 24)
FILES = ("config.json", "model.safetensors.index.json", "preprocessor_config.json", "tokenizer_config.json")
RESERVE_BYTES = 4 << 30
"""What is left free for what a step needs on its way."""
MOST_SLOTS = 64
FAKE_SLOTS = 4


class Missing(Exception):
    """Something that must be there to load the model; the message says what, and where to get it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything read: the model in evaluation mode, its feature extractor and its tokenizer."""

    model: Any
    extractor: Any
    vocabulary: Vocabulary


def check_packages() -> None:
    """Raises: Missing with the packages that are not installed, or too old."""
    absent = [package for package, module in NEEDS.items() if importlib.util.find_spec(module) is None]
    if absent:
        raise Missing(f"{NAME} needs {', '.join(absent)}: pip install -r deploy/requirements/qwen3-omni.txt")
    found = importlib.metadata.version("transformers")
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST_TRANSFORMERS:
        oldest = ".".join(map(str, OLDEST_TRANSFORMERS))
        raise Missing(f"{NAME} needs transformers {oldest} or newer, not {found}")


def check_weights(folder: Path) -> None:
    """Raises: Missing with the files that are not in ``folder``."""
    if not folder.is_dir():
        raise Missing(f"option weights: {folder} is no folder; put all files of {NAME} into one")
    absent = [name for name in FILES if not (folder / name).is_file()]
    if not (folder / "tokenizer.json").is_file():
        absent += [name for name in ("vocab.json", "merges.txt") if not (folder / name).is_file()]
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        parts = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        absent += [name for name in parts if not (folder / name).is_file()]
    if absent:
        raise Missing(f"option weights: {folder} lacks {', '.join(absent)}; put all files of {NAME} there")


def load_published(folder: Path, device: str) -> Loaded:
    """The published weights in bfloat16. Raises: Missing, and as transformers do."""
    check_packages()
    check_weights(folder)
    import torch
    from transformers import AutoFeatureExtractor, Qwen3OmniMoeForConditionalGeneration

    # With accelerate each part goes to the device as it is read, instead of all of it lying in the host's memory first.
    straight = {"device_map": {"": device}} if importlib.util.find_spec("accelerate") else {}
    model = Qwen3OmniMoeForConditionalGeneration.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="sdpa", **straight
    )
    return Loaded(model.eval().to(device), AutoFeatureExtractor.from_pretrained(folder), PublishedVocabulary(folder))


def load_random(device: str, seed: int) -> Loaded:
    """A tiny model of the published structure: the same ``seed`` gives the same numbers. Raises: Missing."""
    check_packages()
    import torch
    from transformers import Qwen3OmniMoeForConditionalGeneration, WhisperFeatureExtractor

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3OmniMoeForConditionalGeneration._from_config(tiny_config(), attn_implementation="sdpa")
        for name, numbers in model.named_parameters():
            if numbers.dim() > 1:
                # As transformers begin, all ids are as likely and no sound is loud enough to be heard.
                spread = 1.0 if "embed" in name else (numbers.numel() / numbers.shape[0]) ** -0.5
                torch.nn.init.normal_(numbers, std=spread)
        torch.nn.init.normal_(model.code2wav.decoder[-1].conv.weight, std=0.01)
    return Loaded(model.eval().to(device), WhisperFeatureExtractor(feature_size=128), ToyVocabulary())


def how_many(slots: str, config: Any, *, context: int, frames: int, device: str) -> int:
    """The option ``slots`` as a number: ``auto`` is as many as fit into the memory that is left on ``device``."""
    if slots != "auto":
        return int(slots)
    if not device.startswith("cuda"):
        return FAKE_SLOTS
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return fitting(free, config, context=context, frames=frames)


def fitting(free_bytes: int, config: Any, *, context: int, frames: int) -> int:
    """How many slots fit into so much memory, in 16-bit numbers. Raises: Missing if not even one does."""
    thinker, talker = config.thinker_config.text_config, config.talker_config.text_config
    each = RowCache.bytes_per_token(thinker, 2) * context + RowCache.bytes_per_token(talker, 2) * (context + frames)
    found = min(MOST_SLOTS, (free_bytes - RESERVE_BYTES) // each)
    if found < 1:
        raise Missing(f"{free_bytes >> 20} MiB are free, and a turn takes {each >> 20} MiB: make context smaller")
    return int(found)
