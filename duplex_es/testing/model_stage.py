"""What the model suite needs to speak with a model: an ear for its signals, and a caller."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..model import (
    ContinueAnswer,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    Model,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelMeasured,
    ModelProducedAudio,
    ModelProducedText,
    ModelRemembered,
    ModelSession,
    ModelSpoke,
    Request,
    Signal,
    StageMetrics,
)

S = TypeVar("S")
PATIENCE_S = 30.0
QUIET_S = 0.2
FEED_MS = 100


class Ear:
    """Collects what one session signals, in order, and lets a test wait for it."""

    def __init__(self) -> None:
        self.signals: list[Signal] = []
        self.strangers: list[Signal] = []
        self._thread = threading.get_ident()
        self._news = asyncio.Event()

    def __call__(self, signal: Signal) -> None:
        """Take one signal; one from another thread is kept apart."""
        (self.signals if threading.get_ident() == self._thread else self.strangers).append(signal)
        self._news.set()

    def of(self, kind: type[S]) -> list[S]:
        """All signals of one kind so far."""
        return [signal for signal in self.signals if isinstance(signal, kind)]

    async def first(self, kind: type[S], where: Callable[[S], bool] = lambda _: True, after: int = 0) -> S:
        """The first matching signal at or after position ``after``, waiting for it if need be."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._news.clear()
                for signal in self.signals[after:]:
                    if isinstance(signal, kind) and where(signal):
                        return signal
                await self._news.wait()

    async def quiet(self) -> int:
        """Wait until nothing has been signalled for a while; returns how many signals there are."""
        while True:
            before = len(self.signals)
            await asyncio.sleep(QUIET_S)
            if len(self.signals) == before:
                return before

    async def answered(self, turn: int) -> list[Signal]:
        """Everything of one answer, once it has ended; not what was measured of it, which never comes out alike."""
        await self.first(ModelFinished, lambda signal: signal.turn == turn)
        return [
            signal
            for signal in self.signals
            if getattr(signal, "turn", None) == turn and not isinstance(signal, ModelMeasured)
        ]

    def memory(self) -> bytes:
        """What the model would have its successor know by now."""
        kept = b""
        for signal in self.of(ModelRemembered):
            kept = signal.data if signal.anew else kept + signal.data
        return kept

    def open_turn(self) -> int | None:
        """The turn of the answer that is being given, if one is."""
        open_turn: int | None = None
        for signal in self.signals:
            if isinstance(signal, ModelSpoke):
                open_turn = signal.turn
            elif isinstance(signal, ModelFinished | ModelInterrupted):
                open_turn = None
        return open_turn


def words_of(signals: list[Signal]) -> str:
    """The transcript of an answer: its pieces' texts, joined."""
    return "".join(s.text for s in signals if isinstance(s, ModelProducedAudio | ModelProducedText))


def sound_of(signals: list[Signal]) -> bytes:
    """The samples of an answer, joined."""
    return b"".join(s.pcm for s in signals if isinstance(s, ModelProducedAudio))


def check_order(signals: list[Signal]) -> None:
    """Fail unless every answer is one well-formed sequence, turns ascend, and no epoch is older than one before."""
    open_turn: int | None = None
    newest_turn, newest_epoch = -1, 0
    for signal in signals:
        assert signal.epoch >= newest_epoch, f"an older epoch after {newest_epoch}: {signal}"
        if signal.epoch > newest_epoch:
            newest_epoch, open_turn = signal.epoch, None  # an interruption ends an answer without a word
        match signal:
            case ModelSpoke(turn=turn):
                assert open_turn is None, f"turn {turn} begins inside turn {open_turn}"
                assert turn > newest_turn, f"turn {turn} after turn {newest_turn}"
                open_turn = newest_turn = turn
            case ModelProducedAudio(turn=turn, pcm=pcm):
                assert turn == open_turn, f"audio of turn {turn} inside turn {open_turn}"
                assert pcm and len(pcm) % 2 == 0, "audio is whole int16 samples, at least one"
            case ModelProducedText(turn=turn):
                assert turn == open_turn, f"text of turn {turn} inside turn {open_turn}"
            case ModelMeasured(turn=turn, stages=stages):
                assert turn == open_turn, f"figures of turn {turn} inside turn {open_turn}"
                check_figures(stages)
            case ModelFinished(turn=turn) | ModelInterrupted(turn=turn):
                assert turn == open_turn, f"turn {turn} ends inside turn {open_turn}"
                open_turn = None
            case ModelCalledFunction(turn=turn):
                assert turn >= newest_turn, f"a call of turn {turn} after turn {newest_turn}"
                newest_turn = turn
            case ModelFailed():
                open_turn = None


def check_figures(stages: Mapping[str, StageMetrics]) -> None:
    """Fail unless each stage goes by a number, tells something, and nothing that cannot be."""
    assert stages, "figures of no stage"
    for stage, told in stages.items():
        assert stage.isdecimal(), f"a stage goes by its number, not {stage!r}"
        assert told != StageMetrics(), f"stage {stage} tells nothing"
        for name in told.__struct_fields__:
            value = getattr(told, name)
            for number in value if isinstance(value, tuple) else (value,):
                assert not isinstance(number, int | float) or 0 <= number < math.inf, f"stage {stage}: {name} {number}"


class Caller:
    """One opened session and its ear: speaks, commits, asks, in the words of a test."""

    def __init__(self, model: Model, session: ModelSession, ear: Ear) -> None:
        self.model = model
        self.session = session
        self.ear = ear
        self.epoch = 0
        self.clock_ms = 0
        self.fed = bytearray()
        self._items = 0

    async def perform(self, request: Request) -> None:
        """Hand one request over; it must be accepted without raising."""
        await asyncio.wait_for(self.session.perform(request), PATIENCE_S)

    async def say(self, pcm: bytes) -> None:
        """Feed float32 audio in pieces of 100 ms, as fast as the model takes them."""
        step = self.model.info.input_rate_hz * FEED_MS // 1000 * 4
        for at in range(0, len(pcm), step):
            piece = pcm[at : at + step]
            self.clock_ms += len(piece) // 4 * 1000 // self.model.info.input_rate_hz
            place = str(len(self.fed) // 4)
            self.fed += piece
            await self.perform(FeedAudio(epoch=self.epoch, pcm=piece, end_ms=self.clock_ms, place=place))

    def heard_in(self, spoke: ModelSpoke) -> bytes:
        """The caller audio that the recipe of ``spoke`` names, as a host gives it back."""
        if spoke.recipe is None or spoke.recipe.sound is None:
            return b""
        named = spoke.recipe.sound
        first, last = int(named.first) + named.offset, int(named.last)
        assert first <= last or named.samples == 0 or int(named.first) <= last, "it ends before it begins"
        return bytes(self.fed[first * 4 : (first + named.samples) * 4])

    async def be_silent(self, duration_ms: int) -> None:
        """Feed silence."""
        await self.say(bytes(self.model.info.input_rate_hz * duration_ms // 1000 * 4))

    async def commit(self, *, respond: bool = True) -> str:
        """End the turn; returns the committed item's id."""
        self._items += 1
        item_id = f"item_{self._items}"
        await self.perform(EndTurn(epoch=self.epoch, item_id=item_id, respond=respond))
        return item_id

    async def ask(self, text: str, *modalities: str, response_id: str = "resp_1") -> None:
        """Ask for an answer to one typed line."""
        history = (HistoryItem(item_id="item_text", role="user", text=text),)
        await self.perform(
            Generate(
                epoch=self.epoch,
                response_id=response_id,
                history=history,
                modalities=modalities or ("text", "audio"),
            )
        )

    async def go_on(self, spoke: ModelSpoke, answer: list[Signal], said: int, sound: bytes = b"") -> None:
        """Ask for the answer that ``spoke`` began in another process, of which the caller has had ``said`` signals."""
        assert spoke.recipe is not None, "can_rebuild promises a recipe with every ModelSpoke"
        had = answer[:said]
        request = ContinueAnswer(
            epoch=spoke.epoch,
            turn=spoke.turn,
            recipe=spoke.recipe,
            response_id=spoke.response_id,
            said_samples=len(sound_of(had)) // 2,
            said_chars=len(words_of(had)),
            sound=sound,
        )
        await self.perform(request)

    async def interrupt(self) -> None:
        """Cut the model, as the client's cancel does."""
        self.epoch += 1
        await self.perform(Interrupt(epoch=self.epoch))
