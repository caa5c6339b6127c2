"""One call as people speak of it, taken out of its records: what was said, what was answered, and when.

Times are milliseconds since the first record that is left. Nothing here holds sound, only where it lies.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..log.api import EntryId, Head
from .records import InputLine, OutputLine, input_line, output_line
from .source import Source

JITTER_MS = 250
"""A piece that arrives this late still follows the one before it; later, there was silence in between."""
WIDTHS = {"pcm16": 2, "pcm_f32le": 4, "g711_ulaw": 1, "g711_alaw": 1}


@dataclass(slots=True)
class Piece:
    """Sound of one record: where it begins in the call, and how long it is. ``keep_ms`` of it were heard."""

    id: EntryId
    begin_ms: float
    duration_ms: float
    encoding: str
    rate_hz: int
    size: int | None
    at_ms: int = 0
    keep_ms: float = 0.0


@dataclass(slots=True)
class Answer:
    """One response. ``asked_ms`` is when the turn it answers was committed, ``sound_ms`` its first sound's record.

    ``words`` are its pieces of text and where in its sound each begins; without sound, when it was written.
    """

    response_id: str
    created_ms: int
    asked_ms: int | None = None
    asked_text: str = ""
    item_id: str = ""
    sound_ms: int | None = None
    done_ms: int | None = None
    status: str = "in_progress"
    reason: str = ""
    text: str = ""
    generated_ms: int = 0
    played_ms: int | None = None
    cap_ms: int | None = None
    pieces: list[Piece] = field(default_factory=list)
    words: list[tuple[float, str]] = field(default_factory=list)

    @property
    def heard_ms(self) -> float:
        """How much of it the caller heard."""
        return sum(piece.keep_ms for piece in self.pieces)

    @property
    def latency_ms(self) -> int | None:
        """From the end of the turn to the first sound."""
        return None if self.asked_ms is None or self.sound_ms is None else self.sound_ms - self.asked_ms


@dataclass(slots=True)
class Call:
    """The whole call. ``reports`` says that the client reports playback; ``speech`` is when the caller spoke."""

    head: Head
    start_ms: int = 0
    length_ms: int = 0
    heard: list[Piece] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    commits: list[tuple[int, str]] = field(default_factory=list)
    speech: list[tuple[float, float]] = field(default_factory=list)
    attaches: list[tuple[int, int, str]] = field(default_factory=list)
    detaches: list[tuple[int, int, str]] = field(default_factory=list)
    claims: list[tuple[int, int]] = field(default_factory=list)
    refused: int = 0
    reports: bool = False
    closed: str | None = None


async def read_call(source: Source, head: Head) -> Call:
    """What is left of the session. Raises: ReadingError."""
    reader = CallReader()
    async for entry in source.output(head, audio=False):
        reader.take_output(output_line(entry), len(entry.audio) if entry.audio is not None else None)
    async for entry in source.input(head, audio=True):  # how long a piece is, is how many bytes it has
        line = input_line(entry)
        reader.take_input(line, None if entry.audio is None else len(entry.audio))
    return reader.call(head)


class CallReader:
    """Takes the records of a call, each stream in its own order, and gives the call as it is known by then.

    ``size`` is how many bytes of sound a record has, ``None`` where nobody knows: then the facts say how long it is.
    """

    def __init__(self) -> None:
        self._first_ms: int | None = None
        self._last_ms = 0
        self._answers: dict[str, Answer] = {}
        self._by_item: dict[str, Answer] = {}
        self._asked: tuple[int, str] | None = None
        self._commits: dict[str, list[Any]] = {}
        self._claims: list[tuple[int, int]] = []
        self._fence = 0
        self._formats: list[tuple[EntryId, str, int]] = []
        self._consumed, self._consumed_text = EntryId(0, 0), ""
        self._decided: list[tuple[EntryId, float]] = []
        self._spoke: list[list[int | None]] = []
        self._appends: list[tuple[InputLine, int | None]] = []
        self._attaches: list[tuple[int, int, str]] = []
        self._detaches: list[tuple[int, int, str]] = []
        self._refused = 0
        self._reports = False
        self._closed: str | None = None

    def _saw(self, at_ms: int) -> None:
        if at_ms <= 0:  # Nobody knows when.
            return
        self._first_ms = at_ms if self._first_ms is None else min(self._first_ms, at_ms)
        self._last_ms = max(self._last_ms, at_ms)

    # -- output ----------------------------------------------------------------------------------------------------

    def take_output(self, line: OutputLine, size: int | None) -> None:
        """The next record of the output."""
        self._saw(line.at_ms)
        if line.id.generation > self._fence:
            self._fence = line.id.generation
            self._claims.append((line.at_ms, self._fence))
        for fact in line.facts:
            self._take_fact(fact, line.at_ms)
        if line.consumed and line.consumed != self._consumed_text:
            self._consumed_text, self._consumed = line.consumed, EntryId.parse(line.consumed)
        if line.facts:
            appended = (fact for fact in line.facts if fact.get("fact") == "AudioAppended")
            if heard_ms := sum(fact["samples"] * 1_000 / fact["rate_hz"] for fact in appended):
                self._decided.append((self._consumed, heard_ms))
        if line.frame is not None:
            self._take_frame(line, line.frame, size)

    def _take_fact(self, fact: dict[str, Any], at_ms: int) -> None:
        match fact.get("fact"):
            case "SessionOpened" | "SessionReconfigured":
                settings = fact.get("settings") or {}
                declared = (settings.get("input_format", "pcm16"), settings.get("input_rate_hz", 16_000))
                self._formats.append((self._consumed, *declared))
            case "SpeechStarted":
                self._spoke.append([fact.get("start_ms"), None])
            case "SpeechStopped":
                if self._spoke:
                    self._spoke[-1][1] = fact.get("end_ms")
            case "InputCommitted":
                said = str(fact.get("transcript") or fact.get("text") or "")
                self._commits[str(fact.get("item_id"))] = [at_ms, said]
                self._asked = (at_ms, str(fact.get("item_id")))
            case "InputTranscribed":
                if (known := self._commits.get(str(fact.get("item_id")))) is not None:
                    known[1] = str(fact.get("transcript") or "")
            case "PlaybackAcknowledged" | "ItemTruncated":
                self._take_playback(fact)
            case "CommandRejected":
                self._refused += 1
            case "SessionClosed" | "SessionExpired":
                self._closed = str(fact.get("reason"))

    def _take_playback(self, fact: dict[str, Any]) -> None:
        self._reports = True
        answer = self._by_item.get(str(fact.get("item_id")))
        if answer is not None:
            ledger = fact.get("ledger") or {}
            answer.played_ms = max(int(ledger.get("played_ms", 0)), int(ledger.get("committed_ms", 0)))
            answer.cap_ms = fact.get("cap_ms")

    def _take_frame(self, line: OutputLine, frame: dict[str, Any], size: int | None) -> None:
        kind = frame.get("type")
        if kind == "response.created":
            response_id = str((frame.get("response") or {}).get("id"))
            answer = self._answers[response_id] = Answer(response_id, line.at_ms)
            if self._asked is not None:
                answer.asked_ms, item_id = self._asked
                answer.asked_text, self._asked = item_id, None
            return
        found = self._answers.get(str(frame.get("response_id") or (frame.get("response") or {}).get("id")))
        if found is None:
            return
        if kind == "response.output_item.added":
            found.item_id = str((frame.get("item") or {}).get("id"))
            self._by_item[found.item_id] = found
        elif kind == "response.output_audio.delta":
            self._take_sound(found, line, frame, size)
        elif kind in ("response.output_audio_transcript.delta", "response.output_text.delta"):
            said = str(frame.get("delta") or "")
            found.text += said
            if said:
                at = found.generated_ms - found.pieces[-1].duration_ms if found.pieces else float(line.at_ms)
                found.words.append((at, said))
        elif kind == "response.done":
            response = frame.get("response") or {}
            found.done_ms, found.status = line.at_ms, str(response.get("status"))
            found.reason = str((response.get("status_details") or {}).get("reason") or "")

    def _take_sound(self, answer: Answer, line: OutputLine, frame: dict[str, Any], size: int | None) -> None:
        generated = int((frame.get("metadata") or {}).get("audio_duration_ms") or answer.generated_ms)
        duration, answer.generated_ms = generated - answer.generated_ms, generated
        answer.sound_ms = line.at_ms if answer.sound_ms is None else answer.sound_ms
        encoding, rate_hz = str(frame.get("format") or "pcm16"), int(frame.get("sample_rate_hz") or 24_000)
        answer.pieces.append(Piece(line.id, 0.0, float(duration), encoding, rate_hz, size, line.at_ms))

    # -- input -----------------------------------------------------------------------------------------------------

    def take_input(self, line: InputLine, size: int | None) -> None:
        """The next record of the input."""
        self._saw(line.at_ms)
        said = line.said
        if line.type == "input_audio_buffer.append":
            self._appends.append((line, size))
        elif line.type == "duplex_es.socket_attached":
            self._attaches.append((line.at_ms, line.id.generation, str(said.get("gateway"))))
        elif line.type == "duplex_es.socket_detached":
            self._detaches.append((line.at_ms, line.id.generation, str(said.get("reason"))))

    # -- the call --------------------------------------------------------------------------------------------------

    def call(self, head: Head) -> Call:
        """The call so far, on its own time. Asked again after more records, it is a new one."""
        call = Call(head)
        start = call.start_ms = self._first_ms or 0
        call.length_ms = max(0, self._last_ms - start)
        call.reports, call.refused, call.closed = self._reports, self._refused, self._closed
        call.claims = [(at - start, fence) for at, fence in self._claims]
        call.attaches = [(at - start, generation, gateway) for at, generation, gateway in self._attaches]
        call.detaches = [(at - start, generation, reason) for at, generation, reason in self._detaches]
        call.commits = [(at - start, text) for at, text in self._commits.values()]
        call.heard = list(self._placed_input(start))
        self._place_speech(call)
        call.answers = [self._on_call_time(answer, start) for answer in self._answers.values()]
        place_answers(call)
        ends = [call.heard[-1].begin_ms + call.heard[-1].duration_ms] if call.heard else []
        ends += [piece.begin_ms + piece.keep_ms for answer in call.answers for piece in answer.pieces[-1:]]
        call.length_ms = int(max([call.length_ms, *ends]))
        return call

    def _on_call_time(self, answer: Answer, start: int) -> Answer:
        def since(at_ms: int | None) -> int | None:
            return None if at_ms is None else at_ms - start

        return replace(
            answer,
            asked_ms=since(answer.asked_ms),
            sound_ms=since(answer.sound_ms),
            done_ms=since(answer.done_ms),
            created_ms=answer.created_ms - start,
            asked_text=(self._commits.get(answer.asked_text) or [0, ""])[1],
            pieces=[_since(piece, start) for piece in answer.pieces],
            words=list(answer.words) if answer.pieces else [(at - start, text) for at, text in answer.words],
        )

    def _placed_input(self, start: int) -> Iterator[Piece]:
        """A piece ends when it arrives, unless that is within the jitter of following the one before."""
        at, end_ms = 0, 0.0
        expired = self._expired_ms()
        encoding, rate_hz, duration = "pcm16", 16_000, 0.0
        for line, size in self._appends:
            while at < len(self._formats) and self._formats[at][0] < line.id:
                _, encoding, rate_hz = self._formats[at]
                at += 1
            used = line.said.get("format") or line.said.get("input_audio_format")
            used = used if isinstance(used, str) and used in WIDTHS else encoding
            rate = line.said.get("sample_rate_hz") or line.said.get("sample_rate") or rate_hz
            # What nobody has decided on yet is taken to be as long as what came before.
            duration = expired.get(line.id, duration) if size is None else size / WIDTHS.get(used, 2) * 1_000 / rate
            begin = max(0.0, line.at_ms - start - duration)
            begin = begin if begin > end_ms + JITTER_MS else end_ms
            end_ms = begin + duration
            yield Piece(line.id, begin, duration, used, rate, size, line.at_ms - start, duration)

    def _expired_ms(self) -> dict[EntryId, float]:
        """How long the pieces were whose sound has expired: what a decision took in, shared among its appends."""
        ends = [consumed for consumed, _ in self._decided]
        shared: dict[int, list[EntryId]] = {}
        for line, size in self._appends:
            if size is None:
                shared.setdefault(bisect_left(ends, line.id), []).append(line.id)
        return {
            entry_id: self._decided[at][1] / len(ids)
            for at, ids in shared.items()
            if at < len(self._decided)
            for entry_id in ids
        }

    def _place_speech(self, call: Call) -> None:
        """From the input clock, which stands still without sound, to the call's time."""
        clock, total = [], 0.0
        for piece in call.heard:
            clock.append(total)
            total += piece.duration_ms

        def placed(ms: float, *, ends: bool = False) -> float:
            # What ends where a piece begins ended with the piece before.
            at = max(0, (bisect_left if ends else bisect_right)(clock, ms) - 1)
            return call.heard[at].begin_ms + min(ms - clock[at], call.heard[at].duration_ms)

        if call.heard:
            for begin, end in self._spoke:
                call.speech.append((placed(begin or 0), placed(total if end is None else end, ends=True)))


def _since(piece: Piece, start: int) -> Piece:
    # Many thousands in a long call, and again for each look at one that goes on: not by ``replace``, which is slow.
    return Piece(piece.id, 0.0, piece.duration_ms, piece.encoding, piece.rate_hz, piece.size, piece.at_ms - start)


def place_answers(call: Call) -> None:
    """Where each piece of an answer is played, and how much of it was heard.

    A piece begins when it was recorded or, if later, when what comes before it has been played. Heard is what the
    client reported; with a client that never does, all, up to the moment at which the answer was cancelled.
    """
    free_ms = 0.0
    for answer in call.answers:
        begin_ms = left_ms = float(answer.generated_ms)
        if answer.cap_ms is not None:
            left_ms = min(left_ms, float(answer.cap_ms))
        elif call.reports:
            left_ms = min(left_ms, float(answer.played_ms or 0))
        end_ms = float("inf")
        if not call.reports and answer.status == "cancelled" and answer.done_ms is not None:
            end_ms = float(answer.done_ms)
        for piece in answer.pieces:
            begin_ms = max(float(piece.at_ms), free_ms)
            piece.begin_ms = begin_ms
            piece.keep_ms = max(0.0, min(piece.duration_ms, left_ms, end_ms - begin_ms))
            left_ms -= piece.keep_ms
            free_ms = begin_ms + piece.keep_ms


def placed_as_generated(call: Call) -> Iterator[tuple[Answer, Piece, float]]:
    """Where each piece of the answers lies when all that was generated is played to its end, one after the other."""
    free_ms = 0.0
    for answer in call.answers:
        for piece in answer.pieces:
            begin_ms = max(float(piece.at_ms), free_ms)
            free_ms = begin_ms + piece.duration_ms
            yield answer, piece, begin_ms
