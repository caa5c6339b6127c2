"""Decides from what the clients kept, and from the log afterwards, whether every promise held through a fault."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from duplex_es.log.api import START, Entry, EntryId, SessionLog, SessionRef
from duplex_es.log.errors import LogError
from duplex_es.protocol import derive_event_id, encode_frame
from duplex_es.protocol.records import SocketAttached, unpack_input, unpack_output
from tests.support.calls import all_output, check_log
from tests.support.chaos_talker import Heard, Line, Talker
from tests.support.ordering import check_order

PAGE = 500


@dataclass(slots=True)
class Verdict:
    """What was found of one session. ``faults`` are broken promises in words; empty means that all held."""

    session_id: str
    frames: int = 0
    lost: int = 0
    repeated: int = 0
    silence_s: float = 0.0
    told: str | None = None
    failed_answers: int = 0
    faults: list[str] = field(default_factory=list)


async def judge(log: SessionLog, talker: Talker, fault_at_s: float) -> Verdict:
    """Hold one call to the invariants; ``fault_at_s`` is when the fault began (``time.monotonic``)."""
    verdict = Verdict(talker.session_id, told=talker.told)
    heard = [frame for line in talker.lines for frame in line.taken if frame.seq is not None]
    count_seqs(verdict, [frame.seq for frame in heard if frame.seq is not None])
    verdict.silence_s = longest_silence(heard, fault_at_s)
    verdict.failed_answers = talker.statuses.count("failed")
    for number, line in enumerate(talker.lines):
        check_line(verdict, number, line)
    everything = [frame.wire for line in talker.lines for frame in line.taken]
    _hold(verdict, "order", lambda: check_order(everything))
    check_words(verdict, talker, everything)
    if talker.session_id:
        await _compare_with_log(log, talker, verdict)
    return verdict


def count_seqs(verdict: Verdict, seqs: Sequence[int]) -> None:
    """Count what is missing and what came twice; seqs begin at 1 and go up by one."""
    verdict.frames = len(seqs)
    verdict.repeated = len(seqs) - len(set(seqs))
    verdict.lost = (max(seqs) - len(set(seqs))) if seqs else 0
    if verdict.repeated or verdict.lost:
        verdict.faults.append(f"{verdict.lost} frames lost, {verdict.repeated} repeated")
    elif list(seqs) != sorted(seqs):
        verdict.faults.append("frames out of order")


def check_line(verdict: Verdict, number: int, line: Line) -> None:
    """One socket: seqs from its cursor on, one by one, also after the client turned away from it."""
    seqs = [frame.seq for frame in line.frames if frame.seq is not None]
    expected = list(range(line.after_seq + 1, line.after_seq + 1 + len(seqs)))
    if seqs != expected:
        verdict.faults.append(f"socket {number} after {line.after_seq} heard {_brief(seqs)}")


def check_words(verdict: Verdict, talker: Talker, wires: Sequence[dict]) -> None:
    """An answer that completed says exactly what was asked: nothing of a question was lost on the way."""
    asked = {text.strip() for text in talker.asked}
    for wire in wires:
        if wire["type"] == "response.output_audio_transcript.done" and wire["transcript"].strip() not in asked:
            cut = any(text.startswith(wire["transcript"].strip()) for text in asked)
            if not cut:
                verdict.faults.append(f"an answer that nobody asked for: {wire['transcript'][:60]!r}")


def longest_silence(heard: Sequence[Heard], fault_at_s: float) -> float:
    """The longest time without a new frame that ended after the fault began."""
    times = [frame.at_s for frame in heard]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times) if later > fault_at_s]
    return max(gaps, default=0.0)


# -- the log -------------------------------------------------------------------------------------------------------


async def _compare_with_log(log: SessionLog, talker: Talker, verdict: Verdict) -> None:
    ref = SessionRef(talker.session_id, talker.incarnation)
    try:
        output, entries = await all_output(log, ref), await _all_input(log, ref)
    except LogError as error:
        if talker.told is None:
            verdict.faults.append(f"the log cannot be read: {error!r}")
        return
    try:
        await check_log(log, ref, ended=talker.closed)
    except AssertionError as broken:
        verdict.faults.append(f"log: {broken}")
    compare_bodies(verdict, ref, output, [frame for line in talker.lines for frame in line.frames])
    check_input(verdict, entries)
    if output and output[-1].id.number < talker.acknowledged:
        verdict.faults.append(f"the log ends at {output[-1].id.number}, {talker.acknowledged} was acknowledged")
    if talker.closed:
        _check_consumed(verdict, output, entries)


async def _all_input(log: SessionLog, ref: SessionRef) -> list[Entry]:
    entries: list[Entry] = []
    while more := await log.read_input(ref, entries[-1].id if entries else START, limit=PAGE, audio=False):
        entries += more
    return entries


def compare_bodies(verdict: Verdict, ref: SessionRef, output: Sequence[Entry], heard: Sequence[Heard]) -> None:
    """Every frame that any socket was ever sent is the log's entry of that seq, byte for byte."""
    texts: dict[int, str] = {}
    for entry in output:
        frame = unpack_output(entry.body, entry.audio).frame
        event_id = derive_event_id(ref.session_id, ref.incarnation, entry.id.number)
        texts[entry.id.number] = encode_frame(frame, event_id=event_id, seq=entry.id.number)  # type: ignore[arg-type]
    for one in heard:
        if one.seq is None:
            continue
        if verdict.told is not None and verdict.told.startswith("session.resync_required"):
            continue  # the client was told not to go on from what it has
        if one.seq not in texts and verdict.told is not None and one.seq > len(texts):
            continue  # the store lost its end, nobody could heal it, and the client was told that
        if one.seq not in texts:
            verdict.faults.append(f"seq {one.seq} was shown and is not in the log")
        elif one.text != texts[one.seq] and json.loads(one.text) != json.loads(texts[one.seq]):
            verdict.faults.append(f"seq {one.seq} has two bodies: {one.text[:150]} / {texts[one.seq][:150]}")


def check_input(verdict: Verdict, entries: Sequence[Entry]) -> None:
    """One gateway writes at a time: generations go up, each begins with its attachment and has no hole."""
    last = EntryId(0, 0)
    for entry in entries:
        if entry.id.generation == last.generation:
            follows = entry.id.number == last.number + 1
        else:
            follows = entry.id.generation > last.generation and entry.id.number == 0
        if not follows:
            verdict.faults.append(f"input {entry.id} follows {last}")
        said = unpack_input(entry.body).said
        if isinstance(said, SocketAttached) and said.generation != entry.id.generation:
            verdict.faults.append(f"input {entry.id} is the attachment of generation {said.generation}")
        last = entry.id


def _check_consumed(verdict: Verdict, output: Sequence[Entry], entries: Sequence[Entry]) -> None:
    consumed = unpack_output(output[-1].body).consumed if output else ""
    closing = [entry.id for entry in entries if unpack_input(entry.body).said.__class__.__name__ == "CloseSession"]
    if closing and EntryId.parse(str(consumed)) < closing[0]:
        verdict.faults.append(f"closed at input {consumed}, the client asked for it at {closing[0]}")


def _hold(verdict: Verdict, what: str, check: object) -> None:
    try:
        check()  # type: ignore[operator]
    except AssertionError as broken:
        verdict.faults.append(f"{what}: {str(broken)[:300]}")


def _brief(seqs: Sequence[int | None]) -> str:
    return str(list(seqs)) if len(seqs) <= 12 else f"{list(seqs)[:6]} … {list(seqs)[-6:]}"
