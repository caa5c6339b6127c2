"""Sentences spoken by a person, with what was said, and the word error rate of a transcript.

They are the telephone prompts of Debian's ``asterisk-core-sounds-en-wav`` (one professional speaker, 8 kHz, CC-BY-SA
3.0) with the texts of ``asterisk-core-sounds-en``. Nothing of them is part of this project: where the packages are not
installed there are none.
"""

from __future__ import annotations

import gzip
import re
import wave
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soxr

from workers.models.cascade.dialogue.numerals import tokens_of

PACKAGE = "asterisk-core-sounds-en asterisk-core-sounds-en-wav"
SOUNDS = Path("/usr/share/asterisk/sounds/en_US_f_Allison")
TEXTS = Path("/usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz")
RATE_HZ = 16_000
FEWEST_WORDS, MOST_WORDS = 5, 22


@dataclass(frozen=True, slots=True)
class Sentence:
    """One recording: ``pcm`` is (samples,) int16 at 16 kHz, ``text`` what the person says in it."""

    name: str
    text: str
    pcm: npt.NDArray[np.int16]


def is_installed() -> bool:
    """Whether the recordings and their texts are on this machine."""
    return TEXTS.is_file() and (SOUNDS / "activated.wav").is_file()


def sentences(most: int = 40) -> list[Sentence]:
    """The first ``most`` recordings of 5 to 22 words in the package's order, fragments and sound effects left out.

    Raises: FileNotFoundError naming the package when it is not installed.
    """
    if not is_installed():
        raise FileNotFoundError(f"no human speech here; as root: apt-get install {PACKAGE}")
    found: list[Sentence] = []
    with gzip.open(TEXTS, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, text = line.strip().partition(": ")
            path = SOUNDS / f"{name}.wav"
            if len(found) < most and _is_sentence(text) and path.is_file():
                found.append(Sentence(name, text.strip(), _read(path)))
    return found


def _is_sentence(text: str) -> bool:
    if re.search(r"\[|\]|\.\.\.", text) or not text.rstrip().endswith((".", "?", "!")):
        return False
    return FEWEST_WORDS <= len(plain_words(text)) <= MOST_WORDS


def _read(path: Path) -> npt.NDArray[np.int16]:
    with wave.open(str(path)) as file:
        rate, pcm = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")
    wide = soxr.resample(pcm.astype(np.float32), rate, RATE_HZ)
    return np.clip(np.rint(wide), -32768, 32767).astype(np.int16)


_SPOKEN = {"#": " pound ", "*": " star ", "&": " and ", "%": " percent "}
_SHORT = {
    "i'm": "i am",
    "you're": "you are",
    "we're": "we are",
    "they're": "they are",
    "that's": "that is",
    "it's": "it is",
    "there's": "there is",
    "what's": "what is",
    "can't": "cannot",
    "don't": "do not",
    "i'll": "i will",
    "you'll": "you will",
    "i've": "i have",
    "you've": "you have",
}


def plain_words(text: str) -> list[str]:
    """The words of a text without case, punctuation and short forms, numbers as digits, symbols as they are said."""
    text = text.lower().replace("\u2019", "'")
    for symbol, word in _SPOKEN.items():
        text = text.replace(symbol, word)
    text = re.sub(r"[-_/]", " ", text)
    words = (str(token) for token in tokens_of(text))
    return " ".join(_SHORT.get(word, word) for word in words if re.search(r"\w", word)).split()


def word_errors(reference: Sequence[str], heard: Sequence[str]) -> int:
    """The fewest words to insert, delete or replace; "log in" for "login" is no error."""
    table = [[0] * (len(heard) + 1) for _ in range(len(reference) + 1)]
    for i in range(len(reference) + 1):
        for j in range(len(heard) + 1):
            if i == 0 or j == 0:
                table[i][j] = i + j
                continue
            best = min(table[i - 1][j] + 1, table[i][j - 1] + 1)
            best = min(best, table[i - 1][j - 1] + (reference[i - 1] != heard[j - 1]))
            if i > 1 and "".join(reference[i - 2 : i]) == heard[j - 1]:
                best = min(best, table[i - 2][j - 1])
            if j > 1 and "".join(heard[j - 2 : j]) == reference[i - 1]:
                best = min(best, table[i - 1][j - 2])
            table[i][j] = best
    return table[-1][-1]


def word_error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Errors per reference word over (reference, transcript) pairs; 0.0 for no words at all."""
    errors = words = 0
    for reference, transcript in pairs:
        expected = plain_words(reference)
        errors += word_errors(expected, plain_words(transcript))
        words += len(expected)
    return errors / words if words else 0.0
