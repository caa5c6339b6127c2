"""Hearing again: a successor takes in the caller's unfinished turn from the log before anything new."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from duplex_es.log.api import Entry, EntryId, SessionLog, SessionRef
from duplex_es.log.errors import PositionGone
from duplex_es.protocol import AppendAudio, UpdateSession
from duplex_es.protocol.records import RecordUnreadable, unpack_input
from duplex_es.session.state import Clock, Session, replace

from .listener import Heard, hear
from .utterance import Committed, Place, Unsettled

FAR_MS = 10_000
"""Input so long before what is wanted is not read through: whoever says nothing for an hour leaves no place near by."""
USUAL_APPEND_MS = 20


class Again(NamedTuple):
    """Sound of an earlier append, ``end_ms`` the session's input clock after it, ``is_speech`` the client's verdict.

    It is what follows of the append ``entry`` after its first ``skipped`` samples.
    """

    heard: Heard
    end_ms: int
    is_speech: bool | None
    entry: EntryId
    skipped: int


async def unsettled_sound(
    log: SessionLog, ref: SessionRef, unsettled: Unsettled, session: Session, until: EntryId
) -> AsyncIterator[Again]:
    """The sound of ``unsettled``, in order, up to and with entry ``until``; what has expired is left out.

    ``session`` is the state there. Raises: SessionUnknown, LogUnavailable.
    """
    place = unsettled.place
    if unsettled.from_ms - place.clock.ms > FAR_MS:
        place = await _nearer(log, ref, unsettled, session, until)
    after, clock, settings = place.after, place.clock, place.settings
    while after < until:
        try:
            entries = await log.read_input(ref, after)
        except PositionGone:
            place = await _nearer(log, ref, unsettled, session, until)
            after, clock = place.after, place.clock
            entries = await log.read_input(ref, after)
        if not entries:
            return
        for entry in entries:
            after = entry.id
            if after > until:
                return
            said = _said(entry)
            if isinstance(said, UpdateSession):
                settings = session.settings  # Whatever was between these and the last is nobody's turn.
            heard = hear(settings, said) if isinstance(said, AppendAudio) else None
            if heard is None or not isinstance(said, AppendAudio):
                continue
            clock = clock.after(heard.samples.size, heard.rate_hz)
            surplus_ms = clock.ms - unsettled.from_ms
            if surplus_ms <= 0:
                continue
            wanted = min(heard.samples.size, -(-surplus_ms * heard.rate_hz // 1000))
            sound = Heard(heard.samples[heard.samples.size - wanted :], heard.rate_hz, heard.rms, heard.frames)
            yield Again(sound, clock.ms, said.speech_verdict, entry.id, heard.samples.size - wanted)


async def committed_sound(
    log: SessionLog, ref: SessionRef, committed: Committed, session: Session
) -> AsyncIterator[Again]:
    """The sound of a turn that is committed, in order; what has expired is left out. Raises as ``unsettled_sound``."""
    turn = committed.turn
    clock = Clock(base_us=turn.until_ms * 1000)
    then = replace(session, input=replace(session.input, clock=clock))
    async for again in unsettled_sound(log, ref, committed.unsettled, then, turn.until):
        yield again


async def _nearer(log: SessionLog, ref: SessionRef, unsettled: Unsettled, session: Session, until: EntryId) -> Place:
    """A place not long before the sound, found from its end; the earliest there is where its beginning is gone."""
    needed_us = (session.input.clock.ms - unsettled.from_ms) * 1000
    count = needed_us // (USUAL_APPEND_MS * 1000) + 1
    while True:
        found = await log.read_input_back(ref, EntryId(until.generation, until.number + 1), limit=count)
        if not found:
            return Place(until, session.input.clock, unsettled.place.settings)
        after = max(unsettled.place.after, found[-1].id)
        heard_us = await _heard_us(log, ref, after, until, session)
        if heard_us > needed_us or len(found) < count or after == unsettled.place.after:
            base_us = max(0, session.input.clock.ms * 1000 - heard_us)
            return Place(after, Clock(base_us=base_us), unsettled.place.settings)
        count *= 4


async def _heard_us(log: SessionLog, ref: SessionRef, after: EntryId, until: EntryId, session: Session) -> int:
    """How long the sound after one entry lasts, up to and with another."""
    clock = Clock()
    while after < until and (entries := await log.read_input(ref, after)):
        for entry in entries:
            after = entry.id
            said = _said(entry)
            heard = hear(session.settings, said) if after <= until and isinstance(said, AppendAudio) else None
            if heard is not None:
                clock = clock.after(heard.samples.size, heard.rate_hz)
    return clock.base_us + clock.samples * 1_000_000 // clock.rate_hz


def _said(entry: Entry) -> object:
    """What an entry says, ``None`` where it cannot be read."""
    try:
        return unpack_input(entry.body, entry.audio).said
    except RecordUnreadable:
        return None
