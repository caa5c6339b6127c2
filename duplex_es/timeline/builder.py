"""Makes the timeline document of a call out of its records: pure, and again and again as a call goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..log.api import START, Entry, EntryId, Head
from ..reading.calls import Answer, Call, CallReader, Piece, placed_as_generated
from ..reading.records import OutputLine, input_line, output_line
from ..reading.source import Source
from ..reading.stats import stats_of
from .document import CallerSound, Reply, Run, Timeline, Written
from .marks import MarkReader

SAMPLE_MS = 200
"""Places of the log are kept so often, that one can be found by its time."""
TOUCHING_MS = 1.0


class TimelineBuilder:
    """Reads one session as far as a head says, and gives its document. Read again, it takes only what is new."""

    def __init__(self) -> None:
        self._calls = CallReader()
        self._marks = MarkReader()
        self._refs: dict[str, list[str]] = {}
        self._items: dict[str, str] = {}
        self._written: list[Written] = []
        self._said: list[tuple[int, str]] = []
        self._acknowledged: list[tuple[int, int]] = []
        self._snapshots: list[int] = []
        self._consumed = "0-0"
        self.seq = 0
        self.input = START

    async def read(self, source: Source, head: Head) -> None:
        """Take all that ``source`` has up to ``head`` and that was not taken yet. Raises: ReadingError."""
        async for entry in source.output(head, self.seq):
            self.take_output(entry)
        async for entry in source.input(head, self.input):
            self.take_input(entry)
        self._snapshots = [seq for seq, _ in await source.snapshots(head)]

    def take_output(self, entry: Entry) -> None:
        """The next entry of ``output``."""
        line = output_line(entry)
        self.seq = line.seq
        self._calls.take_output(line, line.audio_bytes)
        self._marks.take_output(line)
        self._take_response(line)
        self._consumed = line.consumed or self._consumed
        if not self._written or line.at_ms - self._written[-1].at >= SAMPLE_MS:
            self._written.append(Written(line.at_ms, line.seq, self._consumed))

    def take_input(self, entry: Entry) -> None:
        """The next entry of ``input``."""
        line = input_line(entry)
        self.input = line.id
        self._calls.take_input(line, line.audio_bytes)
        self._marks.take_input(line)
        if line.type == "session.event_ack" and isinstance(seq := line.said.get("server_event_seq"), int):
            self._acknowledged.append((line.at_ms, seq))
        if not self._said or line.at_ms - self._said[-1][0] >= SAMPLE_MS:
            self._said.append((line.at_ms, str(line.id)))

    def _take_response(self, line: OutputLine) -> None:
        frame = line.frame or {}
        match frame.get("type"):
            case "response.created":
                self._refs[str((frame.get("response") or {}).get("id"))] = [f"<{line.id}", ""]
            case "response.done":
                self._refs.setdefault(str((frame.get("response") or {}).get("id")), ["", ""])[1] = f"<{line.id}"

    def call(self, head: Head) -> Call:
        """The call as it is read so far."""
        return self._calls.call(head)

    def document(self, head: Head, call: Call | None = None) -> Timeline:
        """The document of what was read so far; ``call`` is that, if it is at hand."""
        call = self.call(head) if call is None else call
        since = call.start_ms
        return Timeline(
            session=head.ref.session_id,
            incarnation=head.ref.incarnation,
            model=head.model,
            state=head.state,
            closed=call.closed,
            position=position_of(head),
            start_ms=since,
            length_ms=call.length_ms,
            first_seq=head.first_seq,
            last_seq=self.seq,
            last_input=str(self.input),
            stats=stats_of(call),
            sound={"caller": rate_of(call.heard), "assistant": rate_of(_spoken(call))},
            caller=list(caller_sound(call.heard)),
            marks=self._marks.marks(call),
            replies=self._replies(call),
            reports=self._marks.reports(call),
            written=[Written(max(0, one.at - since), one.seq, one.consumed) for one in self._written],
            said=[(max(0, at - since), where) for at, where in self._said],
            acknowledged=[(max(0, at - since), seq) for at, seq in self._acknowledged],
            snapshots=self._snapshots,
        )

    def _replies(self, call: Call) -> list[Reply]:
        places: dict[str, list[tuple[Piece, float]]] = {}
        for answer, piece, begin_ms in placed_as_generated(call):
            places.setdefault(answer.response_id, []).append((piece, begin_ms))
        return [self._reply(answer, places.get(answer.response_id, ())) for answer in call.answers]

    def _reply(self, answer: Answer, places: Sequence[tuple[Piece, float]]) -> Reply:
        ref, end_ref = self._refs.get(answer.response_id, ("", ""))
        pieces = answer.pieces
        return Reply(
            response=answer.response_id,
            item=answer.item_id,
            created=answer.created_ms,
            done=answer.done_ms,
            status=answer.status,
            reason=answer.reason,
            asked=answer.asked_ms,
            asked_text=answer.asked_text,
            text=answer.text,
            latency_ms=answer.latency_ms,
            made_from=answer.sound_ms,
            made_to=pieces[-1].at_ms if pieces else None,
            sent=round(pieces[0].begin_ms) if pieces else None,
            generated_ms=answer.generated_ms,
            heard_ms=round(answer.heard_ms),
            runs=list(runs_of(places)),
            words=_words(answer),
            ref=ref,
            end_ref=end_ref,
        )


def _spoken(call: Call) -> Iterator[Piece]:
    return (piece for answer in call.answers for piece in answer.pieces)


def rate_of(pieces: Any) -> int:
    """The highest rate that occurs, in hertz; 16,000 without any sound."""
    return max((piece.rate_hz for piece in pieces), default=16_000)


def position_of(head: Head) -> str:
    """Where the session stands, as one short text that is another as soon as anything is new."""
    return f"{head.output}.{head.input}.{head.state}.{head.generation}{'+' if head.attached else '-'}{head.fence}"


def caller_sound(pieces: Sequence[Piece]) -> Iterator[CallerSound]:
    """Pieces without a gap as one."""
    begin, end, first, last, count = 0.0, -TOUCHING_MS, EntryId(0, 0), EntryId(0, 0), 0
    for piece in pieces:
        if count and piece.begin_ms - end >= TOUCHING_MS:
            yield CallerSound(round(begin), round(end), f">{first}", f">{last}", count)
            count = 0
        if not count:
            begin, first = piece.begin_ms, piece.id
        end, last, count = piece.begin_ms + piece.duration_ms, piece.id, count + 1
    if count:
        yield CallerSound(round(begin), round(end), f">{first}", f">{last}", count)


def runs_of(places: Sequence[tuple[Piece, float]]) -> Iterator[Run]:
    """The sound of one answer in as few runs as its gaps allow; what was heard ends a run."""
    offset = start = 0.0
    heard: float | None = None
    heard_end: float | None = None
    generated = generated_end = 0.0
    open_run = False
    for piece, begin_ms in places:
        for length, at in _halves(piece):
            joins = (
                open_run
                and abs(begin_ms - generated_end) < TOUCHING_MS
                and (at is None) == (heard is None)
                and (at is None or heard_end is None or abs(at - heard_end) < TOUCHING_MS)
            )
            if not joins:
                if open_run:
                    yield _run(start, offset, heard, generated)
                start, heard, generated, open_run = offset, at, begin_ms, True
            offset += length
            begin_ms += length
            generated_end, heard_end = begin_ms, None if at is None else at + length
    if open_run:
        yield _run(start, offset, heard, generated)


def _halves(piece: Piece) -> Iterator[tuple[float, float | None]]:
    """The part of a piece that was heard, with its place, and the part that was not."""
    if piece.keep_ms > 0:
        yield piece.keep_ms, piece.begin_ms
    if piece.duration_ms - piece.keep_ms > 0:
        yield piece.duration_ms - piece.keep_ms, None


def _run(start: float, end: float, heard: float | None, generated: float) -> Run:
    return Run(round(start), round(end - start), None if heard is None else round(heard), round(generated))


def _words(answer: Answer) -> list[tuple[int, str]]:
    """Words with their offsets; of an answer without sound from its beginning."""
    since = 0 if answer.pieces else answer.created_ms
    return [(round(at - since), text) for at, text in answer.words]
