"""Frames about what the caller has heard."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from ..objects import PlaybackLedger
from .frame import ServerEvent


class OutputAudioBufferCleared(ServerEvent, frozen=True, kw_only=True, tag="output_audio_buffer.cleared"):
    """Output that was not heard is discarded."""

    TIER: ClassVar[int] = 1

    response_id: str | UnsetType = UNSET


class PlaybackAck(msgspec.Struct, frozen=True, kw_only=True):
    """What an acknowledgement came to: the values as reported, the ledger after it.

    ``history_committed`` says whether the stored text changed.
    """

    type: str = "playback.acknowledged"
    session_id: str
    epoch: int
    item_id: str
    played_ms: int
    committed_ms: int
    truncate: bool = False
    playback: PlaybackLedger
    history_committed: bool = False


class PlaybackAcknowledged(ServerEvent, frozen=True, kw_only=True, tag="playback.acknowledged"):
    """A playback report was taken in."""

    TIER: ClassVar[int] = 3

    event: PlaybackAck
