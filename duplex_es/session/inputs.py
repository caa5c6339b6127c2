"""Everything that can make a session decide: commands, model signals, and what the host reports."""

from __future__ import annotations

import msgspec

from ..model import ModelInfo, Signal
from ..protocol import AppendAudio, Command, OpenSession, RefuseCommand, SocketAttached, SocketDetached


class AudioArrived(msgspec.Struct, frozen=True, kw_only=True):
    """An append, with what the host measured on it: ``rms`` of its samples in [0, 1], ``None`` if not measured."""

    command: AppendAudio
    rms: float | None = None


class OpenAs(msgspec.Struct, frozen=True, kw_only=True):
    """The opening command, with what the host knows of the session and of the model that will serve it."""

    command: OpenSession
    session_id: str
    incarnation: int
    model: str
    info: ModelInfo


class TimerFired(msgspec.Struct, frozen=True):
    """A timer that ``timers(session)`` asked for ran out."""

    name: str


class WorkerTookOver(msgspec.Struct, frozen=True):
    """A new worker claimed the session and must decide about work left half done."""

    fence: int


class ModelLost(msgspec.Struct, frozen=True, kw_only=True):
    """The model could not be opened or died; with ``param`` when a setting was at fault.

    ``opening``: it happened while the session opened, before the client was told anything.
    """

    code: str
    message: str
    param: str | None = None
    opening: bool = False


Input = (
    Command
    | OpenAs
    | RefuseCommand
    | SocketAttached
    | SocketDetached
    | AudioArrived
    | TimerFired
    | WorkerTookOver
    | ModelLost
    | Signal
)
