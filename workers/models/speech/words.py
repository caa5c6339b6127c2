"""Lays a sentence over its audio: which words begin in which chunk, estimated from their place in the text."""

from __future__ import annotations

import re

import numpy as np

from ..pcm import Floats

QUIET = 0.02


def spread(text: str, samples: Floats, chunk: int) -> list[tuple[Floats, str]]:
    """``samples`` in chunks of ``chunk`` samples (the last may be shorter), each with the words that begin in it.

    Joined, the texts are ``text``, white space included, and the chunks are ``samples``. No samples: no chunks.
    """
    if not len(samples):
        return []
    words = re.findall(r"\s*\S+\s*", text) or ([text] if text else [])
    first, last = _voiced(samples)
    length = max(1, len(text))
    starts, at = [], 0
    for word in words:
        starts.append(first + (last - first) * at // length)
        at += len(word)
    chunks = [samples[begin : begin + chunk] for begin in range(0, len(samples), chunk)]
    texts = [""] * len(chunks)
    for word, start in zip(words, starts, strict=True):
        texts[min(start // chunk, len(chunks) - 1)] += word
    return list(zip(chunks, texts, strict=True))


def _voiced(samples: Floats) -> tuple[int, int]:
    """Where speech begins and ends within the samples: silence around a sentence carries no words."""
    loud = np.flatnonzero(np.abs(samples) > QUIET)
    return (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (0, len(samples))
