"""Where the audio that a model was fed lies in the log, and how exactly that audio is had again.

A model names places in its recipes as text; what the text says is known here only. What a resampler gives depends on
where it began, so a place counts from the append that the resampler began with; without one, from its own append.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from duplex_es.log.api import EntryId, SessionLog, SessionRef
from duplex_es.log.errors import PositionGone
from duplex_es.model import Sound
from duplex_es.protocol import AppendAudio
from duplex_es.protocol.records import RecordUnreadable, unpack_input
from duplex_es.session.state import Settings

from .listener import Heard, Listener, hear

SAMPLE_BYTES = 4


class Place(NamedTuple):
    """Where a piece begins: ``samples`` at the model's rate after the append ``entry``, less its first ``skipped``.

    ``until`` is the input that ended the turn: the resampler gave out all it held there.
    """

    entry: EntryId
    skipped: int = 0
    samples: int = 0
    until: EntryId | None = None

    def __str__(self) -> str:
        return f"{self.entry}/{self.skipped}/{self.samples}/{self.until or ''}"

    @classmethod
    def read(cls, text: str) -> Place | None:
        """The place that ``str`` made ``text`` of; ``None`` for any other text."""
        try:
            entry, skipped, samples, until = text.split("/")
            return cls(EntryId.parse(entry), int(skipped), int(samples), EntryId.parse(until) if until else None)
        except ValueError:
            return None


class Tracker:
    """One session's ear, and where in the log what comes out of it lies."""

    def __init__(self, model_rate_hz: int) -> None:
        self._ear = Listener(model_rate_hz)
        self._begin: Place | None = None
        self._samples = 0
        self._entry: EntryId | None = None
        self._taken = 0

    def hear(self, heard: Heard, entry: EntryId | None, skipped: int = 0) -> tuple[bytes, str]:
        """An append, or what follows of one, as float32 at the model's rate, and its place.

        ``entry`` is its input, ``None`` when it is not an append of its own; ``skipped`` samples of it are left out.
        """
        if entry is None or entry != self._entry:
            self._entry, self._taken = entry, skipped
        if self._ear.begins_anew(heard):
            self._begin = None if entry is None else Place(entry, self._taken)
            self._samples = 0
        self._taken += heard.samples.size
        return self._counted(self._ear.at_model_rate(heard), None)

    def rest(self, until: EntryId) -> tuple[bytes, str]:
        """What is still held back, and its place: the turn ends with the input ``until``."""
        return self._counted(self._ear.rest(), until)

    def reset(self) -> None:
        """Forget what is still inside."""
        self._ear.reset()

    def _counted(self, pcm: bytes, until: EntryId | None) -> tuple[bytes, str]:
        before, self._samples = self._samples, self._samples + len(pcm) // SAMPLE_BYTES
        return pcm, "" if self._begin is None else str(self._begin._replace(samples=before, until=until))


async def sound_at(
    log: SessionLog, ref: SessionRef, sound: Sound, settings: Settings, consumed: EntryId, model_rate_hz: int
) -> bytes:
    """``sound`` as the model was fed it: float32 little-endian. Less, or other sound, where the log has dropped some.

    ``consumed`` is the last input that was taken in. Raises: SessionUnknown, LogUnavailable.
    """
    first, last = Place.read(sound.first), Place.read(sound.last)
    if first is None or last is None:
        return b""
    start = (first.samples + sound.offset) * SAMPLE_BYTES
    end = start + sound.samples * SAMPLE_BYTES
    ear, pcm = Listener(model_rate_hz), bytearray()
    async for heard in _appends(log, ref, first, settings, last.until or consumed):
        pcm += ear.at_model_rate(heard)
        if len(pcm) >= end:
            break
    else:
        pcm += ear.rest()
    return bytes(pcm[start:end])


async def _appends(
    log: SessionLog, ref: SessionRef, first: Place, settings: Settings, until: EntryId
) -> AsyncIterator[Heard]:
    """The appends from ``first`` on, up to and with entry ``until``."""
    after, skipped = EntryId(first.entry.generation, first.entry.number - 1), first.skipped
    while after < until:
        try:
            entries = await log.read_input(ref, after)
        except PositionGone:
            return
        if not entries:
            return
        for entry in entries:
            after = entry.id
            if after > until:
                return
            try:
                said = unpack_input(entry.body, entry.audio).said
            except RecordUnreadable:
                continue
            heard = hear(settings, said) if isinstance(said, AppendAudio) else None
            if heard is not None:
                yield Heard(heard.samples[skipped:], heard.rate_hz, heard.rms)
                skipped = 0
