"""Everything that can make a session decide: commands, model signals, and what the host reports."""

from __future__ import annotations

import msgspec

from ..model import ModelInfo, Signal
from ..protocol import AppendAudio, Command, ForkSession, OpenSession, RefuseCommand, SocketAttached, SocketDetached


class VadVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the host's voice detector found in one append; times are on the session's input clock.

    ``is_speech``: somebody is heard in it. ``speech_active``: an utterance is running after it. At most one of
    ``speech_started`` and ``speech_stopped``: an append in which both happen arrives in pieces, cut where the detector
    decided, so that what follows belongs to what comes next. ``start_ms`` (with a start) lies ``prefix_padding_ms``
    before the speech, not before the last clear; ``end_ms`` (with a stop) counts the silence that ended it.
    ``probability`` is the highest of the frames it completed, in [0, 1].
    """

    is_speech: bool
    speech_active: bool
    speech_started: bool = False
    speech_stopped: bool = False
    probability: float = 0.0
    start_ms: int | None = None
    end_ms: int | None = None


class AudioArrived(msgspec.Struct, frozen=True, kw_only=True):
    """An append, with what the host measured on it: ``rms`` of its samples in [0, 1], ``None`` if not measured.

    ``vad`` is there exactly when ``turn_detection`` is set and the model does not end turns by itself.
    """

    command: AppendAudio
    rms: float | None = None
    vad: VadVerdict | None = None


class SpeechReady(msgspec.Struct, frozen=True, kw_only=True):
    """``ModelProducedAudio`` in another sound than the model's: what the client asked to hear.

    ``audio`` is the sound as the client gets it: ``format`` (one of the wire's output formats) at ``rate_hz``.
    ``samples`` at ``model_rate_hz`` is how much of the model's own sound came: durations are counted in these. The two
    do not match piece by piece, because a converter holds some sound back, but they do over a whole answer: its last
    piece may have sound and no ``samples``.
    """

    epoch: int
    turn: int
    samples: int
    model_rate_hz: int
    audio: bytes
    format: str
    rate_hz: int
    text: str = ""


class OpenAs(msgspec.Struct, frozen=True, kw_only=True):
    """The opening command, with what the host knows of the session and of the model that will serve it.

    ``max_session_s`` is how long the session may last, ``None`` for as long as it likes.
    """

    command: OpenSession
    session_id: str
    incarnation: int
    model: str
    info: ModelInfo
    max_session_s: float | None = None


class TimerFired(msgspec.Struct, frozen=True):
    """A timer that ``timers(session)`` asked for ran out."""

    name: str


class WorkerTookOver(msgspec.Struct, frozen=True):
    """A new worker claimed the session and must decide about work left half done.

    ``can_rebuild``: its model can give an answer again that another process had begun. ``sounding`` are items whose
    sound is still in the log, to be heard again.
    """

    fence: int
    can_rebuild: bool = False
    sounding: tuple[str, ...] = ()


class AnswerDiverged(msgspec.Struct, frozen=True):
    """What the model gave again is not the answer that had been begun; it cannot go on."""

    response_id: str


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
    | ForkSession
    | AudioArrived
    | SpeechReady
    | TimerFired
    | WorkerTookOver
    | AnswerDiverged
    | ModelLost
    | Signal
)
