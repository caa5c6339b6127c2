"""Carries out what a session asks for, once the facts behind it are in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

from duplex_es.log.api import START, Claim, EntryId, SessionLog
from duplex_es.model import (
    CloseModel,
    ContinueAnswer,
    EndTurn,
    FeedAudio,
    Model,
    ModelRefused,
    ModelSession,
    OpenModel,
    ResetInput,
    Signal,
)
from duplex_es.protocol import RefuseCommand
from duplex_es.protocol.records import OpeningAnswer, pack_opening
from duplex_es.session.effects import (
    AnswerOpening,
    AskModel,
    Effect,
    EndSession,
    FeedAppended,
    HearAgain,
    RestartModel,
)
from duplex_es.session.projection.session_object import session_object
from duplex_es.session.state import Session, replace

from .detector import Detectors
from .journal import Journal
from .listener import Heard, pictures
from .places import Tracker, sound_at
from .rehearing import Again, committed_sound
from .utterance import Committed
from .watching import SessionWatch

_log = logging.getLogger(__name__)


class OpeningFailed(Exception):
    """The model could not be opened with these settings; ``code`` and ``param`` as the client is told."""

    def __init__(self, code: str, message: str, param: str | None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class Performer:
    """One session's hands: its model, its ear, and the rare operations of its log.

    ``ended`` turns true when the session is over and its actor may stop. ``ref_audio`` is handed to the model with
    its opening. ``idle_ms`` is how long before this claim the last frame was written, ``committed`` the turns of before
    that can be heard again.
    """

    def __init__(
        self,
        log: SessionLog,
        claim: Claim,
        model: Model,
        emit: Callable[[Signal], None],
        detectors: Detectors,
        watch: SessionWatch | None = None,
    ) -> None:
        self.ended = False
        self.ref_audio: str | None = None
        self.idle_ms = 0
        self.committed: tuple[Committed, ...] = ()
        self._log = log
        self._claim = claim
        self._model = model
        self._emit = emit
        self._detectors = detectors
        self._watch = watch or SessionWatch(claim)
        self._mind: ModelSession | None = None
        self._ear = Tracker(model.info.input_rate_hz)

    async def perform(
        self,
        effect: Effect,
        session: Session,
        journal: Journal,
        heard: Heard | None = None,
        consumed: EntryId = START,
    ) -> None:
        """Carry out one effect of a decision; ``session`` is the state after it, ``heard`` the append it was about,

        ``consumed`` the last input it took in.

        Raises: OpeningFailed when the model refuses to open, LogError as the log does.
        """
        match effect:
            case FeedAppended():
                if heard is not None:
                    sound = self._ear.hear(heard, consumed if effect.part is None else None)
                    await self._feed(effect, *sound, self._frames(heard))
            case AskModel(request=OpenModel() as request):
                await self.open_model(request)
            case RestartModel(request=request):
                _log.warning(
                    "session=%s claim=%d the model gave another answer than was begun", session.id, self._claim.fence
                )
                await self.close_model()
                await self.open_model(request)
            case AskModel(request=ContinueAnswer() as request):
                await self._continue(request, session, journal)
            case AskModel(request=request):
                if isinstance(request, ResetInput):
                    self._ear.reset()
                elif isinstance(request, EndTurn):
                    await self._feed_rest(request, session, consumed)
                if self._mind is not None:
                    await self._mind.perform(request)
            case HearAgain(request=request):
                await self._hear_again(request, session)
            case AnswerOpening(refusal=refusal):
                await self.answer_opening(session, journal, refusal)
            case EndSession(reason=reason):
                await self.close_model()
                await self._log.close(self._claim, reason)
                self.ended = True

    async def open_model(self, request: OpenModel) -> None:
        """Open the model, or open it anew after a takeover, and its detector if it needs one. Raises: OpeningFailed."""
        await self._load_detector(request)
        began_s = self._watch.now_s()
        try:
            self._mind = await self._model.open(replace(request, ref_audio=self.ref_audio), self._emit)
        except ModelRefused as refusal:
            raise OpeningFailed(refusal.code, refusal.message, refusal.param) from refusal
        except Exception as error:
            _log.exception("session=%s the model failed to open", request.session_id)
            raise OpeningFailed("runtime_open_failed", "The model could not be opened.", None) from error
        self._watch.opened_model(self._watch.now_s() - began_s)

    async def _load_detector(self, request: OpenModel) -> None:
        if request.turn_detection is None or self._model.info.ends_turns:
            return
        try:
            await self._detectors.ready()
        except Exception as error:
            _log.exception("session=%s the voice detector cannot be loaded", request.session_id)
            message = f"turn_detection: the voice detector cannot be loaded ({error})."
            raise OpeningFailed("server_vad_initialization_failed", message, "turn_detection") from error

    async def answer_opening(self, session: Session, journal: Journal, refusal: RefuseCommand | None = None) -> None:
        """Tell the gateway how the opening went; repeated, it says the same."""
        answer = OpeningAnswer(error=refusal) if refusal else OpeningAnswer(session=session_object(session))
        await self._log.checkpoint(self._claim, journal.checkpoint(), opening=pack_opening(answer))

    async def close_model(self, *, goes_on: bool = False) -> None:
        """Free the model; ``goes_on``: another worker takes the session up. Idempotent.

        A model that fails at it is logged and left alone.
        """
        mind, self._mind = self._mind, None
        if mind is None:
            return
        try:
            await mind.perform(CloseModel(goes_on=goes_on))
        except Exception:
            _log.exception("session=%s the model failed to close", self._claim.ref.session_id)

    async def feed_again(self, again: Again, session: Session) -> None:
        """Feed a new model what its predecessor has heard of a turn that is not over."""
        effect = FeedAppended(
            epoch=session.epoch,
            end_ms=again.end_ms,
            is_speech=again.is_speech,
            force_listen=not session.settings.auto_response,
        )
        sound = self._ear.hear(again.heard, again.entry, again.skipped)
        await self._feed(effect, *sound, self._frames(again.heard))

    async def _hear_again(self, request: EndTurn, session: Session) -> None:
        """Let a new model hear a whole turn of before, and end it as it was ended then."""
        turn = next((one for one in self.committed if one.turn.item_id == request.item_id), None)
        if turn is None or self._mind is None:
            return
        async for again in committed_sound(self._log, self._claim.ref, turn, session):
            await self.feed_again(again, session)
        await self._feed_rest(request, session, turn.turn.until)
        await self._mind.perform(request)

    async def _continue(self, request: ContinueAnswer, session: Session, journal: Journal) -> None:
        """Have the answer given again that another worker had begun, with the sound it is made of."""
        if self._mind is None:
            return
        _log.info(
            "session=%s claim=%d goes on with response=%s after %d samples and %d characters",
            *(session.id, self._claim.fence, request.response_id, request.said_samples, request.said_chars),
        )
        sound, rate_hz, pcm = request.recipe.sound, self._model.info.input_rate_hz, b""
        if sound is not None:
            pcm = await sound_at(self._log, self._claim.ref, sound, session.settings, journal.consumed, rate_hz)
        await self._mind.perform(replace(request, idle_ms=self.idle_ms, sound=pcm))

    async def _feed_rest(self, request: EndTurn, session: Session, consumed: EntryId) -> None:
        """A turn that the client ends ends with its last sample, not where the resampler happens to be."""
        await self._feed(
            FeedAppended(
                epoch=request.epoch, end_ms=session.input.clock.ms, force_listen=not session.settings.auto_response
            ),
            *self._ear.rest(consumed),
        )

    def _frames(self, heard: Heard) -> tuple[bytes, ...]:
        return tuple(pictures(heard)) if heard.frames and self._model.info.takes_frames else ()

    async def _feed(self, effect: FeedAppended, pcm: bytes, place: str, frames: tuple[bytes, ...] = ()) -> None:
        if self._mind is None or not (pcm or frames):
            return
        await self._mind.perform(
            FeedAudio(
                epoch=effect.epoch,
                pcm=pcm,
                end_ms=effect.end_ms,
                is_speech=effect.is_speech,
                force_listen=effect.force_listen,
                frames=frames,
                place=place,
            )
        )
