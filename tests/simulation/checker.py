"""Holds a finished schedule to the promises: what clients saw, what the log acknowledged, and what the store holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from duplex_es.log.api import SessionRef
from duplex_es.log.keys import SessionKeys
from duplex_es.protocol import Frame, derive_event_id, encode_frame
from duplex_es.protocol.records import OutputRecord, SocketAttached, SocketDetached, unpack_input, unpack_output
from duplex_es.session.facts import unpack_facts
from duplex_es.session.state import Session
from duplex_es.session.step import reproject
from tests.support.ordering import ResponseOrderChecker

from .client import RATE_HZ, WELCOMES, Client
from .fleet import Acknowledged
from .node import Node
from .streams import Stream

DOUBT = "session.resync_required"
"""After a restart nobody knows whether something was lost: a client that resumes may be told so in vain."""
ENDINGS_AFTER_LOSS = ("session.resync_required", "session.expired", "session_resume", "invalid_resume_token")
"""What a client may be told once the store lost what it had acknowledged."""
LAST_WORD_S = 0.1
EXCUSED_AFTER_LOSS = ("LogCorrupt", "TailLost", "PositionGone", "PositionAhead")
_json = msgspec.json.Decoder().decode


@dataclass
class Stored:
    """One session as the store holds it at the end."""

    ref: SessionRef
    output: list[tuple[tuple[int, int], bytes]]
    input: list[tuple[tuple[int, int], bytes]]
    audio: dict[tuple[int, int], bytes]
    state: bytes | None

    @cached_property
    def records(self) -> list[tuple[tuple[int, int], OutputRecord]]:
        """Output without the records of claims."""
        return [(entry_id, unpack_output(body)) for entry_id, body in self.output if entry_id[1]]

    @cached_property
    def said(self) -> list[tuple[tuple[int, int], Any]]:
        """What was said, by input id."""
        return [(entry_id, unpack_input(body).said) for entry_id, body in self.input]


def stored(node: Node, session_id: str, incarnation: int) -> Stored:
    """Read a session past the log."""
    ref = SessionRef(session_id, incarnation)
    keys, data = SessionKeys.of(ref), node.store.data

    def entries(key: str) -> list[tuple[tuple[int, int], bytes]]:
        stream = data.get(key.encode())
        if not isinstance(stream, Stream):
            return []
        return [(entry_id, body[1]) for entry_id, body in zip(stream.ids, stream.bodies, strict=True)]

    head = data.get(keys.head.encode()) or {}
    return Stored(
        ref,
        entries(keys.output.records),
        entries(keys.input.records),
        dict(entries(keys.output.audio)),
        head.get(b"state"),
    )


def is_open(node: Node, client: Client) -> bool:
    """Whether the session of a client whose call is over still stands in the store."""
    if not client.session_id or not client.closed:
        return False
    return stored(node, client.session_id, client.incarnation).state not in (b"closed", None)


def check(node: Node, acknowledged: Acknowledged, client: Client, *, loses: bool, heals: bool = False) -> Iterator[str]:
    """Every broken promise about one client's call, in words.

    ``loses``: the store lost what it had acknowledged. ``heals``: whoever can write it again lives.
    """
    session = stored(node, client.session_id, client.incarnation)
    told = told_of(client, session)
    if not client.over:
        yield f"it does not settle: {client.standing}"
    excused = ENDINGS_AFTER_LOSS if loses else DOUBT if node.restarts else ()
    if told is not None and (heals or not told.startswith(excused)):
        yield f"told {told!r}; {client.standing}"
    yield from check_lines(client)
    if not client.session_id:
        return
    # What is lost after the call has ended, or while its last word is under way, is nobody's to write again.
    too_late = client.over_at_s <= node.lost_at_s + (LAST_WORD_S if client.closed else 0.0)
    yield from check_bodies(client, session, forgiving=told is not None or too_late)
    if not loses:
        yield from check_order(client)
        yield from check_acknowledged(acknowledged, session)
        yield from check_input(client, session)
        yield from check_output(client, session)
        if client.told_what_arrived:
            yield from check_said(client, session)
        if client.closed:
            yield from check_state(client, session)
    elif told is None and client.closed:
        yield from check_order(client)
        if not too_late:
            yield from check_output(client, session)


def told_of(client: Client, session: Stored) -> str | None:
    """The ending that a client did not ask for.

    One that asked to close and hears that its session is no more got what it asked for only if the session was closed:
    the store still knows.
    """
    if client.closed_unheard and session.state != b"closed":
        return "session_resume_expired"
    return client.told


# -- what the client saw -----------------------------------------------------------------------------------------------


def check_lines(client: Client) -> Iterator[str]:
    """On every socket seqs go up by one from its cursor, also on those that the client had left."""
    for number, line in enumerate([*client.attempts, *client.lines]):
        expected = line.after_seq + 1
        for seq, _, wire in line.frames:
            if seq is None:
                continue
            if seq != expected:
                where = f"socket {number} ({line.gateway}) after {line.after_seq}"
                yield f"{where}: {wire['type']} is {seq}, not {expected}"
                break
            expected += 1


def check_order(client: Client) -> Iterator[str]:
    """The order of the API, and answers that say what was asked."""
    order = ResponseOrderChecker()
    try:
        for line in client.lines:
            for _, _, wire in line.taken:
                order.take(wire)
        if (
            client.closed
            and client.told is None
            and any(w["type"] == "session.closed" for _, _, w in client.line.taken)
        ):
            order.ended()
    except AssertionError as broken:
        yield f"order: {str(broken)[:300]}"
    for answer in order.answers.values():
        said = answer.transcript.strip()
        if said and answer.status == "completed" and said not in client.asked:
            yield f"an answer that nobody asked for: {said!r}"


def check_bodies(client: Client, session: Stored, *, forgiving: bool) -> Iterator[str]:
    """No seq has two bodies, whoever was shown it, and all of it is in the log."""
    shown: dict[int, str] = {}
    for line in [*client.lines, *client.attempts]:
        for seq, text, wire in line.frames:
            if seq is None or wire.get("session_id", client.session_id) != client.session_id:
                continue
            if line in client.attempts and line.after_seq == 0:
                continue  # an opening that came to nothing was another session's
            if shown.setdefault(seq, text) != text and _json(shown[seq]) != _json(text):
                yield f"seq {seq} was shown twice: {shown[seq][:160]} / {text[:160]}"
    if forgiving:
        # Whatever became of the session: what was advertised as durable is there.
        shown = {seq: text for seq, text in shown.items() if seq <= client.durable_seq}
        if not session.output:
            return  # a store that was emptied promises nothing
    sounds = session.audio
    for (entry_id, record), (_, body) in zip(
        session.records, (one for one in session.output if one[0][1]), strict=True
    ):
        text = shown.pop(entry_id[1], None)
        if text is None:
            continue
        frame = unpack_output(body, sounds[entry_id]).frame if entry_id in sounds else record.frame
        event_id = derive_event_id(session.ref.session_id, session.ref.incarnation, entry_id[1])
        written = encode_frame(frame, event_id=event_id, seq=entry_id[1])  # type: ignore[arg-type]
        if text not in (written, written if isinstance(written, str) else written.decode()):
            yield f"seq {entry_id[1]} is shown {text[:160]}, written {written[:160]!r}"
    if shown:
        yield f"shown and not in the log: {sorted(shown)}"


# -- what the log promised ---------------------------------------------------------------------------------------------


def check_acknowledged(acknowledged: Acknowledged, session: Stored) -> Iterator[str]:
    """Every record whose append returned is there, under its id, with its bytes."""
    ref = (session.ref.session_id, session.ref.incarnation)
    for name, promised, there in (
        ("output", acknowledged.output.get(ref, {}), dict(session.output)),
        ("input", acknowledged.input.get(ref, {}), dict(session.input)),
    ):
        for entry_id, body in promised.items():
            if there.get(entry_id) != body:
                yield f"{name} {entry_id} was acknowledged and is {'another' if entry_id in there else 'not there'}"


def check_input(client: Client, session: Stored) -> Iterator[str]:
    """One gateway writes at a time, no generation has a hole, and what a socket said is there in order, each once."""
    last = (0, 0)
    said: dict[int, list[str]] = {}
    for entry_id, command in session.said:
        follows = entry_id == (last[0], last[1] + 1) or (entry_id[0] > last[0] and entry_id[1] == 0)
        if not follows:
            yield f"input {entry_id} follows {last}"
        last = entry_id
        if isinstance(command, SocketAttached):
            # The record is made before its number is known; the number is never below what it says.
            if command.generation > entry_id[0]:
                yield f"input {entry_id} is the attachment of generation {command.generation}"
        elif not isinstance(command, SocketDetached) and isinstance(getattr(command, "event_id", None), str):
            said.setdefault(entry_id[0], []).append(command.event_id)
    compared: set[int] = set()
    for line in client.lines:
        welcome = next((w for _, _, w in line.frames if w["type"] in WELCOMES), {})
        generation = welcome.get("attachment_generation")
        # A session that is over is shown to the end under the generation it had.
        if generation is not None and generation not in compared:
            compared.add(generation)
            yield from _compare_said(client, said.get(generation, []), line.sent, generation)


def check_said(client: Client, session: Stored) -> Iterator[str]:
    """Whatever happened to its sockets: all that the client said is there, once, in the order in which it was said."""
    ids = [event_id for _, said in session.said if isinstance(event_id := getattr(said, "event_id", None), str)]
    written, said = [event_id for event_id in ids if event_id in client.said], list(client.said)
    if written != said[: len(written)]:
        at = next(n for n, (one, other) in enumerate(zip([*written, ""], [*said, ""], strict=False)) if one != other)
        yield f"of {said[max(0, at - 2) : at + 4]} was written {written[max(0, at - 2) : at + 4]}"
    elif client.closed and not any('"session.close"' in client.said[event_id] for event_id in written):
        yield f"closed before it was asked to: {written[-1:]} of {said[-3:]}"


def _compare_said(client: Client, written: list[str], sent: list[str], generation: int) -> Iterator[str]:
    places = iter(sent)
    skipped = [[one for one in _until(places, event_id)] for event_id in written]
    if len(set(written)) != len(written):
        yield f"generation {generation} said something twice: {written}"
    # Acknowledgements are the gateway's own business; all else up to the last that arrived must be there.
    missing = [one for part in skipped for one in part if one in client.samples]
    if missing:
        yield f"generation {generation} lost {missing} before {written[-1]}"
    if any(event_id not in sent for event_id in written):
        yield f"generation {generation} holds what its socket never said: {written} / {sent}"


def _until(places: Iterator[str], wanted: str) -> Iterator[str]:
    for place in places:
        if place == wanted:
            return
        yield place


def check_output(client: Client, session: Stored) -> Iterator[str]:
    """Seqs without a hole, each under the newest claim, decisions whole, the input position never going back."""
    claims = {generation for (generation, number), _ in session.output if number == 0}
    expected, fence, more = 1, 0, 0
    consumed = (0, 0)
    for (generation, number), record in session.records:
        if number != expected:
            yield f"output {generation}-{number} is not seq {expected}"
            return
        if generation not in claims:
            yield f"output {generation}-{number} was written without a claim"
        if generation < fence:
            yield f"output {generation}-{number} is older than claim {fence}"
        if more and (isinstance(record.facts, list) or record.more != more - 1):
            yield f"output {generation}-{number} cuts a decision of which {more} frames were missing"
        expected, fence, more = number + 1, generation, record.more
        if isinstance(record.consumed, str):
            major, _, minor = record.consumed.partition("-")
            if (int(major), int(minor)) < consumed:
                yield f"output {generation}-{number} goes back from input {consumed} to {record.consumed}"
            consumed = int(major), int(minor)
    if client.closed and client.told is None and session.state != b"closed":
        yield f"the session was closed and its head is {session.state!r}"


def check_state(client: Client, session: Stored) -> Iterator[str]:
    """The facts make the stored frames again, and what they say was heard is what was said: every byte once."""
    state, consumed = Session(), "0-0"
    frames: list[Frame] = []
    for (generation, number), record in session.records:
        if isinstance(record.consumed, str):
            consumed = record.consumed
        if isinstance(record.facts, list):
            if frames:
                yield f"the decision before {generation}-{number} makes {len(frames)} frames too many"
            state, frames = reproject(unpack_facts(record.facts), state)
        if not frames:
            yield f"output {generation}-{number} is a frame that its decision does not make"
            return
        made = frames.pop(0)
        if not isinstance(record.frame, Frame) or _written(made) != _written(record.frame):
            yield f"output {generation}-{number} is {record.frame!r}, its facts make {made!r}"[:600]
            return
    if state.state != "closed":
        return
    major, _, minor = consumed.partition("-")
    heard = sum(
        client.samples.get(getattr(said, "event_id", ""), 0)
        for entry_id, said in session.said
        if entry_id <= (int(major), int(minor))
    )
    if abs(state.input.clock.ms - heard * 1000 / RATE_HZ) > 2:
        yield f"the session heard {state.input.clock.ms} ms of {heard * 1000 / RATE_HZ:.1f} ms"


def _written(frame: Frame) -> object:
    """A frame as it goes out, but for its name and number."""
    return encode_frame(frame, event_id="", seq=0)
