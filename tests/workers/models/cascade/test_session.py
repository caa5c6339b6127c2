"""The cascade as its caller knows it: real detector, real recogniser, real voice, a synthetic caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest

from duplex_es.model import (
    CloseModel,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    ModelCalledFunction,
    ModelFinished,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelInterrupted,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    ToolOutput,
)
from duplex_es.testing.model_suite import Caller, ModelSuite, check_order, words_of
from tests.support.cascade import shared_cascade, shared_parts
from tests.support.voices import silence, spoken

pytestmark = pytest.mark.unit

Opening = Callable[..., Awaitable[Caller]]

PACED = {"lead_ms": "600"}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture
async def opening() -> AsyncIterator[Opening]:
    """Opens sessions that speak as fast as they can, unless told otherwise; at the end all they said is checked."""
    callers: list[Caller] = []

    async def opened(options: dict[str, str] | None = None, **fields: object) -> Caller:
        model = shared_cascade(**{"lead_ms": "none", **(options or {})})
        await model.load()
        callers.append(await ModelSuite().opened(model, **fields))
        return callers[-1]

    yield opened
    for caller in callers:
        await caller.perform(CloseModel())
        check_order(caller.ear.signals)


async def say(caller: Caller, text: str, then_silent_ms: int = 800) -> None:
    """Speak as fast as the session takes it, then fall silent."""
    await caller.say(spoken(text).tobytes())
    await caller.say(silence(then_silent_ms).tobytes())


async def answer_to(caller: Caller, turn: int) -> str:
    return words_of(await caller.ear.answered(turn))


async def start_story(caller: Caller) -> None:
    await caller.ask("Tell me a story.")
    await caller.ear.first(ModelProducedAudio)


async def test_a_spoken_question_is_answered_aloud(opening: Opening) -> None:
    caller = await opening()
    await caller.be_silent(300)
    await say(caller, "What is seven plus five?")
    heard = await caller.ear.first(ModelHeardTurn)
    began, stopped = caller.ear.of(ModelHeardSpeech)[0], caller.ear.of(ModelHeardSpeechEnd)[0]
    length_ms = len(spoken("What is seven plus five?")) // 16
    assert heard.transcript == "What is 7 plus 5?"
    assert heard.item_id is None
    assert abs(began.start_ms - 300) <= 150
    assert 300 + length_ms <= stopped.end_ms <= 300 + length_ms + 700
    assert await answer_to(caller, 0) == "7 plus 5 is 12."
    assert [type(signal) for signal in caller.ear.signals][:4] == [
        ModelHeardSpeech,
        ModelHeardSpeechEnd,
        ModelHeardTurn,
        ModelSpoke,
    ]


async def test_a_commit_is_taken_without_waiting_for_silence(opening: Opening) -> None:
    caller = await opening()
    await caller.say(spoken("What is seven plus five?").tobytes())
    item_id = await caller.commit()
    heard = await caller.ear.first(ModelHeardTurn)
    assert (heard.item_id, heard.transcript) == (item_id, "What is 7 plus 5?")
    assert await answer_to(caller, 0) == "7 plus 5 is 12."


async def test_speech_over_the_answer_cuts_it_and_is_answered(opening: Opening) -> None:
    caller = await opening(PACED)
    await start_story(caller)
    await say(caller, "What time is it?")
    cut = await caller.ear.first(ModelInterrupted)
    heard = await caller.ear.first(ModelHeardTurn)
    kinds = [type(signal) for signal in caller.ear.signals]
    assert (cut.turn, cut.epoch, cut.reason) == (0, 0, "barge_in")
    assert kinds.index(ModelHeardSpeech) < kinds.index(ModelInterrupted) < kinds.index(ModelHeardTurn)
    assert (heard.transcript, heard.epoch) == ("What time is it?", 1)
    assert await answer_to(caller, 1) == "It is 12:05 PM."


async def test_the_sessions_own_interrupt_after_a_cut_does_not_cut_the_next_answer(opening: Opening) -> None:
    caller = await opening(PACED)
    await start_story(caller)
    await say(caller, "What time is it?")
    await caller.ear.first(ModelSpoke, lambda spoke: spoke.turn == 1)
    await caller.interrupt()
    assert await answer_to(caller, 1) == "It is 12:05 PM."


async def test_an_acknowledgement_does_not_cut_the_answer(opening: Opening) -> None:
    caller = await opening(PACED)
    await start_story(caller)
    await say(caller, "Okay.")
    stopped = await caller.ear.first(ModelHeardSpeechEnd)
    told = len(caller.ear.signals)
    await caller.ear.first(ModelProducedAudio, after=told)
    assert not stopped.is_turn
    assert caller.ear.of(ModelInterrupted) == []
    assert caller.ear.of(ModelHeardTurn) == []


async def test_an_acknowledgement_outside_an_answer_is_a_turn(opening: Opening) -> None:
    caller = await opening()
    await say(caller, "Okay.")
    assert (await caller.ear.first(ModelHeardTurn)).transcript.lower().startswith("ok")
    await caller.ear.first(ModelFinished)


async def test_a_model_told_to_listen_only_answers_after_its_own_answer(opening: Opening) -> None:
    caller = await opening(PACED, overlap_policy="listen_only")
    await caller.ask("Count to four.")
    await caller.ear.first(ModelProducedAudio)
    await say(caller, "What time is it?")
    assert await answer_to(caller, 1) == "It is 12:05 PM."
    assert caller.ear.of(ModelInterrupted) == []
    assert words_of([s for s in caller.ear.signals if getattr(s, "turn", None) == 0]) == "1, 2, 3, 4."


async def test_noise_is_no_turn(opening: Opening) -> None:
    caller = await opening()
    await caller.say((np.random.default_rng(3).standard_normal(16_000) * 0.05).astype(np.float32).tobytes())
    await caller.commit()
    assert (await caller.ear.first(ModelHeardTurn)).transcript == ""
    assert (await caller.ear.first(ModelListened)).reason == "silence_or_noise"


async def test_speech_the_client_declares_silent_is_not_heard(opening: Opening) -> None:
    caller = await opening()
    pcm = spoken("What is seven plus five?").tobytes()
    await caller.perform(FeedAudio(epoch=0, pcm=pcm, end_ms=2000, is_speech=False))
    await caller.commit()
    assert (await caller.ear.first(ModelHeardTurn)).transcript == ""
    assert caller.ear.of(ModelHeardSpeech) == []


async def test_while_it_must_listen_only_a_commit_ends_a_turn(opening: Opening) -> None:
    caller = await opening(modalities=("text",))
    pcm = np.concatenate([spoken("What is seven plus five?"), silence(1500)]).tobytes()
    await caller.perform(FeedAudio(epoch=0, pcm=pcm, end_ms=3500, force_listen=True))
    await caller.ear.first(ModelHeardSpeech)
    await caller.ear.quiet()
    assert [type(signal) for signal in caller.ear.signals] == [ModelHeardSpeech]
    await caller.commit()
    assert await answer_to(caller, 0) == "7 plus 5 is 12."
    await caller.perform(FeedAudio(epoch=0, pcm=pcm, end_ms=7000, force_listen=False))
    assert await answer_to(caller, 1) == "7 plus 5 is 12."


async def test_without_auto_response_only_a_commit_ends_a_turn(opening: Opening) -> None:
    caller = await opening(extra_body={"auto_response": False})
    await say(caller, "What is seven", then_silent_ms=1500)
    await say(caller, "plus five?", then_silent_ms=1500)
    item_id = await caller.commit()
    heard = await caller.ear.first(ModelHeardTurn)
    assert heard.item_id == item_id
    assert [type(signal) for signal in caller.ear.signals][:3] == [
        ModelHeardSpeech,
        ModelHeardSpeechEnd,
        ModelHeardTurn,
    ]
    assert "7" in heard.transcript and "5" in heard.transcript


async def test_the_clients_turn_detection_sets_the_silence_that_ends_a_turn(opening: Opening) -> None:
    caller = await opening(turn_detection={"type": "server_vad", "silence_duration_ms": 1600})
    await say(caller, "What is seven", then_silent_ms=1000)
    await say(caller, "plus five?", then_silent_ms=2000)
    heard = await caller.ear.first(ModelHeardTurn)
    assert len(caller.ear.of(ModelHeardSpeech)) == 1
    assert "7" in heard.transcript and "5" in heard.transcript


async def test_a_tool_is_called_and_its_output_is_said(opening: Opening) -> None:
    caller = await opening(tools=(WEATHER,))
    await caller.say(spoken("What is the weather in Paris?").tobytes())
    await caller.commit()
    call = await caller.ear.first(ModelCalledFunction)
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Paris"}')
    assert call.call_id is not None
    assert len(call.call_id) <= 32, "stock clients hash longer ones"
    output = '{"temperature": 21, "condition": "sunny"}'
    await caller.perform(ToolOutput(epoch=0, call_id=call.call_id or "", output=output))
    assert await answer_to(caller, 1) == "The temperature is 21 and the condition is sunny."


async def test_asking_for_the_answer_to_a_tool_output_gives_one_answer(opening: Opening) -> None:
    caller = await opening(tools=(WEATHER,), extra_body={"auto_response": False})
    await caller.ask("What is the weather in Paris?", "text")
    call = await caller.ear.first(ModelCalledFunction)
    await caller.ear.first(ModelFinished)
    await caller.perform(ToolOutput(epoch=0, call_id=call.call_id or "", output="sunny"))
    history = (
        HistoryItem(item_id="a", role="user", text="What is the weather in Paris?"),
        HistoryItem(item_id="b", role="assistant", text=call.arguments, call_id=call.call_id, name=call.name),
        HistoryItem(item_id="c", role="tool", text="sunny", call_id=call.call_id),
    )
    await caller.perform(Generate(epoch=0, response_id="resp_2", history=history, modalities=("text",)))
    assert await answer_to(caller, 1) == "Sunny."
    await caller.ear.quiet()
    assert len(caller.ear.of(ModelSpoke)) == 2


async def test_a_rebuilt_session_remembers(opening: Opening) -> None:
    history = (
        HistoryItem(item_id="a", role="user", text="My name is Martin."),
        HistoryItem(item_id="b", role="assistant", text="Hello Martin, nice to meet you."),
    )
    caller = await opening(history=history, modalities=("text",))
    await caller.say(spoken("What is my name?").tobytes())
    await caller.commit()
    assert await answer_to(caller, 0) == "Your name is Martin."
    assert caller.ear.of(ModelProducedAudio) == []
    assert caller.ear.of(ModelProducedText) != []


async def test_only_what_was_heard_of_an_interrupted_answer_is_remembered(opening: Opening) -> None:
    caller = await opening(PACED, modalities=("text",))
    await start_story(caller)
    await caller.perform(Interrupt(epoch=1, heard_text="Once there was"))
    caller.epoch = 1
    await caller.say(spoken("Can you repeat that, please?").tobytes())
    await caller.commit()
    spoke = await caller.ear.first(ModelSpoke, lambda signal: signal.epoch == 1)
    assert await answer_to(caller, spoke.turn) == "Once there was"


async def test_a_request_for_an_answer_waits_for_what_is_still_being_understood(opening: Opening) -> None:
    caller = await opening()
    await caller.say(spoken("What is seven plus five?").tobytes())
    item_id = await caller.commit(respond=False)
    history = (HistoryItem(item_id=item_id, role="user", text=""),)
    await caller.perform(Generate(epoch=0, response_id="resp_1", history=history, modalities=("text",)))
    assert await answer_to(caller, 0) == "7 plus 5 is 12."
    assert len(caller.ear.of(ModelSpoke)) == 1


async def test_a_request_may_say_what_is_to_be_said(opening: Opening) -> None:
    caller = await opening()
    request = Generate(epoch=0, response_id="r", history=(), instructions="Say: 'Welcome back.'", modalities=("text",))
    await caller.perform(request)
    assert await answer_to(caller, 0) == "Welcome back."


async def test_speech_never_runs_far_ahead_of_its_own_playing_time(opening: Opening) -> None:
    caller = await opening({"lead_ms": "400"})
    loop = asyncio.get_running_loop()
    played_from, ahead, produced_s = 0.0, [], 0.0

    async def watch() -> None:
        nonlocal played_from, produced_s
        told = 0
        while produced_s < 3.0 and not caller.ear.of(ModelFinished):
            await caller.ear.first(ModelProducedAudio | ModelFinished, after=told)  # type: ignore[arg-type]
            for signal in caller.ear.signals[told:]:
                told += 1
                if isinstance(signal, ModelProducedAudio):
                    played_from = played_from or loop.time()
                    produced_s += len(signal.pcm) / 48_000
                    ahead.append(produced_s - (loop.time() - played_from))

    await caller.ask("Tell me a story.")
    await watch()
    assert produced_s >= 3.0
    assert max(ahead) <= 0.4 + 1.0, "a moment in which the machine was busy is no lead"


async def test_a_recogniser_that_fails_says_so_of_the_very_item(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    caller = await opening()
    await caller.say(spoken("What is seven plus five?").tobytes())
    monkeypatch.setattr(type(shared_parts()), "understand", broken)
    item_id = await caller.commit()
    heard = await caller.ear.first(ModelHeardTurn)
    assert (heard.item_id, heard.transcript) == (item_id, "")
    assert heard.failed == "speech recognition failed: out of memory"
