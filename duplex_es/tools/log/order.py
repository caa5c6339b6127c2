"""The contract's order of an answer's frames, as any log must show it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...protocol import Frame, wire_name
from ...reading.notes import MASK

ANNOUNCED = ("conversation.item.added", "conversation.item.created", "response.output_item.added")
PLACES = {
    "response.output_audio.done": 1,
    "response.output_audio_transcript.done": 2,
    "response.content_part.done": 3,
    "response.output_text.done": 4,
    "response.function_call_arguments.done": 4,
    "response.output_item.done": 6,
    "conversation.item.done": 7,
    "response.done": 8,
}
"""What ends → its place. The part of a text comes after its text: place 5."""
_ERASED = re.compile(f"{MASK}+")
NOT_OF_AN_ANSWER = {"output_audio_buffer.cleared", "playback.acknowledged"}


class OrderBroken(Exception):
    """A frame stands where it may not; the message says which rule that is."""


@dataclass
class Answer:
    """One answer so far."""

    item_id: str = ""
    announced: int = 0
    place: int = 0
    words: str = ""
    text: str = ""
    arguments: str = ""
    unpaired: bool = False


@dataclass
class OrderChecker:
    """Takes frames in order. ``whole`` is false for a log whose beginning is gone: answers begun there are let be."""

    whole: bool = True
    open: dict[str, Answer] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    _items: dict[str, str] = field(default_factory=dict)
    _owes_limits: bool = False

    def take(self, frame: Frame) -> None:
        """The next frame. Raises: OrderBroken."""
        kind = wire_name(frame)
        if kind == "rate_limits.updated":
            self._hold(self._owes_limits or not self.whole, "rate_limits.updated follows a response.done")
            self._owes_limits = False
            return
        if kind == "response.created":
            self._create(frame)
            return
        response_id = self._response_of(kind, frame)
        if response_id is None:
            return
        self._hold(not self._owes_limits, "rate_limits.updated comes right after response.done")
        self._hold(response_id not in self.done, f"nothing of {response_id} comes after its response.done")
        answer = self.open.get(response_id)
        if answer is None:
            self._hold(not self.whole, f"response.created comes before all else of {response_id}")
            if kind == "response.done":
                self.done.add(response_id)
                self._owes_limits = True
            return
        if kind in ANNOUNCED:
            self._announce(answer, kind, frame)
        elif kind in PLACES:
            self._end(response_id, answer, kind, frame)
        else:
            self._stream(answer, kind, frame)

    def _create(self, frame: Any) -> None:
        response_id = str(frame.response.id)
        known = response_id in self.open or response_id in self.done
        self._hold(not known, f"response.created comes once for {response_id}")
        self.open[response_id] = Answer()

    def _response_of(self, kind: str, frame: Any) -> str | None:
        if kind.startswith("conversation.item."):
            item_id = getattr(getattr(frame, "item", None), "id", None)
            waiting = next((key for key, answer in self.open.items() if not answer.announced), None)
            if kind == "conversation.item.added" and waiting is not None:
                self._items[str(item_id)] = waiting
                self.open[waiting].item_id = str(item_id)
            owner = self._items.get(str(item_id))
            return owner if kind in (*ANNOUNCED, "conversation.item.done") and owner in self.open else None
        response_id = getattr(frame, "response_id", None)
        return response_id if isinstance(response_id, str) and kind not in NOT_OF_AN_ANSWER else None

    def _announce(self, answer: Answer, kind: str, frame: Any) -> None:
        expected = ANNOUNCED[answer.announced] if answer.announced < len(ANNOUNCED) else "nothing"
        self._hold(kind == expected, f"{expected} comes next after response.created, not {kind}")
        self._hold(str(frame.item.id) == answer.item_id, "an answer announces one item")
        answer.announced += 1

    def _stream(self, answer: Answer, kind: str, frame: Any) -> None:
        self._hold(answer.announced == len(ANNOUNCED), f"an answer is announced before {kind}")
        self._hold(answer.place == 0, f"{kind} comes before the answer's parts are done")
        transcribes = kind == "response.output_audio_transcript.delta"
        self._hold(transcribes == answer.unpaired, "a transcript delta follows each audio delta at once")
        answer.unpaired = kind == "response.output_audio.delta"
        if transcribes:
            answer.words += frame.delta
        elif kind == "response.output_text.delta":
            answer.text += frame.delta
        elif kind == "response.function_call_arguments.delta":
            answer.arguments += frame.delta

    def _end(self, response_id: str, answer: Answer, kind: str, frame: Any) -> None:
        self._hold(answer.announced == len(ANNOUNCED), f"an answer is announced before {kind}")
        place = PLACES[kind]
        if kind == "response.content_part.done" and frame.part.type == "text":
            place = 5
        self._hold(place > answer.place, f"{kind} comes too late or twice")
        answer.place = place
        if kind == "response.output_audio_transcript.done":
            self._hold(_alike(frame.transcript, answer.words), "the transcript is exactly its deltas")
        elif kind == "response.output_text.done":
            self._hold(_alike(frame.text, answer.text), "the text is exactly its deltas")
        elif kind == "response.function_call_arguments.done":
            self._hold(_alike(frame.arguments, answer.arguments), "the arguments are exactly their deltas")
        elif kind == "response.done":
            self.done.add(response_id)
            del self.open[response_id]
            self._owes_limits = True

    def _hold(self, holds: bool, rule: str) -> None:
        if not holds:
            raise OrderBroken(rule)


def _alike(whole: str, pieces: str) -> bool:
    """Whether a text is its pieces; of what was erased nobody knows in how many."""
    return whole == pieces or _ERASED.sub(MASK, whole) == _ERASED.sub(MASK, pieces)
