"""The promises of ``duplex_es.model.contract`` as tests: subclass ``ModelSuite`` and give it your model.

A subclass overrides the ``model`` fixture (an instance that is not loaded yet), and, where a tone is not speech to the
model, ``utterance``. It names what its model's card promises, of ``PROMISES``: the tests of those are collected and no
others, and one test holds the list against the card. Needs pytest and pytest-asyncio::

    class TestMyModel(ModelSuite, promises=("transcribes", "takes_text_turns")):
        @pytest.fixture
        def model(self):
            return my_package.PLUGIN({})

Without a list everything is collected, and what the card does not promise is skipped by name.
"""

from __future__ import annotations

import array
import asyncio
import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from ..model import (
    CloseModel,
    ContinueAnswer,
    FeedAudio,
    HistoryItem,
    Interrupt,
    Model,
    ModelFailed,
    ModelFinished,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelInfo,
    ModelListened,
    ModelProducedAudio,
    ModelRemembered,
    ModelSpoke,
    OpenModel,
    Recipe,
    ReconfigureModel,
    ResetInput,
    Sound,
    ToolOutput,
)
from .model_stage import Caller, Ear, check_order, sound_of, words_of

__all__ = ["PROMISES", "Caller", "Ear", "ModelSuite", "check_order", "sound_of", "words_of"]

PROMISES: dict[str, Callable[[ModelInfo], bool]] = {
    "transcribes": lambda info: info.transcribes,
    "takes_text_turns": lambda info: info.takes_text_turns,
    "ends_turns": lambda info: info.ends_turns,
    "can_rebuild": lambda info: info.can_rebuild,
    "steps": lambda info: info.memory_bytes > 0 and not info.transcribes,
}
"""What not every card promises, and how it says so. ``steps``: it never begins anew, but goes on from its memory."""

Test = Callable[..., Awaitable[None]]


def promised(*names: str) -> Callable[[Test], Test]:
    """Mark a test of a suite as one of promises that not every card makes."""

    def mark(test: Test) -> Test:
        @functools.wraps(test)
        async def run(self: ModelSuite, **given: Any) -> None:
            info = given["ready"].info if "ready" in given else given["caller"].model.info
            if lacking := [name for name in names if not PROMISES[name](info)]:
                pytest.skip(f"{info.name} does not promise {', '.join(lacking)}: name what it does, promises=(…)")
            await test(self, **given)

        run.promises = names  # type: ignore[attr-defined]
        return run

    return mark


class ModelSuite:
    """Every promise of the contract, one test each."""

    promises: ClassVar[frozenset[str] | None] = None
    """What is tested; ``None``: what the card says once it is seen."""

    ear: ClassVar[type[Ear]] = Ear
    """What listens to a session."""

    question = "Say hello to Martin, please."
    """What is typed at the model; its answer must last longer than the pace lets it say at once."""

    answers_unasked = False
    """Whether sessions as they are opened here may speak by themselves, whatever the card says that they begin with."""

    short_question = "Hello."
    """One whose answer is over within a few seconds."""

    def __init_subclass__(cls, promises: Collection[str] | None = None, **more: Any) -> None:
        """Leave out the tests of what is not among ``promises``. Raises: ValueError for a promise that is none."""
        super().__init_subclass__(**more)
        if promises is None:
            return
        if unknown := set(promises) - set(PROMISES):
            raise ValueError(f"promises: {', '.join(sorted(unknown))} is none of {', '.join(PROMISES)}")
        cls.promises = frozenset(promises)
        for name in dir(cls):
            if name.startswith("test_") and not cls.promises.issuperset(getattr(getattr(cls, name), "promises", ())):
                setattr(cls, name, None)  # What is no function is not collected.

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
        ear = self.ear()
        settings: dict[str, object] = {
            "session_id": "sess_1",
            "overlap_policy": model.info.overlap_policy,
            **fields,
        }
        request = OpenModel(incarnation=0, epoch=0, **settings)  # type: ignore[arg-type]
        return Caller(model, await model.open(request, ear), ear)

    async def test_the_card_can_be_believed(self, ready: Model) -> None:
        info = ready.info
        assert info.name
        assert info.input_rate_hz > 0
        assert info.output_rate_hz > 0
        assert info.overlap_policy in {"listen_only", "barge_in_on_speech"}
        assert info.capabilities.chunk_period_ms > 0
        made = {name for name, is_made in PROMISES.items() if is_made(info)}
        assert self.promises in {None, frozenset(made)}, "the card promises something else than what is tested"

    async def test_opening_says_nothing_and_may_bring_a_history(self, ready: Model) -> None:
        history = (
            HistoryItem(item_id="a", role="user", text="My name is Martin."),
            HistoryItem(item_id="b", role="assistant", text="Hello Martin."),
        )
        caller = await self.opened(ready, history=history, instructions="Be brief.")
        await caller.ear.quiet()
        assert caller.ear.signals == []
        await caller.perform(CloseModel())

    @promised("transcribes")
    async def test_a_commit_is_answered_with_what_was_heard(self, caller: Caller, utterance: bytes) -> None:
        await caller.say(utterance)
        item_id = await caller.commit()
        await caller.ear.first(ModelHeardTurn, lambda heard: heard.item_id == item_id)
        await caller.ear.quiet()
        assert [heard.item_id for heard in caller.ear.of(ModelHeardTurn)] == [item_id]

    @promised("transcribes")
    async def test_a_commit_of_silence_is_heard_as_nothing(self, caller: Caller) -> None:
        await caller.be_silent(1000)
        item_id = await caller.commit()
        heard = await caller.ear.first(ModelHeardTurn)
        assert (heard.item_id, heard.transcript) == (item_id, "")

    @promised("transcribes")
    async def test_every_commit_gets_its_own_answer_in_order(self, caller: Caller, utterance: bytes) -> None:
        await caller.say(utterance)
        items = [await caller.commit(), await caller.commit(), await caller.commit()]
        await caller.ear.first(ModelHeardTurn, lambda heard: heard.item_id == items[-1])
        assert [heard.item_id for heard in caller.ear.of(ModelHeardTurn)] == items

    async def test_a_commit_that_wants_no_response_gets_none(self, caller: Caller, utterance: bytes) -> None:
        await caller.say(utterance)
        await caller.ear.quiet()
        by_itself = caller.ear.of(ModelSpoke)
        assert by_itself == [] or caller.model.info.auto_response or self.answers_unasked
        await caller.commit(respond=False)
        await caller.ear.quiet()
        assert caller.ear.of(ModelSpoke) == by_itself

    @promised("takes_text_turns")
    async def test_a_written_answer_has_no_audio(self, caller: Caller) -> None:
        await caller.ask(self.short_question, "text", response_id="resp_7")
        spoke = await caller.ear.first(ModelSpoke)
        answer = await caller.ear.answered(spoke.turn)
        assert spoke.response_id == "resp_7"
        assert words_of(answer).strip()
        assert not any(isinstance(signal, ModelProducedAudio) for signal in answer)

    @promised("takes_text_turns")
    async def test_a_spoken_answer_has_the_words_of_the_written_one(self, ready: Model) -> None:
        said = []
        for modalities in (("text",), ("text", "audio")):
            caller = await self.opened(ready)
            await caller.ask(self.short_question, *modalities)
            said.append(words_of(await caller.ear.answered((await caller.ear.first(ModelSpoke)).turn)))
            await caller.perform(CloseModel())
        assert said[0] == said[1]

    @promised("takes_text_turns")
    async def test_an_interrupted_answer_stops_at_once(self, caller: Caller) -> None:
        await caller.ask(self.question)
        await caller.ear.first(ModelProducedAudio)
        await caller.interrupt()
        told = len(caller.ear.signals)
        await caller.ear.quiet()
        assert [signal for signal in caller.ear.signals[told:] if signal.epoch < caller.epoch] == []
        assert caller.ear.of(ModelFinished) == [], "the answer was over before it could be cut: ask a longer question"

    @promised("takes_text_turns")
    async def test_the_next_answer_comes_under_the_new_epoch(self, caller: Caller) -> None:
        await caller.ask(self.question, response_id="resp_1")
        first = await caller.ear.first(ModelSpoke)
        await caller.interrupt()
        await caller.ask(self.short_question, "text", response_id="resp_2")
        second = await caller.ear.first(ModelSpoke, lambda spoke: spoke.response_id == "resp_2")
        assert second.epoch == caller.epoch
        assert second.turn > first.turn
        await caller.ear.answered(second.turn)

    @promised("transcribes")
    async def test_a_commit_is_still_heard_when_its_answer_is_interrupted(
        self, caller: Caller, utterance: bytes
    ) -> None:
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

    @promised("transcribes")
    async def test_cleared_audio_is_forgotten(self, caller: Caller, utterance: bytes) -> None:
        await caller.say(utterance)
        await caller.perform(ResetInput(epoch=0))
        item_id = await caller.commit()
        heard = await caller.ear.first(ModelHeardTurn, lambda turn: turn.item_id == item_id)
        assert (heard.transcript, heard.audio_ms) == ("", 0)

    @promised("ends_turns")
    async def test_a_model_that_ends_turns_reports_one_in_order(self, caller: Caller, utterance: bytes) -> None:
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

    @promised("ends_turns")
    async def test_a_commit_after_the_model_ended_the_turn_is_still_answered(
        self, caller: Caller, utterance: bytes
    ) -> None:
        await caller.say(utterance)
        await caller.be_silent(2000)
        await caller.ear.first(ModelHeardTurn)
        item_id = await caller.commit()
        heard = await caller.ear.first(ModelHeardTurn, lambda turn: turn.item_id == item_id)
        assert heard.transcript == ""

    async def test_sessions_do_not_hear_each_other(self, ready: Model, utterance: bytes) -> None:
        speaking, silent = await self.opened(ready), await self.opened(ready, session_id="sess_2")
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

    @promised("takes_text_turns")
    async def test_an_answer_is_the_same_whatever_runs_beside_it(self, ready: Model) -> None:
        said = []
        for beside in ((), ("sess_2", "sess_3")):
            company = [await self.opened(ready, session_id=name) for name in beside]
            for other in company:
                await other.ask(self.question)
                await other.ear.first(ModelSpoke)
            caller = await self.opened(ready)
            await caller.ask(self.short_question)
            answer = await caller.ear.answered((await caller.ear.first(ModelSpoke)).turn)
            said.append((words_of(answer), sound_of(answer)))
            for one in (caller, *company):
                await one.perform(CloseModel())
        assert said[0] == said[1]

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

    # -- going on in another process -------------------------------------------------------------------------------

    @promised("can_rebuild", "takes_text_turns")
    async def test_an_answer_to_words_is_the_same_in_another_process(self, ready: Model) -> None:
        await self.check_going_on(ready, lambda caller: caller.ask(self.short_question, response_id="resp_7"))

    @promised("can_rebuild", "takes_text_turns")
    async def test_a_written_answer_is_the_same_in_another_process(self, ready: Model) -> None:
        await self.check_going_on(ready, lambda caller: caller.ask(self.short_question, "text", response_id="resp_7"))

    @promised("can_rebuild")
    async def test_an_answer_to_speech_is_the_same_in_another_process(self, ready: Model, utterance: bytes) -> None:
        async def speak(caller: Caller) -> None:
            await caller.be_silent(400)
            await caller.say(utterance)
            await caller.commit()

        await self.check_going_on(ready, speak)

    async def check_going_on(self, model: Model, talk: Callable[[Caller], Awaitable[None]]) -> None:
        """Fail unless an answer comes again as it was, whenever it broke off, and the session goes on after it."""
        first = await self.opened(model)
        await talk(first)
        spoke = await first.ear.first(ModelSpoke)
        whole = await first.ear.answered(spoke.turn)
        await first.perform(CloseModel())
        for said in sorted({1, 2, len(whole) // 2, len(whole) - 1}):
            caller = await self.opened(model, resumed=True)
            begun = replace(spoke, turn=spoke.turn + 4)
            await caller.go_on(begun, whole, said, first.heard_in(spoke))
            again = await caller.ear.answered(begun.turn)
            assert next(signal for signal in again if isinstance(signal, ModelSpoke)) == begun
            assert (words_of(again), sound_of(again)) == (words_of(whole), sound_of(whole)), f"after {said} signals"
            if model.info.takes_text_turns:
                await caller.ask(self.short_question, "text", response_id="resp_8")
                after = await caller.ear.first(ModelSpoke, lambda spoke: spoke.response_id == "resp_8")
                assert after.turn > begun.turn
            await caller.perform(CloseModel())
            check_order(caller.ear.signals)

    @promised("can_rebuild", "takes_text_turns")
    async def test_what_the_caller_has_had_of_an_answer_comes_at_once(self, ready: Model) -> None:
        first = await self.opened(ready)
        await first.ask(self.short_question)
        spoke = await first.ear.first(ModelSpoke)
        whole = await first.ear.answered(spoke.turn)
        await first.perform(CloseModel())
        caller = await self.opened(ready, resumed=True)
        began_s = asyncio.get_running_loop().time()
        await caller.go_on(spoke, whole, len(whole))
        await caller.ear.answered(spoke.turn)
        took_s = asyncio.get_running_loop().time() - began_s
        assert took_s < max(1.0, len(sound_of(whole)) / 2 / ready.info.output_rate_hz)
        await caller.perform(CloseModel())

    @promised("can_rebuild", "takes_text_turns")
    async def test_an_answer_that_goes_on_can_be_interrupted(self, ready: Model) -> None:
        first = await self.opened(ready)
        await first.ask(self.question)
        spoke = await first.ear.first(ModelSpoke)
        await first.ear.first(ModelProducedAudio)
        await first.perform(CloseModel())
        caller = await self.opened(ready, resumed=True)
        await caller.go_on(spoke, [], 0)
        await caller.ear.first(ModelProducedAudio)
        await caller.interrupt()
        told = len(caller.ear.signals)
        await caller.ear.quiet()
        assert [signal for signal in caller.ear.signals[told:] if signal.epoch < caller.epoch] == []
        await caller.perform(CloseModel())

    @promised("can_rebuild")
    async def test_a_recipe_nobody_wrote_is_no_reason_to_fail(self, caller: Caller) -> None:
        stranger = Recipe(notes={"stranger": [1, None]}, sound=Sound(first="?", offset=-1, samples=10**9, last=""))
        await caller.perform(ContinueAnswer(epoch=0, turn=0, recipe=stranger, said_samples=240))
        await caller.ear.quiet()
        assert [failure for failure in caller.ear.of(ModelFailed) if failure.fatal] == []

    # -- going on from a memory ------------------------------------------------------------------------------------

    @promised("steps")
    async def test_what_is_said_unasked_stops_at_once(self, caller: Caller, utterance: bytes) -> None:
        await self.hear(caller, utterance)
        await caller.interrupt()
        told = len(caller.ear.signals)
        await caller.ear.quiet()
        assert [signal for signal in caller.ear.signals[told:] if signal.epoch < caller.epoch] == []

    @promised("steps")
    async def test_it_goes_on_alike_from_the_same_memory_whatever_runs_beside_it(
        self, ready: Model, utterance: bytes
    ) -> None:
        first = await self.opened(ready)
        await self.hear(first, utterance)
        memory, turn = first.ear.memory(), first.ear.open_turn()
        await first.perform(CloseModel())
        alone = await self.gone_on(ready, utterance, memory, turn)
        in_company = await self.gone_on(ready, utterance, memory, turn, "sess_2")
        assert turn is None or not isinstance(alone.signals[0], ModelSpoke), "it must not begin again"
        # How far each came by now is the pace's to say.
        for one, other in (
            (self.comparable(alone.memory()), self.comparable(in_company.memory())),
            (sound_of(alone.signals), sound_of(in_company.signals)),
        ):
            both = min(len(one), len(other))
            assert both and one[:both] == other[:both]

    def comparable(self, memory: bytes) -> bytes:
        """What of a memory follows from the model alone; a voice of its own pace, say, does not."""
        return memory

    async def gone_on(self, model: Model, utterance: bytes, memory: bytes, turn: int | None, *beside: str) -> Ear:
        """What a session says that goes on from ``memory``, while others of these names are hearing something else."""
        company = [await self.opened(model, session_id=name) for name in beside]
        caller = await self.opened(model, resumed=True, memory=memory, open_turn=turn)
        for one in company:
            await one.say(utterance[: len(utterance) // 8 * 4])
        await self.hear(caller, utterance)
        for one in (caller, *company):
            await one.perform(CloseModel())
        return caller.ear

    async def hear(self, caller: Caller, utterance: bytes) -> None:
        """Let a model that steps hear most of a second, and wait until it has nothing more to say to it."""
        await caller.say(utterance[: caller.model.info.input_rate_hz * 4 * 8 // 10])
        await caller.ear.first(ModelRemembered)
        await caller.ear.quiet()
