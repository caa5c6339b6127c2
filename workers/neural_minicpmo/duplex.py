"""The few methods of the authors' duplex object that are used, as a protocol; what is faked keeps to it, too."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class Duplex(Protocol):
    """One session's state and the weights it works with. One session at a time."""

    def prepare(
        self,
        prefix_system_prompt: str | None = None,
        suffix_system_prompt: str | None = None,
        ref_audio: Floats | None = None,
        prompt_wav_path: str | None = None,
    ) -> Any:
        """Forget everything and begin with this prompt; ``ref_audio`` is the voice, 16 kHz, and the path a file of it.

        The voice lies between prefix and suffix.
        """

    def streaming_prefill(
        self, audio_waveform: Floats | None = None, frame_list: list[Any] | None = None, max_slice_nums: int = 1
    ) -> Any:
        """Take in one unit: 16 kHz sound, and PIL pictures."""

    def streaming_generate(self, **settings: Any) -> dict[str, Any]:
        """Decide on the unit: ``is_listen``, ``text``, ``audio_waveform`` (24 kHz) and ``end_of_turn``."""

    def finalize_unit(self) -> None:
        """End the unit that was answered, before the next is taken in. Older copies of the code do so by themselves."""

    def set_break_event(self) -> None:
        """Break off what is being generated."""

    def clear_break_event(self) -> None:
        """Let it generate again."""

    def set_session_stop(self) -> None:
        """The session is over."""
