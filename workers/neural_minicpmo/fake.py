"""A double of the authors' duplex object: the same methods, no weights, and the same answer for the same sound.

It listens to silence. After a unit with speech it speaks with the next one that brings none, a few units of noise with
words, and ends its turn; told to listen it listens. Everything random comes from the sound it heard and its seed.
"""

from __future__ import annotations

import threading
import zlib
from typing import Any

import numpy as np

from .duplex import Floats

OUTPUT_HZ = 24_000
SPEECH_RMS = 0.01
WORDS = ("well", "yes", "now", "perhaps", "indeed", "then", "so", "quite")
LONGEST_UNITS = 3


class FakeDuplex:
    """See the module. ``prepared`` and ``pictures`` are what it was given, for tests."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._break = threading.Event()
        self._is_stopped = False
        self._begin()
        self.prepared: tuple[str, str, int, str | None] = ("", "", 0, None)

    def _begin(self) -> None:
        self._crc = self._seed
        self._heard = False
        self._was_heard = False
        self._left = 0
        self._is_filled = False
        self._is_answered = False
        self.pictures = 0
        self.units: list[int] = []

    def prepare(
        self,
        prefix_system_prompt: str | None = None,
        suffix_system_prompt: str | None = None,
        ref_audio: Floats | None = None,
        prompt_wav_path: str | None = None,
    ) -> str:
        self._begin()
        self._break.clear()
        self._is_stopped = False
        voice = 0 if ref_audio is None else int(ref_audio.size)
        self.prepared = (prefix_system_prompt or "", suffix_system_prompt or "", voice, prompt_wav_path)
        return "".join(self.prepared[:2])

    def streaming_prefill(
        self, audio_waveform: Floats | None = None, frame_list: list[Any] | None = None, max_slice_nums: int = 1
    ) -> dict[str, Any]:
        if self._is_filled or self._is_answered:
            raise RuntimeError("the unit before was not answered, or not finished")
        if audio_waveform is None or self._is_stopped:
            return {"success": False}
        self._is_filled = True
        self.units.append(int(audio_waveform.size))
        self.pictures += len(frame_list or ())
        rms = float(np.sqrt(np.mean(np.square(audio_waveform)))) if audio_waveform.size else 0.0
        self._heard = rms >= SPEECH_RMS
        for seen in frame_list or ():
            self._crc = zlib.crc32(seen, self._crc)
        self._crc = zlib.crc32(audio_waveform.tobytes(), self._crc)
        return {"success": True}

    def streaming_generate(self, *, force_listen_override: bool = False, **settings: Any) -> dict[str, Any]:
        if not self._is_filled:
            raise RuntimeError("there is no unit to answer")
        self._is_filled, self._is_answered = False, True
        if force_listen_override or self._break.is_set():
            ends, self._left = self._left > 0, 0
            self._was_heard = self._was_heard or self._heard
            return _listens(ends=ends)
        if self._left == 0 and self._was_heard and not self._heard:
            self._left, self._was_heard = 1 + self._crc % LONGEST_UNITS, False
        self._was_heard = self._was_heard or self._heard
        return self._speaks() if self._left else _listens(ends=False)

    def _speaks(self) -> dict[str, Any]:
        self._left -= 1
        dice = np.random.default_rng(self._crc)
        words = [WORDS[number] for number in dice.integers(0, len(WORDS), 3)]
        sound = dice.uniform(-0.1, 0.1, OUTPUT_HZ).astype(np.float32)
        text = " ".join(words) + ("." if self._left == 0 else " ")
        return {"is_listen": False, "text": text, "audio_waveform": sound, "end_of_turn": self._left == 0}

    def finalize_unit(self) -> None:
        self._is_answered = False

    def set_break_event(self) -> None:
        self._break.set()

    def clear_break_event(self) -> None:
        self._break.clear()

    def set_session_stop(self) -> None:
        self._is_stopped = True


def _listens(*, ends: bool) -> dict[str, Any]:
    return {"is_listen": True, "text": "", "audio_waveform": None, "end_of_turn": ends}
