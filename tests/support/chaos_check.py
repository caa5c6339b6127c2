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
from tests.support.chaos_sound import check_sound, echoed, recited
from tests.support.chaos_speaker import Speaker, check_spoken
from tests.support.chaos_talker import Heard, Line, Talker
from tests.support.ordering import check_order

PAGE = 500
NOT_FROM_THERE = ("session.resync_required", "session_resume_conflict")
"""What a client hears whose position is in a part that the store has lost: written again since, or not there yet."""
RECITAL_MS = 1_600
"""How long an answer sounds that does not depend on the question."""


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
    if isinstance(talker, Speaker):
        verdict.faults += check_spoken(everything, talker.sentences) if talker.told is None else []
    else:
        _check_text_answers(verdict, talker, everything)
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


def _check_text_answers(verdict: Verdict, talker: Talker, wires: Sequence[dict]) -> None:
    check_words(verdict, talker, wires)
    verdict.faults += check_sound(wires, (lambda text: recited(RECITAL_MS)) if talker.answer else echoed)


def check_words(verdict: Verdict, talker: Talker, wires: Sequence[dict]) -> None:
    """An answer says what was asked, whole if it completed, and every question got one answer, in their order.

    A caller that was told an ending may have questions without an answer; one that had to ask again without knowing
    whether that was needed may have answers too many.
    """
    answers: list[str] = []
    texts: dict[str, str] = {}
    for wire in wires:
        if wire["type"] == "response.output_audio_transcript.done":
            texts[wire["response_id"]] = wire["transcript"].strip()
        elif wire["type"] == "response.done":
            response = wire["response"]
            asked = [talker.answer] if talker.answer else [text.strip() for text in talker.asked]
            text = texts.get(response["id"], "")
            whole = response["status"] == "completed"
            fits = next((one for one in asked if (one == text if whole else one.startswith(text))), None)
            if fits is None:
                verdict.faults.append(f"an answer ({response['status']}) that nobody asked for: {text[:60]!r}")
            answers.append(text)
    if talker.asked_again or talker.told is not None or verdict.faults:
        return
    if len(answers) != len(talker.asked):
        verdict.faults.append(f"{len(answers)} answers to {len(talker.asked)} questions")
    elif not talker.answer and any(
        not question.strip().startswith(text) for question, text in zip(talker.asked, answers, strict=True)
    ):
        verdict.faults.append("the answers are not in the order of the questions")


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
    heard = [frame for line in talker.lines for frame in line.frames]
    compare_bodies(verdict, ref, output, heard, durable_seq=talker.durable_seq)
    check_input(verdict, entries)
    if talker.told is None and output and output[-1].id.number < talker.acknowledged:
        verdict.faults.append(f"the log ends at {output[-1].id.number}, {talker.acknowledged} was acknowledged")
    if talker.closed:
        _check_consumed(verdict, output, entries)


async def _all_input(log: SessionLog, ref: SessionRef) -> list[Entry]:
    entries: list[Entry] = []
    while more := await log.read_input(ref, entries[-1].id if entries else START, limit=PAGE, audio=False):
        entries += more
    return entries


def compare_bodies(
    verdict: Verdict, ref: SessionRef, output: Sequence[Entry], heard: Sequence[Heard], *, durable_seq: int = 0
) -> None:
    """Every frame that any socket was ever sent is the log's entry of that seq, byte for byte.

    A client that was told that the store lost its end may have heard what is no more, but not up to ``durable_seq``,
    which it was promised.
    """
    texts: dict[int, str] = {}
    for entry in output:
        frame = unpack_output(entry.body, entry.audio).frame
        event_id = derive_event_id(ref.session_id, ref.incarnation, entry.id.number)
        texts[entry.id.number] = encode_frame(frame, event_id=event_id, seq=entry.id.number)  # type: ignore[arg-type]
    for one in heard:
        if one.seq is None:
            continue
        promised = one.seq <= durable_seq
        if not promised and verdict.told is not None and verdict.told.startswith(NOT_FROM_THERE):
            continue  # the client was told not to go on from what it has
        if not promised and one.seq not in texts and verdict.told is not None and one.seq > len(texts):
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
        if isinstance(said, SocketAttached) and said.generation > entry.id.generation:
            # The record was packed before the store gave the number, which may be higher after a restart.
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
