"""Hearing again: a successor takes in the caller's unfinished turn from the log before anything new."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from duplex_es.log.api import EntryId, SessionLog, SessionRef
from duplex_es.protocol import AppendAudio, UpdateSession
from duplex_es.protocol.records import RecordUnreadable, unpack_input
from duplex_es.session.state import Session

from .listener import Heard, hear
from .utterance import Unsettled


class Again(NamedTuple):
    """Sound of an earlier append, ``end_ms`` the session's input clock after it, ``is_speech`` the client's verdict."""

    heard: Heard
    end_ms: int
    is_speech: bool | None


async def unsettled_sound(
    log: SessionLog, ref: SessionRef, unsettled: Unsettled, session: Session, until: EntryId
) -> AsyncIterator[Again]:
    """The sound of ``unsettled``, in order, up to and with entry ``until``; what has expired is left out.

    ``session`` is the state there. Raises: SessionUnknown, LogUnavailable.
    """
    after, clock, settings = unsettled.place.after, unsettled.place.clock, unsettled.place.settings
    while after < until and (entries := await log.read_input(ref, after)):
        for entry in entries:
            after = entry.id
            if after > until:
                return
            try:
                said = unpack_input(entry.body, entry.audio).said
            except RecordUnreadable:
                continue
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
            sound = Heard(heard.samples[heard.samples.size - wanted :], heard.rate_hz, heard.rms)
            yield Again(sound, clock.ms, said.speech_verdict)
