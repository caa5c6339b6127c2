"""What one session takes in: everything is heard, measured and converted here before the session decides on it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from duplex_es.model import ContinueAnswer, ModelInfo, ModelProducedAudio, ResetInput, Signal
from duplex_es.protocol import (
    AppendAudio,
    ClearInput,
    CreateItem,
    ProtocolError,
    RefuseCommand,
    UpdateSession,
    read_config,
)
from duplex_es.session.effects import AskModel, Effect, FeedAppended
from duplex_es.session.inputs import AudioArrived, Input
from duplex_es.session.sound import appended_sound
from duplex_es.session.state import Session, Settings

from .continuing import Continuation
from .detector import Detector, Detectors, Found
from .echo_guard import EchoGuard
from .listener import Heard, hear, loudness
from .voice import Voice

_log = logging.getLogger(__name__)


class Part(NamedTuple):
    """One thing to decide on, and the sound in it: of an append, or of the content parts of an item by their number."""

    said: Input
    heard: Heard | None = None
    parts: Mapping[int, Heard] = {}

    def sound(self, effect: Effect) -> Heard | None:
        """The sound that ``effect`` is about, if it is about any."""
        if not isinstance(effect, FeedAppended):
            return None
        return self.heard if effect.part is None else self.parts.get(effect.part)


class Intake:
    """One session's senses. Takes inputs in the order they are decided; ``note`` what came of each.

    ``unheard`` is how many bytes of the last audio that was decided on never reached the log.
    """

    def __init__(self, info: ModelInfo, detectors: Detectors) -> None:
        self._info = info
        self._detectors = detectors
        self._detector: Detector | None = None
        self._voice = Voice(info.output_rate_hz)
        self._echo = EchoGuard()
        self._continuation: Continuation | None = None
        self.unheard = 0

    async def take(self, session: Session, said: Input) -> list[Part]:
        """``said`` in the parts to decide on one after the other, all as one; none if there is nothing to decide yet.

        Never raises for a detector that fails: the client is told, and what it said since the last turn is dropped.
        """
        if isinstance(said, AudioArrived):
            return await self._append(session, said.command)
        if isinstance(said, UpdateSession):
            return [Part(await self._update(said))]
        if isinstance(said, CreateItem):
            return [Part(said, parts=_spoken_parts(session.settings, said))]
        if isinstance(said, Signal):
            return [Part(heard) for heard in self._signalled(session, said)]
        return [Part(said)]

    def _signalled(self, session: Session, signal: Signal) -> list[Input]:
        going = self._continuation
        if isinstance(signal, ModelProducedAudio) and _guards(session) and (going is None or not going.is_catching_up):
            self._echo.spoke(signal.pcm, signal.rate_hz or self._info.output_rate_hz)
        heard = self._voice.take(session, signal)
        if going is None:
            return list(heard)
        kept: list[Input] = [one for piece in heard for one in going.take(session, piece)]
        if going.is_over:
            self._continuation = None
        return kept

    def note(self, effects: Iterable[Effect], session: Session) -> None:
        """Follow a decision that led to ``session``: what the session forgets is forgotten here, too, and an answer

        that the model is to give again is followed from its beginning.
        """
        for effect in effects:
            if not isinstance(effect, AskModel):
                continue
            if isinstance(effect.request, ResetInput):
                self._detector = None
            elif isinstance(effect.request, ContinueAnswer):
                self._continuation = Continuation(
                    session, effect.request.turn, model_rate_hz=self._info.output_rate_hz, unheard=self.unheard
                )

    async def hear_again(self, session: Session, heard: Heard) -> None:
        """Take in what the session decided on before its worker changed; ``session`` is as it was left."""
        detector = self._detector_of(session, resumed=True)
        if detector is None:
            return
        try:
            await detector.warm(heard)
        except Exception:
            _log.exception("session=%s the voice detector failed", session.id)
            self._detector = None

    async def _append(self, session: Session, command: AppendAudio) -> list[Part]:
        heard = hear(session.settings, command)
        if heard is None:
            return [Part(AudioArrived(command=command))]
        if (refusal := self._too_long(command, heard)) is not None:
            return [Part(refusal)]
        if _guards(session):
            heard = self._echo.without_echo(heard)
        detector = self._detector_of(session)
        if detector is None:
            return [Part(AudioArrived(command=command, rms=heard.rms), heard)]
        detector.follow(session.input.clock)
        try:
            found = await detector.judge(heard)
        except Exception as error:
            _log.exception("session=%s the voice detector failed", session.id)
            self._detector = None
            message = f"The voice detector failed ({type(error).__name__}); what was said since the last turn is lost."
            return [Part(_refusal("server_vad_inference_failed", message, "audio", command)), Part(ClearInput())]
        return _cut(session.settings, command, heard, found)

    def _too_long(self, command: AppendAudio, heard: Heard) -> RefuseCommand | None:
        most, rate_hz = self._info.longest_append_samples, self._info.input_rate_hz
        if most is None or heard.samples.size * rate_hz <= most * heard.rate_hz:
            return None
        message = f"audio: this model takes at most {most * 1000 // rate_hz} ms ({most} samples) in one append."
        return _refusal("bad_event", message, "audio", command)

    def _detector_of(self, session: Session, *, resumed: bool = False) -> Detector | None:
        """The detector that the settings in force ask for; a new one where they changed."""
        wanted = session.settings.turn_detection
        if wanted is None or self._info.ends_turns:
            self._detector = None
        elif self._detector is None or self._detector.turn_detection != wanted:
            heard = session.input
            speaking = resumed and heard.speech_started and not heard.speech_stopped
            self._detector = Detector(self._detectors, wanted, heard.clock, is_speaking=speaking)
        return self._detector

    async def _update(self, command: UpdateSession) -> UpdateSession | RefuseCommand:
        """The update, unless it asks for a detector that cannot be had."""
        try:
            wanted = read_config(command.session, opening=False).turn_detection
        except ProtocolError:
            return command  # The session refuses it in its own words.
        if wanted in (UNSET, None) or self._info.ends_turns:
            return command
        try:
            await self._detectors.ready()
        except Exception as error:
            _log.exception("the voice detector cannot be loaded")
            message = f"turn_detection: the voice detector cannot be loaded ({error}); the settings stay as they were."
            return _refusal("server_vad_initialization_failed", message, "turn_detection", command)
        return command


def _guards(session: Session) -> bool:
    """Whether the client wants its own echo told from a caller's voice; only a literal ``true`` is a yes."""
    return session.settings.extra_body.get("echo_guard") is True


def _refusal(code: str, message: str, param: str, command: AppendAudio | UpdateSession) -> RefuseCommand:
    event_id = command.event_id if isinstance(command.event_id, str) else None
    return RefuseCommand(code=code, message=message, param=param, event_id=event_id)


def _spoken_parts(settings: Settings, command: CreateItem) -> dict[int, Heard]:
    """The sound of an item's content parts; one that cannot be read is left out, and refused by the session."""
    content = command.item.content
    found: dict[int, Heard] = {}
    for number, part in enumerate([] if content is UNSET else content):
        if not isinstance(part.audio, bytes):
            continue
        append = AppendAudio(
            audio=part.audio,
            format=UNSET if part.format is None else part.format,
            sample_rate_hz=UNSET if part.sample_rate_hz is None else part.sample_rate_hz,
        )
        heard = hear(settings, append)
        if heard is not None:
            found[number] = heard
    return found


def _cut(settings: Settings, command: AppendAudio, heard: Heard, found: list[Found]) -> list[Part]:
    """The append in as many pieces as there are verdicts. What the client said about all of it stays on the first."""
    if len(found) == 1:
        return [Part(AudioArrived(command=command, rms=heard.rms, vad=found[0].verdict), heard)]
    sound, data = appended_sound(settings, command)
    unit, at = sound.bytes_per_sample, 0
    piece = msgspec.structs.replace(
        command,
        format=sound.encoding,
        input_audio_format=UNSET,
        sample_rate_hz=sound.sample_rate_hz,
        channels=UNSET,
        duration_ms=UNSET,
    )
    parts = []
    for samples, verdict in found:
        until = at + samples
        within = Heard(
            heard.samples[at:until],
            heard.rate_hz,
            None if heard.rms is None else loudness(heard.samples[at:until]),
            () if at else heard.frames,
        )
        piece = msgspec.structs.replace(piece, audio=data[at * unit : until * unit])
        parts.append(Part(AudioArrived(command=piece, rms=within.rms, vad=verdict), within))
        piece = msgspec.structs.replace(
            piece, force_barge_in=UNSET, text=UNSET, transcript=UNSET, hints=UNSET, video_frames=UNSET
        )
        at = until
    return parts
