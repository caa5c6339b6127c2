"""What any client may rely on in a stream of frames, checked without a look at the code that made it.

Feed it everything one client hears, in order: frames, or the JSON objects of a socket. It raises AssertionError at the
first frame that breaks the contract and says which rule, and where.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

Wire = dict[str, Any]

ANNOUNCED = ("conversation.item.added", "conversation.item.created", "response.output_item.added")
ENDINGS = {
    "response.output_audio.done": 1,
    "response.output_audio_transcript.done": 2,
    "response.content_part.done": 3,
    "response.output_text.done": 4,
    "response.function_call_arguments.done": 4,
    "response.output_item.done": 6,
    "conversation.item.done": 7,
    "response.done": 8,
}
"""Terminal frame → its place. The part of a text comes after its text: place 5."""
STATUSES = {"completed", "cancelled", "failed"}
LEDGER = ("generated_ms", "sent_ms", "played_ms", "committed_ms")


@dataclass
class Answer:
    """One response as the client has seen it so far."""

    response_id: str
    item_id: str = ""
    kind: str = ""
    announced: int = 0
    parts: dict[int, str] = field(default_factory=dict)
    closed_parts: set[int] = field(default_factory=set)
    spoke: bool = False
    listened: bool = False
    pairs: int = 0
    unpaired: bool = False
    transcript: str = ""
    text: str = ""
    arguments: str = ""
    place: int = 0
    seen: set[str] = field(default_factory=set)
    status: str = ""


class ResponseOrderChecker:
    """Checks the ordering table: per response exactly one ``created`` and one ``done``, nothing after it, parts opened

    before their deltas, audio and transcript in strict pairs, every text repeated exactly when it is done, ids never
    used twice; besides, ``server_event_seq`` without a gap, epochs and ledgers that never go back.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.count = 0
        self._items: dict[str, Answer] = {}
        self._ledgers: dict[str, dict[str, int]] = {}
        self._seq: int | None = None
        self._epoch = 0
        self._owes_rate_limits = False
        self._frame: Wire = {}

    @property
    def open(self) -> list[str]:
        """The ids of the responses that have not ended."""
        return [one.response_id for one in self.answers.values() if not one.status]

    def statuses(self) -> list[str]:
        """How the responses ended, in the order they began; ``""`` for one that has not."""
        return [one.status for one in self.answers.values()]

    def take(self, frame: msgspec.Struct | Wire) -> None:
        """The next frame. Raises: AssertionError."""
        wire: Wire = frame if isinstance(frame, dict) else msgspec.to_builtins(frame, builtin_types=(bytes,))
        self.count += 1
        self._frame = wire
        self._check_counters(wire)
        kind = str(wire["type"])
        if kind == "rate_limits.updated":
            self._hold(self._owes_rate_limits, "rate_limits.updated follows a response.done")
            self._owes_rate_limits = False
            return
        answer = self._answer_of(wire, kind)
        if answer is None:
            return
        self._hold(not self._owes_rate_limits, "rate_limits.updated comes right after response.done")
        self._hold(not answer.status, "nothing of a response comes after its response.done")
        if kind in ANNOUNCED and kind not in answer.seen:
            self._announce(answer, wire, kind)
        elif kind in ENDINGS:
            self._end(answer, wire, kind)
        elif kind != "response.created":
            self._stream(answer, wire, kind)
        answer.seen.add(kind)

    def ended(self) -> None:
        """The session is over. Raises: AssertionError when a response never ended."""
        assert not self.open, f"never ended: {self.open}"
        assert not self._owes_rate_limits, "the last response.done has no rate_limits.updated"

    # -- which response ------------------------------------------------------------------------------------------

    def _answer_of(self, wire: Wire, kind: str) -> Answer | None:
        if kind == "response.created":
            return self._create(wire)
        if kind in ("conversation.item.added", "conversation.item.created", "conversation.item.done"):
            item_id = wire["item"]["id"]
            waiting = next((one for one in self.answers.values() if one.announced == 0 and not one.status), None)
            if kind == "conversation.item.added" and waiting is not None:
                self._hold(item_id not in self._items, "an item id is never used twice")
                waiting.item_id = item_id
                self._items[item_id] = waiting
            return self._items.get(item_id) if self._items.get(item_id, Answer("")).status == "" else None
        response_id = wire.get("response_id")
        if response_id is None or kind in ("output_audio_buffer.cleared", "playback.acknowledged"):
            return None
        self._hold(response_id in self.answers, "response.created comes before all else of a response")
        return self.answers[response_id]

    def _create(self, wire: Wire) -> Answer:
        response = wire["response"]
        response_id = wire.get("response_id", response["id"])
        self._hold(response_id == response["id"], "both places of the id agree")
        self._hold(response_id not in self.answers, "a response id is never used twice")
        self._hold(response["status"] == "in_progress", "a response begins in progress")
        answer = Answer(response_id)
        self.answers[response_id] = answer
        return answer

    # -- the life of one -----------------------------------------------------------------------------------------

    def _announce(self, answer: Answer, wire: Wire, kind: str) -> None:
        self._hold(ANNOUNCED[answer.announced] == kind, f"{ANNOUNCED[answer.announced]} comes next after created")
        self._hold(wire["item"]["id"] == answer.item_id, "a response announces one item")
        answer.announced += 1
        if kind == "response.output_item.added":
            answer.kind = wire["item"]["type"]
            others = [one for one in self.answers.values() if one.kind == "message" and not one.status]
            self._hold(len(others) <= 1, "one answer is given at a time")

    def _stream(self, answer: Answer, wire: Wire, kind: str) -> None:
        self._hold(answer.announced == len(ANNOUNCED), "a response is announced before it streams")
        self._hold(answer.place == 0, "nothing streams once the parts are done")
        self._hold(not answer.listened, "a response that ended by listening streams nothing")
        self._hold(
            not answer.unpaired or kind == "response.output_audio_transcript.delta",
            "a transcript delta follows its audio delta at once",
        )
        match kind:
            case "response.content_part.added":
                index, part = wire["content_index"], wire["part"]["type"]
                self._hold(index == len(answer.parts), "parts are numbered in the order they open")
                self._hold(part not in answer.parts.values(), "a part opens once")
                answer.parts[index] = part
            case "response.speak":
                self._hold(not answer.spoke and answer.pairs == 0, "speak comes once, before any audio")
                answer.spoke = True
            case "response.listen":
                answer.listened = True
            case "response.message":
                pass
            case "response.output_audio.delta":
                self._hold(answer.parts.get(wire["content_index"]) == "audio", "audio streams into an open part")
                answer.unpaired = True
                self._ledger(answer.item_id, (wire.get("metadata") or {}).get("playback"))
            case "response.output_audio_transcript.delta":
                self._hold(answer.unpaired, "a transcript delta has its audio delta before it")
                answer.unpaired = False
                answer.pairs += 1
                answer.transcript += wire["delta"]
            case "response.output_text.delta":
                self._hold(answer.parts.get(wire["content_index"]) == "text", "text streams into an open part")
                answer.text += wire["delta"]
            case "response.function_call_arguments.delta":
                self._hold(answer.kind == "function_call", "arguments belong to a function call")
                answer.arguments += wire["delta"]
            case _:
                self._hold(False, f"{kind} has no place in a response")

    def _end(self, answer: Answer, wire: Wire, kind: str) -> None:
        self._hold(answer.announced == len(ANNOUNCED), "a response is announced before it ends")
        self._hold(not answer.unpaired, "every audio delta has its transcript delta")
        place = ENDINGS[kind]
        if kind == "response.content_part.done":
            self._close_part(answer, wire)
            place = 5 if wire["part"]["type"] == "text" else 3
        self._hold(place > answer.place, f"{kind} comes too late or twice")
        answer.place = place
        match kind:
            case "response.output_audio.done":
                self._hold(answer.pairs > 0, "audio that never began is not done")
            case "response.output_audio_transcript.done":
                self._hold(wire["transcript"] == answer.transcript, "the transcript is exactly its deltas")
            case "response.output_text.done":
                self._hold(wire["text"] == answer.text, "the text is exactly its deltas")
            case "response.function_call_arguments.done":
                self._hold(wire["arguments"] == answer.arguments, "the arguments are exactly their deltas")
            case "response.output_item.done" | "conversation.item.done":
                self._hold(wire["item"]["id"] == answer.item_id, "the item that was announced is the one that is done")
                self._hold(answer.closed_parts == set(answer.parts), "every part is closed")
            case "response.done":
                self._done(answer, wire)

    def _close_part(self, answer: Answer, wire: Wire) -> None:
        index = wire["content_index"]
        self._hold(answer.parts.get(index) == wire["part"]["type"], "the part that closes is one that opened")
        self._hold(index not in answer.closed_parts, "a part closes once")
        answer.closed_parts.add(index)

    def _done(self, answer: Answer, wire: Wire) -> None:
        response = wire["response"]
        self._hold(response["status"] in STATUSES, "a response ends as completed, cancelled or failed")
        required = {"response.output_item.done", "conversation.item.done"}
        if answer.pairs:
            required.add("response.output_audio.done")
        if answer.transcript:
            required.add("response.output_audio_transcript.done")
        if answer.text:
            required.add("response.output_text.done")
        if answer.kind == "function_call":
            required.add("response.function_call_arguments.done")
        self._hold(required <= answer.seen, f"missing before done: {sorted(required - answer.seen)}")
        self._hold([item["id"] for item in response["output"]] == [answer.item_id], "the output is the one item")
        ledger = (response.get("metadata") or {}).get("playback")
        self._ledger(answer.item_id, ledger)
        answer.status = response["status"]
        self._owes_rate_limits = True

    # -- counters ------------------------------------------------------------------------------------------------

    def _check_counters(self, wire: Wire) -> None:
        seq = wire.get("server_event_seq")
        if seq is not None:
            self._hold(self._seq is None or seq == self._seq + 1, f"seq {seq} does not follow {self._seq}")
            self._seq = seq
        for holder in (wire, wire.get("metadata"), wire.get("event"), (wire.get("response") or {}).get("metadata")):
            epoch = holder.get("epoch") if isinstance(holder, dict) else None
            if isinstance(epoch, int):
                self._hold(epoch >= self._epoch, f"epoch {epoch} after {self._epoch}")
                self._epoch = epoch
        if wire["type"] == "playback.acknowledged":
            event = wire["event"]
            self._ledger(event["item_id"], event["playback"], truncating=event["truncate"])

    def _ledger(self, item_id: str, ledger: dict[str, int] | None, *, truncating: bool = False) -> None:
        if ledger is None:
            return
        before = self._ledgers.get(item_id, dict.fromkeys(LEDGER, 0))
        for name in LEDGER:
            lowered = ledger[name] < before[name] and not (truncating and name == "committed_ms")
            self._hold(not lowered, f"{name} of {item_id} went back from {before[name]} to {ledger[name]}")
        self._ledgers[item_id] = dict(ledger)

    def _hold(self, holds: bool, rule: str) -> None:
        assert holds, f"{rule}; broken by frame {self.count}: {_short(self._frame)}"


def check_order(frames: list[Any]) -> ResponseOrderChecker:
    """Check a whole stream; the checker says what it saw. Raises: AssertionError."""
    checker = ResponseOrderChecker()
    for frame in frames:
        checker.take(frame)
    return checker


def _short(wire: Wire) -> str:
    text = str({key: value for key, value in wire.items() if key != "delta" or len(str(value)) < 80})
    return text if len(text) < 600 else f"{text[:600]}…"
