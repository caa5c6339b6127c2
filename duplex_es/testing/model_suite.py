"""The promises of ``duplex_es.model.contract`` as tests: subclass ``ModelSuite`` and give it your model.

A subclass overrides the ``model`` fixture (an instance that is not loaded yet), and, where a tone is not speech to the
model, ``utterance``. Tests of promises the card does not make are skipped by name. Needs pytest and pytest-asyncio::

    class TestMyModel(ModelSuite):
        @pytest.fixture
        def model(self):
            return my_package.PLUGIN({})
"""

from __future__ import annotations

import array
import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from ..model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    Model,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelInterrupted,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelSession,
    ModelSpoke,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
    Signal,
    ToolOutput,
)

S = TypeVar("S")
PATIENCE_S = 10.0
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
        """Everything of one answer, once it has ended."""
        await self.first(ModelFinished, lambda signal: signal.turn == turn)
        return [signal for signal in self.signals if getattr(signal, "turn", None) == turn]


def words_of(signals: list[Signal]) -> str:
    """The transcript of an answer: its pieces' texts, joined."""
    return "".join(s.text for s in signals if isinstance(s, ModelProducedAudio | ModelProducedText))


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
            case ModelFinished(turn=turn) | ModelInterrupted(turn=turn):
                assert turn == open_turn, f"turn {turn} ends inside turn {open_turn}"
                open_turn = None
            case ModelCalledFunction(turn=turn):
                assert turn >= newest_turn, f"a call of turn {turn} after turn {newest_turn}"
                newest_turn = turn
            case ModelFailed():
                open_turn = None


class Caller:
    """One opened session and its ear: speaks, commits, asks, in the words of a test."""

    def __init__(self, model: Model, session: ModelSession, ear: Ear) -> None:
        self.model = model
        self.session = session
        self.ear = ear
        self.epoch = 0
        self.clock_ms = 0
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
            await self.perform(FeedAudio(epoch=self.epoch, pcm=piece, end_ms=self.clock_ms))

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

    async def interrupt(self) -> None:
        """Cut the model, as the client's cancel does."""
        self.epoch += 1
        await self.perform(Interrupt(epoch=self.epoch))


class ModelSuite:
    """Every promise of the contract, one test each."""

    question = "Say hello to Martin, please."
    """What is typed at the model; its answer must last longer than the pace lets it say at once."""

    short_question = "Hello."
    """One whose answer is over within a few seconds."""

    @pytest.fixture
    def model(self) -> Model:
        """The model under test, not loaded."""
        raise NotImplementedError("override the model fixture")

    @pytest.fixture
    def utterance(self, model: Model) -> bytes:
        """Something the model takes for speech, about a second, float32 at the model's rate; here a tone."""
        rate = model.info.input_rate_hz
        return array.array("f", (0.3 * math.sin(math.tau * 440 * n / rate) for n in range(rate))).tobytes()

    @pytest.fixture
    async def ready(self, model: Model) -> AsyncIterator[Model]:
        """The model, loaded; unloaded afterwards."""
        await model.load()
        yield model
        await model.unload()

    @pytest.fixture
    async def caller(self, ready: Model) -> AsyncIterator[Caller]:
        """A session that has just begun; at the end it is closed and its whole log of signals is checked."""
        caller = await self.opened(ready)
        yield caller
        await caller.perform(CloseModel())
        check_order(caller.ear.signals)
        assert caller.ear.strangers == [], "signals must come on the event loop's thread"

    async def opened(self, model: Model, **fields: object) -> Caller:
        """Another session of the same model."""
        ear = Ear()
        settings: dict[str, object] = {"overlap_policy": model.info.overlap_policy, **fields}
        request = OpenModel(session_id="sess_1", incarnation=0, epoch=0, **settings)  # type: ignore[arg-type]
        return Caller(model, await model.open(request, ear), ear)

    def needs(self, model: Model, flag: str) -> None:
        """Skip a promise the model's card does not make."""
        if not getattr(model.info, flag):
            pytest.skip(f"{model.info.name} does not promise {flag}")

    async def test_the_card_can_be_believed(self, ready: Model) -> None:
        info = ready.info
        assert info.name
        assert info.input_rate_hz > 0
        assert info.output_rate_hz > 0
        assert info.overlap_policy in {"listen_only", "barge_in_on_speech"}
        assert info.capabilities.chunk_period_ms > 0

    async def test_opening_says_nothing_and_may_bring_a_history(self, ready: Model) -> None:
        history = (
            HistoryItem(item_id="a", role="user", text="My name is Martin."),
            HistoryItem(item_id="b", role="assistant", text="Hello Martin."),
        )
        caller = await self.opened(ready, history=history, instructions="Be brief.")
        await caller.ear.quiet()
        assert caller.ear.signals == []
        await caller.perform(CloseModel())

    async def test_a_commit_is_answered_with_what_was_heard(self, caller: Caller, utterance: bytes) -> None:
        self.needs(caller.model, "transcribes")
        await caller.say(utterance)
        item_id = await caller.commit()
        await caller.ear.first(ModelHeardTurn, lambda heard: heard.item_id == item_id)
        await caller.ear.quiet()
        assert [heard.item_id for heard in caller.ear.of(ModelHeardTurn)] == [item_id]

    async def test_a_commit_of_silence_is_heard_as_nothing(self, caller: Caller) -> None:
        self.needs(caller.model, "transcribes")
        await caller.be_silent(1000)
        item_id = await caller.commit()
        heard = await caller.ear.first(ModelHeardTurn)
        assert (heard.item_id, heard.transcript) == (item_id, "")

    async def test_every_commit_gets_its_own_answer_in_order(self, caller: Caller, utterance: bytes) -> None:
        self.needs(caller.model, "transcribes")
        await caller.say(utterance)
        items = [await caller.commit(), await caller.commit(), await caller.commit()]
        await caller.ear.first(ModelHeardTurn, lambda heard: heard.item_id == items[-1])
        assert [heard.item_id for heard in caller.ear.of(ModelHeardTurn)] == items

    async def test_a_commit_that_wants_no_response_gets_none(self, caller: Caller, utterance: bytes) -> None:
        await caller.say(utterance)
        await caller.commit(respond=False)
        await caller.ear.quiet()
        assert caller.ear.of(ModelSpoke) == []

    async def test_a_written_answer_has_no_audio(self, caller: Caller) -> None:
        self.needs(caller.model, "takes_text_turns")
        await caller.ask(self.short_question, "text", response_id="resp_7")
        spoke = await caller.ear.first(ModelSpoke)
        answer = await caller.ear.answered(spoke.turn)
        assert spoke.response_id == "resp_7"
        assert words_of(answer).strip()
        assert not any(isinstance(signal, ModelProducedAudio) for signal in answer)

    async def test_a_spoken_answer_has_the_words_of_the_written_one(self, ready: Model) -> None:
        self.needs(ready, "takes_text_turns")
        said = []
        for modalities in (("text",), ("text", "audio")):
            caller = await self.opened(ready)
            await caller.ask(self.short_question, *modalities)
            said.append(words_of(await caller.ear.answered((await caller.ear.first(ModelSpoke)).turn)))
            await caller.perform(CloseModel())
        assert said[0] == said[1]

    async def test_an_interrupted_answer_stops_at_once(self, caller: Caller) -> None:
        self.needs(caller.model, "takes_text_turns")
        await caller.ask(self.question)
        await caller.ear.first(ModelProducedAudio)
        await caller.interrupt()
        told = len(caller.ear.signals)
        await caller.ear.quiet()
        assert [signal for signal in caller.ear.signals[told:] if signal.epoch < caller.epoch] == []
        assert caller.ear.of(ModelFinished) == [], "the answer was over before it could be cut: ask a longer question"

    async def test_the_next_answer_comes_under_the_new_epoch(self, caller: Caller) -> None:
        self.needs(caller.model, "takes_text_turns")
        await caller.ask(self.question, response_id="resp_1")
        first = await caller.ear.first(ModelSpoke)
        await caller.interrupt()
        await caller.ask(self.short_question, "text", response_id="resp_2")
        second = await caller.ear.first(ModelSpoke, lambda spoke: spoke.response_id == "resp_2")
        assert second.epoch == caller.epoch
        assert second.turn > first.turn
        await caller.ear.answered(second.turn)

    async def test_a_commit_is_still_heard_when_its_answer_is_interrupted(
        self, caller: Caller, utterance: bytes
    ) -> None:
        self.needs(caller.model, "transcribes")
        await caller.say(utterance)
        item_id = await caller.commit()
        await caller.interrupt()
        await caller.ear.first(ModelHeardTurn, lambda heard: heard.item_id == item_id)
        await caller.ear.quiet()
        assert [spoke for spoke in caller.ear.of(ModelSpoke) if spoke.epoch >= caller.epoch] == []

    async def test_nothing_is_signalled_after_the_end(self, ready: Model, utterance: bytes) -> None:
        caller = await self.opened(ready)
        await caller.say(utterance)
        await caller.commit()
        await caller.ask(self.question)
        await caller.perform(CloseModel())
        told = len(caller.ear.signals)
        assert await caller.ear.quiet() == told

    async def test_cleared_audio_is_forgotten(self, caller: Caller, utterance: bytes) -> None:
        self.needs(caller.model, "transcribes")
        await caller.say(utterance)
        await caller.perform(ResetInput(epoch=0))
        item_id = await caller.commit()
        heard = await caller.ear.first(ModelHeardTurn, lambda turn: turn.item_id == item_id)
        assert (heard.transcript, heard.audio_ms) == ("", 0)

    async def test_a_model_that_ends_turns_reports_one_in_order(self, caller: Caller, utterance: bytes) -> None:
        self.needs(caller.model, "ends_turns")
        await caller.be_silent(400)
        await caller.say(utterance)
        await caller.be_silent(2000)
        heard = await caller.ear.first(ModelHeardTurn)
        kinds = [type(signal) for signal in caller.ear.signals]
        began, stopped = caller.ear.of(ModelHeardSpeech)[0], caller.ear.of(ModelHeardSpeechEnd)[0]
        assert heard.item_id is None
        assert kinds.index(ModelHeardSpeech) < kinds.index(ModelHeardSpeechEnd) < kinds.index(ModelHeardTurn)
        assert 0 <= began.start_ms < stopped.end_ms <= caller.clock_ms
        await caller.ear.first(ModelSpoke)

    async def test_a_commit_after_the_model_ended_the_turn_is_still_answered(
        self, caller: Caller, utterance: bytes
    ) -> None:
        self.needs(caller.model, "ends_turns")
        await caller.say(utterance)
        await caller.be_silent(2000)
        await caller.ear.first(ModelHeardTurn)
        item_id = await caller.commit()
        heard = await caller.ear.first(ModelHeardTurn, lambda turn: turn.item_id == item_id)
        assert heard.transcript == ""

    async def test_sessions_do_not_hear_each_other(self, ready: Model, utterance: bytes) -> None:
        speaking, silent = await self.opened(ready), await self.opened(ready)
        await speaking.say(utterance)
        await speaking.commit()
        await speaking.ask(self.question)
        await speaking.ear.first(ModelSpoke)
        assert silent.ear.signals == []
        await speaking.perform(CloseModel())
        await silent.ask(self.question, "text")
        if ready.info.takes_text_turns:
            await silent.ear.first(ModelFinished)
        await silent.perform(CloseModel())

    async def test_odd_requests_are_no_reason_to_fail(self, caller: Caller, utterance: bytes) -> None:
        await caller.perform(FeedAudio(epoch=0, pcm=b"", end_ms=0))
        await caller.perform(FeedAudio(epoch=0, pcm=utterance[:401], end_ms=6))
        await caller.perform(ToolOutput(epoch=0, call_id="call_nobody_made", output="{"))
        await caller.perform(ReconfigureModel(overlap_policy="listen_only", turn_detection={"type": "server_vad"}))
        await caller.perform(Interrupt(epoch=caller.epoch))
        await caller.perform(ResetInput(epoch=0))
        await caller.ear.quiet()
        assert [failure for failure in caller.ear.of(ModelFailed) if failure.fatal] == []

    async def test_a_tool_output_that_wants_no_response_gets_none(self, caller: Caller) -> None:
        await caller.perform(ToolOutput(epoch=caller.epoch, call_id="call_1", output="42", respond=False))
        await caller.ear.quiet()
        assert caller.ear.of(ModelSpoke) == []

    async def test_listening_has_a_reason(self, caller: Caller) -> None:
        await caller.be_silent(300)
        await caller.commit()
        await caller.ear.quiet()
        assert all(listened.reason for listened in caller.ear.of(ModelListened))
