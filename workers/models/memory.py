"""What a session remembers that is answered turn by turn: the words, and the caller's turns as they were spoken."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from duplex_es.model import HistoryItem

from .pcm import floats_of, int16_bytes, ms_in, samples_in

SPEECH_RATE_HZ = 16_000
LONGEST_TURN_MS = 300_000
MOST_SPEECH_MS = 600_000
"""Speech beyond this is forgotten, oldest turn first; its words stay where there are any."""


class Memory:
    """Fed in the order things were said. Speech is mono int16 at 16 kHz."""

    def __init__(self, history: Sequence[HistoryItem] = ()) -> None:
        self.speech: dict[str, bytes] = {}
        self._past = list(history)
        self._untold: list[HistoryItem] = []
        self._heard = bytearray()
        self._end_ms = 0

    def hear(self, pcm: bytes, end_ms: int) -> None:
        """Add caller audio (float32) that ends at ``end_ms`` on the input clock."""
        self._heard += int16_bytes(floats_of(pcm))
        self._end_ms = end_ms
        surplus = len(self._heard) - samples_in(LONGEST_TURN_MS, SPEECH_RATE_HZ) * 2
        if surplus > 0:
            del self._heard[:surplus]

    def clear(self) -> None:
        """Forget audio that no turn holds."""
        self._heard.clear()

    def end_turn(self, item_id: str, start_ms: int | None) -> None:
        """What was heard is the item ``item_id``, from ``start_ms`` on if that is known."""
        pcm = bytes(self._heard)
        self._heard.clear()
        if start_ms is not None:
            wanted = samples_in(max(0, self._end_ms - start_ms), SPEECH_RATE_HZ) * 2
            pcm = pcm[-wanted:] if wanted else b""
        if np.any(np.frombuffer(pcm, "<i2")):
            self.speech[item_id] = pcm
        self._forget_surplus()
        item = HistoryItem(item_id=item_id, role="user", text="", spoken=True)
        self._past.append(item)
        self._untold.append(item)

    def told(self, history: Sequence[HistoryItem] | None = None) -> list[HistoryItem]:
        """The conversation to answer to: the session's ``history``, with turns that it does not know yet at its end."""
        if history is not None:
            known = {item.item_id for item in history}
            self._past = [*history, *(item for item in self._untold if item.item_id not in known)]
        self._untold = []
        return list(self._past)

    def understood(self, item_id: str, text: str) -> None:
        """The words of the turn ``item_id``, which are all that is kept of it."""
        self.speech.pop(item_id, None)
        for past in (self._past, self._untold):
            for place, item in enumerate(past):
                if item.item_id == item_id:
                    past[place] = msgspec.structs.replace(item, text=text)

    def add(self, item: HistoryItem) -> None:
        """Something was said, called or answered."""
        if item.text or item.call_id:
            self._past.append(item)

    def heard_only(self, text: str) -> None:
        """Of the last answer the caller heard only this."""
        for place in range(len(self._past) - 1, -1, -1):
            item = self._past[place]
            if item.role == "assistant" and item.call_id is None:
                self._past[place] = msgspec.structs.replace(item, text=text)
                return

    def _forget_surplus(self) -> None:
        total_ms = sum(ms_in(len(pcm) // 2, SPEECH_RATE_HZ) for pcm in self.speech.values())
        while total_ms > MOST_SPEECH_MS and len(self.speech) > 1:
            oldest = next(iter(self.speech))
            total_ms -= ms_in(len(self.speech.pop(oldest)) // 2, SPEECH_RATE_HZ)
