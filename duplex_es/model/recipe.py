"""How an answer can be given once more: what a model leaves in the session's log when it begins to speak."""

from __future__ import annotations

import msgspec


class Sound(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of caller audio without gaps: ``samples`` of it, ``offset`` after the beginning of the piece ``first``.

    ``first`` and ``last`` are the ``place`` of the ``FeedAudio`` that it begins in and ends in.
    """

    first: str
    offset: int
    samples: int
    last: str


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a model needs to give one answer again, in another process, exactly.

    ``notes`` are the model's own: plain values that MessagePack knows, a few kilobytes at most; they are stored with
    the session. ``sound`` is caller audio that the answer is made of; the host gives it back, from the log.
    """

    notes: dict[str, object] = {}
    sound: Sound | None = None
