"""What an answer must sound like, sample for sample, worked out from its words alone."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence
from typing import Any

from workers.models.echo.session import RATE_HZ, WORD_MS, pitch_of, words_of
from workers.models.pcm import samples_in, tone

Wire = dict[str, Any]
SCRIPTED_TONE_HZ = 440.0


@functools.lru_cache(maxsize=256)
def echoed(text: str) -> bytes:
    """The samples of ``echo`` saying ``text``: PCM16 at 24 kHz."""
    said = b""
    for word in words_of(text):
        said += tone(len(said) // 2, samples_in(WORD_MS, RATE_HZ), pitch_of(word), RATE_HZ)
    return said


@functools.lru_cache(maxsize=16)
def recited(ms: int) -> bytes:
    """The samples of ``scripted`` sounding for so long."""
    return tone(0, samples_in(ms, RATE_HZ), SCRIPTED_TONE_HZ, RATE_HZ)


def check_sound(wires: Sequence[Wire], expected: Callable[[str], bytes]) -> list[str]:
    """Hold every answer to its sound: whole when it completed, its beginning when it did not. What is wrong, in words.

    ``wires`` is all that one client heard, in order; ``expected`` makes the samples of an answer from its transcript.
    """
    sound: dict[str, bytearray] = {}
    texts: dict[str, str] = {}
    wrong = []
    for wire in wires:
        match wire["type"]:
            case "response.output_audio.delta":
                sound.setdefault(wire["response_id"], bytearray()).extend(base64.b64decode(wire["delta"]))
            case "response.output_audio_transcript.done":
                texts[wire["response_id"]] = wire["transcript"]
            case "response.done":
                response = wire["response"]
                heard, text = bytes(sound.pop(response["id"], b"")), texts.pop(response["id"], "")
                whole = expected(text)
                completed = response["status"] == "completed"
                if heard != whole if completed else not whole.startswith(heard):
                    wrong.append(f"{response['id']} ({response['status']}) sounds otherwise: {_compare(heard, whole)}")
    return wrong


def _compare(heard: bytes, whole: bytes) -> str:
    at = next((n for n, (one, other) in enumerate(zip(heard, whole, strict=False)) if one != other), None)
    lengths = f"{len(heard) // 2} samples for {len(whole) // 2}"
    return lengths if at is None else f"{lengths}, other from sample {at // 2} on"
