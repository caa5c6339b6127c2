"""The published files, or random numbers in their place; what is missing or does not fit is named."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import published
from .options import NAME, EngineOptions
from .rows import MindRows
from .shapes import Shape, shape_of
from .vocabulary import TOKENIZER_FILE, ByteVocabulary, PublishedVocabulary, Vocabulary

NEEDS = {"torch": "torch", "transformers": "transformers", "safetensors": "safetensors", "tokenizers": "tokenizers"}
OLDEST_TRANSFORMERS = (5, 24)
RESERVE_BYTES = 4 << 30
"""What is left free for what a step needs on its way."""
MOST_SLOTS = 64
SLOTS_WITHOUT_DEVICE = 4


class Missing(Exception):
    """Something that must be there to load the model; the message says what, and where to get it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything read, in evaluation mode: the conformer and what leads out of it, the backbone, its second head."""

    encoder: Any
    projection: Any
    language: Any
    function_head: Any
    shape: Shape
    vocabulary: Vocabulary

    @property
    def device(self) -> Any:
        """Where the weights are."""
        return self.projection.weight.device


def check_packages() -> None:
    """Raises: Missing with the packages that are not installed, or too old."""
    absent = [package for package, module in NEEDS.items() if importlib.util.find_spec(module) is None]
    if absent:
        raise Missing(f"{NAME} needs {', '.join(absent)}: pip install -r deploy/requirements/nemotron.txt")
    found = importlib.metadata.version("transformers")
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST_TRANSFORMERS:
        oldest = ".".join(map(str, OLDEST_TRANSFORMERS))
        raise Missing(f"{NAME} needs transformers {oldest} or newer, not {found}")


def load(options: EngineOptions) -> Loaded:
    """What the options name. Raises: Missing, published.Unfit, VocabularyUnfit, and as torch and transformers do."""
    check_packages()
    return load_random(options) if options.weights == "random" else load_published(options)


def load_published(options: EngineOptions) -> Loaded:
    """The published weights, each part on the device as soon as it is read."""
    folder = Path(options.weights).expanduser()
    language = Path(options.language).expanduser() if options.language else folder
    if not folder.is_dir():
        raise Missing(f"option weights: {folder} is no folder; put all files of {NAME} into one")
    published.check_files(folder)
    if not (language / TOKENIZER_FILE).is_file():
        raise Missing(
            f"{language / TOKENIZER_FILE} is missing: it is published with nvidia/NVIDIA-Nemotron-Nano-9B-v2; put it "
            f"there, or name its folder with the option language"
        )
    shape = published.read_shape(folder, language)
    vocabulary = PublishedVocabulary(language)
    if vocabulary.size > shape.language.vocab_size:
        raise Missing(
            f"{language / TOKENIZER_FILE} has {vocabulary.size} tokens, the model {shape.language.vocab_size}: it is "
            f"that of another model"
        )
    loaded = _empty(shape, vocabulary, *_where(options))
    published.fill(loaded, folder)
    return loaded


def load_random(options: EngineOptions) -> Loaded:
    """Noise: the same ``seed`` gives the same numbers, and torch's own dice are left alone."""
    import torch

    device, dtype = _where(options)
    loaded = _empty(shape_of(options.shape), ByteVocabulary(), device, dtype)
    dice = torch.Generator(device=device).manual_seed(options.seed)
    for module in (loaded.encoder, loaded.projection, loaded.language, loaded.function_head):
        for name, numbers in module.named_parameters():
            _fill_with_noise(name, numbers, dice)
    _temper(loaded)
    return loaded


def _fill_with_noise(name: str, numbers: Any, dice: Any) -> None:
    """As numbers of a trained model might be: every layer changes what goes through it, and none drowns the rest."""
    import torch

    kind = name.rsplit(".", 1)[-1]
    with torch.no_grad():
        if kind == "A_log":
            numbers.uniform_(0.0, math.log(16.0), generator=dice)
        elif kind == "dt_bias":
            numbers.uniform_(-4.0, -1.0, generator=dice)
        elif kind == "D" or (kind == "weight" and numbers.dim() == 1):
            numbers.uniform_(0.8, 1.2, generator=dice)
        elif numbers.dim() == 1:
            numbers.normal_(std=0.02, generator=dice)
        elif name.endswith(("embeddings.weight", "bias_u", "bias_v")):
            numbers.normal_(std=0.5, generator=dice)
        else:
            numbers.normal_(std=(numbers.numel() / numbers.shape[0]) ** -0.5, generator=dice)


def _temper(loaded: Loaded) -> None:
    """Let noise speak as a model might: printable letters with pauses between them, and hardly a call.

    One direction is the same in every embedding, so that a head can have favourites.
    """
    import torch

    vocabulary, function = loaded.vocabulary, loaded.function_head.weight
    head, embeddings = loaded.language.lm_head.weight, loaded.language.model.embeddings.weight
    with torch.no_grad():
        embeddings[:, 0] = 2.0
        loaded.language.model.norm_f.weight[0] = 1.0
        sayable = torch.zeros(len(head), dtype=torch.bool, device=head.device)
        first = ByteVocabulary.FIRST_BYTE
        sayable[first + 32 : first + 127] = True
        for weights, favour in ((head, 0.7), (function, 4.0)):
            weights[~sayable] = 0.0
            weights[:, 0] = 0.0
            weights[vocabulary.pad, 0] = favour


def _where(options: EngineOptions) -> tuple[Any, Any]:
    import torch

    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = options.dtype
    if dtype == "auto":
        dtype = "bf16" if device.startswith("cuda") else "fp32"
    return torch.device(device), {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]


def _empty(shape: Shape, vocabulary: Vocabulary, device: Any, dtype: Any) -> Loaded:
    """The model with room for its numbers, which are not there yet."""
    import torch
    from torch import nn
    from transformers import NemotronAsrStreamingEncoder, NemotronHForCausalLM

    width, words = shape.language.hidden_size, shape.language.vocab_size
    # Made in place and in its own numbers: a second copy of 20 GB would not fit everywhere.
    with torch.device("meta"):
        encoder = NemotronAsrStreamingEncoder._from_config(shape.encoder, attn_implementation="sdpa", dtype=dtype)
        language = NemotronHForCausalLM._from_config(shape.language, attn_implementation="sdpa", dtype=dtype)
        projection = nn.Linear(shape.encoder.hidden_size, width, dtype=dtype)
        function_head = nn.Linear(width, words, bias=False, dtype=dtype)
    for layer in language.model.layers:
        mixer = layer.mixer
        if layer.block_type == "linear_attention":
            # How fast a state fades is an exponent: it is rounded to 16 bits nowhere.
            for name in ("A_log", "dt_bias", "D"):
                setattr(mixer, name, nn.Parameter(getattr(mixer, name).float()))
            # Whole pieces must be what single steps are: those know no shortest step of time.
            mixer.time_step_limit = (0.0, float("inf"))
    for part in (encoder, projection, language, function_head):
        part.to_empty(device=device).eval().requires_grad_(False)
    positions = encoder.encode_positions
    positions.inv_freq.copy_(positions.compute_default_relative_positional_parameters(shape.encoder))
    return Loaded(encoder, projection, language, function_head, shape, vocabulary)


def how_many(options: EngineOptions, loaded: Loaded) -> int:
    """The option ``slots`` as a number: ``auto`` is as many as fit into the memory that is left on the device."""
    if options.slots != "auto":
        return int(options.slots)
    if loaded.device.type != "cuda":
        return SLOTS_WITHOUT_DEVICE
    import torch

    free, _ = torch.cuda.mem_get_info(loaded.device)
    return fitting(free, loaded.shape, options.context_frames, loaded.projection.weight.element_size())


def fitting(free_bytes: int, shape: Shape, context_frames: int, bytes_per_number: int) -> int:
    """How many slots fit into so much memory. Raises: Missing if not even one does."""
    encoder = shape.encoder
    ear = 2 * encoder.num_hidden_layers * encoder.hidden_size * encoder.sliding_window * bytes_per_number
    # A step holds a second copy of what it changes.
    each = 2 * ear + 2 * MindRows.bytes_per_slot(shape.language, 0, bytes_per_number)
    each += MindRows.bytes_per_slot(shape.language, context_frames, bytes_per_number)
    each -= MindRows.bytes_per_slot(shape.language, 0, bytes_per_number)
    found = min(MOST_SLOTS, (free_bytes - RESERVE_BYTES) // each - 1)
    if found < 1:
        raise Missing(f"{free_bytes >> 20} MiB are free, and a session takes {each >> 20} MiB: shorten context_frames")
    return int(found)
