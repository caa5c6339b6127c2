"""Carries out what a session asks for, once the facts behind it are in the log."""

from __future__ import annotations

from collections.abc import Callable

from duplex_es.log.api import Claim, SessionLog
from duplex_es.model import (
    CloseModel,
    FeedAudio,
    Model,
    ModelRefused,
    ModelSession,
    OpenModel,
    ResetInput,
    Signal,
)
from duplex_es.protocol.records import OpeningAnswer, pack_opening
from duplex_es.session.effects import AcknowledgeLog, AnswerOpening, AskModel, Effect, EndSession, FeedAppended
from duplex_es.session.inputs import AudioArrived, Input
from duplex_es.session.projection.session_object import session_object
from duplex_es.session.state import Session

from .journal import Journal
from .listener import Listener


class OpeningFailed(Exception):
    """The model could not be opened with these settings; ``code`` and ``param`` as the client is told."""

    def __init__(self, code: str, message: str, param: str | None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class Performer:
    """One session's hands: its model, its ear, and the rare operations of its log.

    ``ended`` turns true when the session is over and its actor may stop.
    """

    def __init__(self, log: SessionLog, claim: Claim, model: Model, emit: Callable[[Signal], None]) -> None:
        self.ended = False
        self._log = log
        self._claim = claim
        self._model = model
        self._emit = emit
        self._mind: ModelSession | None = None
        self._ear = Listener(model.info.input_rate_hz)

    async def perform(self, effect: Effect, said: Input, session: Session, journal: Journal) -> None:
        """Carry out one effect of deciding on ``said``; ``session`` is the state after that decision.

        Raises: OpeningFailed when the model refuses to open, LogError as the log does.
        """
        match effect:
            case FeedAppended():
                await self._feed(effect, said, session)
            case AskModel(request=OpenModel() as request):
                await self.open_model(request)
            case AskModel(request=request):
                if isinstance(request, ResetInput):
                    self._ear.reset()
                if self._mind is not None:
                    await self._mind.perform(request)
            case AnswerOpening(refusal=refusal):
                answer = pack_opening(
                    OpeningAnswer(error=refusal) if refusal else OpeningAnswer(session=session_object(session))
                )
                await self._log.checkpoint(self._claim, journal.checkpoint(), opening=answer)
            case AcknowledgeLog():
                pass  # The attached gateway moves the boundary; the session only notes it.
            case EndSession(reason=reason):
                await self.close_model()
                await self._log.close(self._claim, reason)
                self.ended = True

    async def open_model(self, request: OpenModel) -> None:
        """Open the model, or open it anew after a takeover. Raises: OpeningFailed."""
        try:
            self._mind = await self._model.open(request, self._emit)
        except ModelRefused as refusal:
            raise OpeningFailed(refusal.code, refusal.message, refusal.param) from refusal

    async def close_model(self) -> None:
        """Free the model. Idempotent."""
        mind, self._mind = self._mind, None
        if mind is not None:
            await mind.perform(CloseModel())

    async def _feed(self, effect: FeedAppended, said: Input, session: Session) -> None:
        if self._mind is None or not isinstance(said, AudioArrived):
            return
        pcm = self._ear.hear(session.settings, said.command)
        if not pcm:
            return
        await self._mind.perform(
            FeedAudio(
                epoch=effect.epoch,
                pcm=pcm,
                end_ms=effect.end_ms,
                is_speech=effect.is_speech,
                force_listen=effect.force_listen,
            )
        )
