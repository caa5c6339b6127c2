"""What happened beside the sound, taken out of the records as marks on lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..reading.calls import Call
from ..reading.records import InputLine, OutputLine
from .document import LANES, Mark, Report

JOIN_MS = 1_500
"""The same thing again within this time is one mark that lasts."""
Fact = dict[str, Any]


def _reason(fact: Fact) -> str:
    return str(fact.get("reason") or "")


def _code(fact: Fact) -> str:
    return f"{fact.get('code')}: {fact.get('message')}"


def _overlap(fact: Fact) -> str:
    lasted = f", {fact['overlap_ms']} ms over the answer" if fact.get("overlap_ms") else ""
    return f"{fact.get('reason')} ({fact.get('policy')}{lasted})"


SIMPLE: dict[str, tuple[str, str, Callable[[Fact], str]]] = {
    "SessionRefused": ("errors", "refused", _code),
    "CommandRejected": ("errors", "rejected", _code),
    "FunctionCallMalformed": ("errors", "malformed", lambda fact: f"a call of {fact.get('name')} that none can answer"),
    "InputSkipped": ("errors", "skipped", lambda fact: f"{fact.get('duration_ms')} ms of the caller thrown away"),
    "SessionReconfigured": ("sockets", "configured", lambda _: "settings changed"),
    "SessionForked": (
        "sockets",
        "forked",
        lambda fact: f"a copy of {fact.get('session_id')} up to seq {fact.get('seq')}",
    ),
    "SessionClosed": ("sockets", "closed", _reason),
    "SessionExpired": ("sockets", "closed", _reason),
    "ExpiryAnnounced": ("sockets", "expiring", lambda fact: f"over in {fact.get('grace_ms')} ms"),
    "OverlapDecided": ("overlap", "", _overlap),
    "EpochAdvanced": ("overlap", "epoch", lambda fact: f"epoch {fact.get('epoch')}"),
    "OutputCleared": ("overlap", "cleared", lambda _: "queued sound dropped by the client"),
    "SilenceCommitted": ("speech", "silence", lambda _: "committed without speech"),
    "InputCleared": ("speech", "cleared", lambda _: "uncommitted input dropped"),
    "TextAppended": ("speech", "typed", lambda fact: str(fact.get("text") or "")),
    "TurnPromoted": ("speech", "promoted", lambda _: "the turn that waited is next"),
    "Listened": ("model", "listened", _reason),
    "TurnEndedEmpty": ("model", "empty", lambda fact: f"turn {fact.get('turn')} ended with nothing said"),
    "TurnSignalled": ("model", "signal", lambda fact: str(fact.get("event") or "")),
    "MessagePassedOn": ("model", "message", lambda fact: str((fact.get("message") or {}).get("type") or "message")),
    "MemoryGrown": ("model", "memory", lambda fact: f"{len(fact.get('data') or b'')} bytes left for a successor"),
    "ModelRestarted": ("model", "restarted", lambda _: "opened anew"),
    "AnswerContinued": ("workers", "continued", lambda _: "the answer goes on where it was left off"),
    "AnswerAskedAgain": ("workers", "asked_again", lambda _: "the announced answer is asked for again"),
    "AnswerPutOff": ("workers", "put_off", lambda _: "an owed answer waits for the one that goes on"),
    "TurnHeardAgain": ("workers", "heard_again", lambda _: "the model hears the caller's turn again"),
}
"""Fact → lane, kind and words, for those that are one mark."""
JOINED = {"listened", "memory", "drop", "listen", "barge_in"}


@dataclass(slots=True)
class _Speech:
    """Speech that was detected; its place in time comes from the caller's sound."""

    item: str
    ref: str
    at_ms: int
    end_ref: str = ""
    end_ms: int | None = None
    kept: bool = True


@dataclass(slots=True)
class MarkReader:
    """Takes records in order, each stream in its own, and gives the marks that are known by then."""

    _marks: dict[str, list[Mark]] = field(default_factory=lambda: {lane: [] for lane in LANES})
    _reports: list[Report] = field(default_factory=list)
    _speech: list[_Speech] = field(default_factory=list)
    _committed: dict[str, Mark] = field(default_factory=dict)
    _words: dict[str, str] = field(default_factory=dict)
    _turns: dict[int, Mark] = field(default_factory=dict)
    _turn_of: dict[str, int] = field(default_factory=dict)
    _tools: dict[str, Mark] = field(default_factory=dict)
    _socket: Mark | None = None
    _claim: Mark | None = None
    _fence: int = 0
    _items: dict[str, str] = field(default_factory=dict)

    # -- records ---------------------------------------------------------------------------------------------------

    def take_output(self, line: OutputLine) -> None:
        """The next record of ``output``."""
        if line.id.generation > self._fence:
            self._claimed(line, f"<{line.id}")
        ref = f"<{line.id}" if line.facts else ""
        for fact in line.facts:
            self._take_fact(fact, line.at_ms, ref)
        frame = line.frame or {}
        if frame.get("type") == "response.output_item.added":
            self._items[str((frame.get("item") or {}).get("id"))] = str(frame.get("response_id"))
        elif frame.get("type") == "error" and not any(f.get("fact") == "CommandRejected" for f in line.facts):
            error = frame.get("error") or {}
            self._add("errors", Mark(at=line.at_ms, kind="error", text=_code(error), ref=f"<{line.id}"))

    def take_input(self, line: InputLine) -> None:
        """The next record of ``input``."""
        ref, said = f">{line.id}", line.said
        if line.type == "duplex_es.socket_attached":
            text = f"{said.get('gateway')} #{line.id.generation}, {said.get('dialect') or 'duplex'}"
            self._end_socket(line.at_ms, ref, "replaced")
            self._socket = Mark(at=line.at_ms, kind="socket", open=True, text=text, ref=ref)
            self._marks["sockets"].append(self._socket)
        elif line.type == "duplex_es.socket_detached":
            self._end_socket(line.at_ms, ref, str(said.get("reason") or "gone"))
            self._add("sockets", Mark(at=line.at_ms, kind="detached", text=str(said.get("reason") or ""), ref=ref))

    def _end_socket(self, at_ms: int, ref: str, why: str) -> None:
        if self._socket is not None:
            socket, self._socket = self._socket, None
            socket.end, socket.end_ref, socket.open = at_ms, ref, False
            socket.text += f" ({why})"

    def _claimed(self, line: OutputLine, ref: str) -> None:
        if self._claim is not None:
            self._claim.end, self._claim.end_ref, self._claim.open = line.at_ms, ref, False
        for turn in list(self._turns):
            self._end_turn(turn, line.at_ms, ref)
        text = f"claim {line.id.generation}"
        self._claim = Mark(at=line.at_ms, kind="takeover" if self._fence else "claim", open=True, text=text, ref=ref)
        self._fence = line.id.generation
        self._marks["workers"].append(self._claim)

    def _add(self, lane: str, mark: Mark) -> None:
        """Add it, or let the last one of its kind last longer."""
        marks = self._marks[lane]
        last = marks[-1] if marks else None
        if (
            last is not None
            and mark.kind in JOINED
            and (last.kind, last.text.split(",")[0])
            == (
                mark.kind,
                mark.text.split(",")[0],
            )
        ):
            ended = last.at if last.end is None else last.end
            if mark.at - ended <= JOIN_MS:
                last.end, last.end_ref, last.text = mark.at, mark.ref, mark.text
                last.count += 1
                return
        marks.append(mark)

    # -- facts -----------------------------------------------------------------------------------------------------

    def _take_fact(self, fact: Fact, at_ms: int, ref: str) -> None:
        name, item = str(fact.get("fact")), str(fact.get("item_id") or "")
        response = str(fact.get("response_id") or "")
        if name in SIMPLE:
            lane, kind, words = SIMPLE[name]
            kind = kind or str(fact.get("action"))
            self._add(lane, Mark(at=at_ms, kind=kind, text=words(fact), ref=ref, response=response, item=item))
            return
        match name:
            case "SpeechStarted":
                self._speech.append(_Speech(item, ref, at_ms))
            case "SpeechStopped" if self._speech:
                ended = self._speech[-1]
                ended.end_ref, ended.end_ms, ended.kept = ref, at_ms, fact.get("kept") is not False
            case "InputCommitted":
                self._commit(fact, item, at_ms, ref)
            case "InputTranscribed":
                self._words[item] = str(fact.get("transcript") or "")
            case "TurnBegun":
                text = f"turn {fact.get('turn')}"
                mark = Mark(at=at_ms, kind="turn", open=True, text=text, ref=ref, response=response)
                self._turns[int(fact.get("turn") or 0)] = mark
                self._marks["model"].append(mark)
            case "ResponseSpoken":
                self._turn_of[response] = int(fact.get("turn") or 0)
            case "ResponseFinished":
                self._finish(fact, response, at_ms, ref)
            case "PlaybackAcknowledged" | "ItemTruncated":
                self._report(fact, name == "ItemTruncated", at_ms, ref)
            case "FunctionCalled":
                text = f"{fact.get('name')}({fact.get('arguments')})"
                called = Mark(at=at_ms, kind="call", open=True, text=text, ref=ref, response=response, item=item)
                self._tools[str(fact.get("call_id"))] = called
                self._marks["tools"].append(called)
            case "ItemCreated":
                self._answer_call(fact.get("item") or {}, at_ms, ref)
        if name == "TurnEndedEmpty":
            self._end_turn(int(fact.get("turn") or 0), at_ms, ref)

    def _commit(self, fact: Fact, item: str, at_ms: int, ref: str) -> None:
        said = str(fact.get("transcript") or fact.get("text") or "")
        if said:
            self._words[item] = said
        how = [name for name in ("by_model", "deferred", "waits", "created") if fact.get(name)]
        mark = Mark(at=at_ms, kind="committed", text=", ".join(how), ref=ref, item=item)
        self._committed[item] = mark
        self._marks["speech"].append(mark)

    def _finish(self, fact: Fact, response: str, at_ms: int, ref: str) -> None:
        if (turn := self._turn_of.get(response)) is not None:
            self._end_turn(turn, at_ms, ref)
        status = str(fact.get("status"))
        reason = f": {fact['reason']}" if fact.get("reason") else ""
        if status == "cancelled":
            mark = Mark(at=at_ms, kind="cancelled", text=f"answer cancelled{reason}", ref=ref, response=response)
            self._add("overlap", mark)
        elif status == "failed":
            mark = Mark(at=at_ms, kind="failed", text=f"answer failed{reason}", ref=ref, response=response)
            self._add("errors", mark)

    def _end_turn(self, turn: int, at_ms: int, ref: str) -> None:
        if (mark := self._turns.pop(turn, None)) is not None:
            mark.end, mark.end_ref, mark.open = at_ms, ref, False

    def _report(self, fact: Fact, truncates: bool, at_ms: int, ref: str) -> None:
        ledger, item = fact.get("ledger") or {}, str(fact.get("item_id"))
        played = fact.get("audio_end_ms") if truncates else fact.get("played_ms")
        self._reports.append(
            Report(
                at=at_ms,
                item=item,
                played_ms=int(played or 0),
                committed_ms=int(fact.get("committed_ms") or ledger.get("committed_ms") or 0),
                truncate=truncates or bool(fact.get("truncate")),
                ref=ref,
            )
        )

    def _answer_call(self, item: Fact, at_ms: int, ref: str) -> None:
        called = self._tools.get(str(item.get("call_id")))
        if called is not None and item.get("type") == "function_call_output":
            called.end, called.end_ref, called.open = at_ms, ref, False
            called.text += f" → {item.get('output') or ''}"

    # -- the marks -------------------------------------------------------------------------------------------------

    def marks(self, call: Call) -> dict[str, list[Mark]]:
        """All marks on the call's own time, each lane by time."""
        since = call.start_ms
        found = {lane: [_since(mark, since) for mark in marks] for lane, marks in self._marks.items()}
        for mark in found["speech"]:
            if mark.kind == "committed":
                mark.text = self._words.get(mark.item, "") or mark.text
        found["speech"] += list(self._spoken(call))
        for mark in found["workers"]:
            if mark.open and mark.kind in ("claim", "takeover") and call.head.worker:
                mark.text += f" of {call.head.worker}"
        if call.closed is not None or call.head.state == "closed":
            for mark in (mark for marks in found.values() for mark in marks if mark.open):
                mark.end, mark.open = max(mark.at, call.length_ms), False
        for marks in found.values():
            marks.sort(key=lambda mark: mark.at)
        return found

    def _spoken(self, call: Call) -> list[Mark]:
        placed: list[tuple[float, float] | None] = [*call.speech]
        placed += [None] * (len(self._speech) - len(placed))
        marks = []
        for spoken, where in zip(self._speech, placed, strict=True):
            until = call.length_ms if spoken.end_ms is None else spoken.end_ms - call.start_ms
            begin, end = where or (spoken.at_ms - call.start_ms, until)
            marks.append(
                Mark(
                    at=round(begin),
                    end=round(end),
                    kind="speech" if spoken.kept else "forgotten",
                    open=spoken.end_ms is None,
                    text=self._words.get(spoken.item, ""),
                    ref=spoken.ref,
                    end_ref=spoken.end_ref,
                    item=spoken.item,
                )
            )
        return marks

    def reports(self, call: Call) -> list[Report]:
        """What the client said of playback, on the call's own time."""
        copies = [msgspec.structs.replace(one, at=one.at - call.start_ms) for one in self._reports]
        for one in copies:
            one.response = self._items.get(one.item, "")
        return copies


def _since(mark: Mark, start_ms: int) -> Mark:
    # A record without a time stands at the beginning.
    end = None if mark.end is None else max(0, mark.end - start_ms)
    return msgspec.structs.replace(mark, at=max(0, mark.at - start_ms), end=end)
