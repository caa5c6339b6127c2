"""Every verb of a script does what its table says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from duplex_es.model import (
    CloseModel,
    ContinueAnswer,
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
    ModelSpoke,
    Recipe,
    Signal,
    ToolOutput,
)
from duplex_es.testing.model_suite import Caller, ModelSuite, check_order, words_of
from workers.models.pcm import tone
from workers.models.scripted import PLUGIN

pytestmark = pytest.mark.unit

Opening = Callable[..., Awaitable[Caller]]
Steps = list[dict[str, Any]]


@pytest.fixture
async def opening() -> AsyncIterator[Opening]:
    """Opens sessions that play a script as fast as they can."""
    callers: list[Caller] = []

    async def opened(steps: Steps, lead_ms: str = "none") -> Caller:
        model = PLUGIN({"lead_ms": lead_ms})
        callers.append(await ModelSuite().opened(model, extra_body={"script": steps}))
        return callers[-1]

    yield opened
    for caller in callers:
        await caller.perform(CloseModel())
        check_order(caller.ear.signals)


def on(event: str, *actions: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {"on": event, "do": list(actions), **fields}


FINISH: dict[str, Any] = {"finish": True}


async def test_a_commit_is_heard_as_the_script_says_and_answered(opening: Opening) -> None:
    caller = await opening([on("end_turn", {"audio_ms": 400, "text": "It is sunny."}, FINISH, transcript="weather?")])
    item_id = await caller.commit()
    answer = await caller.ear.answered(0)
    assert caller.ear.signals[0] == ModelHeardTurn(epoch=0, transcript="weather?", item_id=item_id)
    assert words_of(answer) == "It is sunny."
    audio = [signal for signal in answer if isinstance(signal, ModelProducedAudio)]
    assert b"".join(signal.pcm for signal in audio) == tone(0, 9600, 440, 24_000)
    assert [(len(signal.pcm) // 48, signal.text) for signal in audio] == [(160, "It is "), (160, "sunny."), (80, "")]


async def test_steps_of_one_kind_run_in_order_and_then_no_more(opening: Opening) -> None:
    caller = await opening([on("end_turn", {"text": "one"}, FINISH), on("end_turn", {"text": "two"}, FINISH)])
    for _ in range(3):
        await caller.commit()
    assert (await caller.ear.first(ModelListened)).reason == "model_listen"
    await caller.ear.answered(1)
    assert words_of(caller.ear.signals) == "onetwo"
    assert len(caller.ear.of(ModelHeardTurn)) == 3


async def test_a_step_for_every_event_is_never_used_up(opening: Opening) -> None:
    caller = await opening([on("end_turn", {"text": "again "}, FINISH, every=True)])
    for _ in range(3):
        await caller.commit()
    await caller.ear.answered(2)
    assert words_of(caller.ear.signals) == "again again again "


async def test_a_request_is_answered_under_its_id_or_listened_to(opening: Opening) -> None:
    caller = await opening([on("generate", {"audio_ms": 100, "text": "Hi."}, FINISH)])
    await caller.ask("?", "text", response_id="resp_1")
    answer = await caller.ear.answered(0)
    assert [type(signal) for signal in answer] == [ModelSpoke, ModelProducedText, ModelFinished]
    assert caller.ear.of(ModelSpoke)[0].response_id == "resp_1"
    await caller.ask("?", response_id="resp_2")
    assert (await caller.ear.first(ModelListened)).response_id == "resp_2"


async def test_a_commit_without_a_response_skips_what_speaks(opening: Opening) -> None:
    caller = await opening([on("end_turn", {"text": "no"}, {"listen": "buffering"}, {"function_call": {}}, FINISH)])
    await caller.commit(respond=False)
    await caller.ear.first(ModelListened, lambda listened: listened.reason == "buffering")
    assert {type(signal) for signal in caller.ear.signals} == {ModelHeardTurn, ModelListened}


async def test_caller_audio_triggers_steps_even_while_the_model_speaks(opening: Opening) -> None:
    caller = await opening(
        [
            on("generate", {"audio_ms": 60_000, "text": "A long story."}, FINISH),
            on("audio_ms", {"heard_speech": True}, {"interrupt": "barge_in"}, at=200),
            on("audio_ms", {"heard_speech_end": True}, {"heard": {"transcript": "stop", "audio_ms": 300}}, at=500),
            on("audio_ms", {"text": "Okay."}, FINISH, at=600),
        ],
        lead_ms="300",
    )
    await caller.ask("?")
    await caller.ear.first(ModelProducedAudio)
    await caller.be_silent(300)
    cut = await caller.ear.first(ModelInterrupted)
    await caller.be_silent(400)
    await caller.ear.answered(1)
    assert (cut.turn, cut.epoch, cut.reason) == (0, 0, "barge_in")
    after = caller.ear.signals[caller.ear.signals.index(cut) + 1 :]
    assert after[0] == ModelHeardSpeechEnd(epoch=1, end_ms=500)
    assert after[1] == ModelHeardTurn(epoch=1, transcript="stop", audio_ms=300)
    assert caller.ear.of(ModelHeardSpeech)[0].start_ms == 200


async def test_noise_is_told_from_a_turn(opening: Opening) -> None:
    caller = await opening([on("open", {"heard_speech": 40}, {"heard_speech_end": "noise"})])
    assert (await caller.ear.first(ModelHeardSpeechEnd)).is_turn is False
    assert caller.ear.of(ModelHeardSpeech)[0].start_ms == 40


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"name": "f", "call_id": "c", "arguments": {"a": 1}}, ("c", "f", '{"a": 1}')),
        ({"name": "f", "call_id": "c", "arguments": "{broken"}, ("c", "f", "{broken")),
        ({"arguments": {}}, (None, None, "{}")),
    ],
)
async def test_a_function_call_is_made_as_written(opening: Opening, call: dict[str, Any], expected: object) -> None:
    caller = await opening([on("open", {"function_call": call}), on("tool_output", {"text": "done"}, FINISH)])
    made = await caller.ear.first(ModelCalledFunction)
    assert (made.call_id, made.name, made.arguments) == expected
    await caller.perform(ToolOutput(epoch=0, call_id="c", output="x"))
    assert words_of(await caller.ear.answered(made.turn + 1)) == "done"


async def test_a_failure_is_reported_as_written(opening: Opening) -> None:
    failure = {"code": "chat_error", "message": "gone", "fatal": True}
    caller = await opening([on("end_turn", {"text": "I"}, {"fail": failure}, {"text": "again"}, FINISH)])
    await caller.commit()
    failed = await caller.ear.first(ModelFailed)
    assert failed == ModelFailed(epoch=0, code="chat_error", message="gone", fatal=True)
    await caller.ear.answered(1)


async def test_an_answer_nobody_finishes_stays_open_and_can_be_gone_on_with(opening: Opening) -> None:
    caller = await opening([on("end_turn", {"text": "half "}), on("tool_output", {"text": "whole"}, FINISH)])
    await caller.commit()
    await caller.ear.first(ModelProducedText)
    assert caller.ear.of(ModelFinished) == []
    await caller.perform(ToolOutput(epoch=0, call_id="c", output="x"))
    assert words_of(await caller.ear.answered(0)) == "half whole"


async def test_waiting_for_audio_ends_when_it_has_come(opening: Opening) -> None:
    caller = await opening([on("open", {"wait_audio_ms": 300}, {"wait_ms": 1}, {"text": "now"}, FINISH)])
    await caller.be_silent(200)
    assert await caller.ear.quiet() == 0
    await caller.be_silent(100)
    await caller.ear.answered(0)


async def test_a_step_can_follow_an_interruption(opening: Opening) -> None:
    steps = [on("generate", {"audio_ms": 9000}, FINISH), on("interrupt", {"listen": "model_listen"})]
    caller = await opening(steps, lead_ms="200")
    await caller.ask("?")
    await caller.ear.first(ModelProducedAudio)
    await caller.interrupt()
    listened = await caller.ear.first(ModelListened)
    last: Signal = caller.ear.signals[-1]
    assert listened.epoch == 1
    assert last is listened


async def test_fast_audio_ignores_the_pace(opening: Opening) -> None:
    action = {"audio_ms": 30_000, "pace": "fast", "text": "x", "chunk_ms": 1000, "tone_hz": 200}
    caller = await opening([on("end_turn", action, FINISH)], lead_ms="200")
    await caller.commit()
    answer = await caller.ear.answered(0)
    assert sum(isinstance(signal, ModelProducedAudio) for signal in answer) == 30


# -- going on where another worker stopped ---------------------------------------------------------------------------


async def begun(opening: Opening, steps: Steps) -> Recipe:
    """The recipe of the answer to a first commit."""
    caller = await opening(steps)
    await caller.commit()
    recipe = (await caller.ear.first(ModelSpoke)).recipe
    assert recipe is not None
    return recipe


async def test_what_stands_beside_an_answer_is_not_done_again(opening: Opening) -> None:
    begin: Steps = [{"audio_ms": 320, "text": "One "}, {"heard_speech": 5}, {"wait_ms": 60_000}]
    steps = [on("end_turn", {"listen": "buffering"}, *begin, {"audio_ms": 160, "text": "two."}, FINISH)]
    recipe = await begun(opening, steps)
    caller = await opening(steps)
    await caller.perform(ContinueAnswer(epoch=0, turn=3, recipe=recipe, said_samples=9_000, said_chars=8))
    answer = await caller.ear.answered(3)
    assert words_of(answer) == "One two."
    assert caller.ear.of(ModelListened) == []
    assert caller.ear.of(ModelHeardSpeech) == []


async def test_a_sound_without_an_end_is_found_again_at_once(opening: Opening) -> None:
    steps = [on("end_turn", {"audio_ms": 80, "endless": True})]
    recipe = await begun(opening, steps)
    caller = await opening(steps)
    await caller.perform(ContinueAnswer(epoch=0, turn=0, recipe=recipe, said_samples=24_000 * 30))
    await caller.ear.first(ModelProducedAudio, after=30 * 1_000 // 80)
    await caller.interrupt()


async def test_an_answer_that_another_step_went_on_with_is_given_up(opening: Opening) -> None:
    steps = [on("end_turn", {"audio_ms": 160}), on("tool_output", {"audio_ms": 160}, FINISH)]
    recipe = await begun(opening, steps)
    caller = await opening(steps)
    await caller.perform(ContinueAnswer(epoch=0, turn=0, recipe=recipe, said_samples=5_000))
    assert (await caller.ear.first(ModelFailed)).code == "worker_lost"


async def test_used_up_steps_stay_used_up_and_an_opening_is_not_played_again(opening: Opening) -> None:
    steps = [
        on("open", {"text": "Hello."}, FINISH),
        on("end_turn", {"text": "one"}, FINISH),
        on("end_turn", {"text": "two"}, FINISH),
    ]
    recipe = await begun(opening, steps[1:])
    caller = await ModelSuite().opened(PLUGIN({"lead_ms": "none"}), extra_body={"script": steps[1:]}, resumed=True)
    await caller.perform(ContinueAnswer(epoch=0, turn=0, recipe=recipe))
    await caller.commit()
    assert [words_of(await caller.ear.answered(turn)) for turn in (0, 1)] == ["one", "two"]
    await caller.perform(CloseModel())
    greeting = await ModelSuite().opened(PLUGIN({"lead_ms": "none"}), extra_body={"script": steps}, resumed=True)
    await greeting.ear.quiet()
    assert greeting.ear.signals == []
    await greeting.perform(CloseModel())


@pytest.mark.parametrize("options", [{"can_rebuild": "no"}, {"profile": "qwen3_omni"}])
async def test_a_model_that_cannot_leaves_no_recipe(options: dict[str, str]) -> None:
    model = PLUGIN({"lead_ms": "none", **options})
    caller = await ModelSuite().opened(model)
    await caller.commit()
    assert not model.info.can_rebuild
    assert (await caller.ear.first(ModelSpoke)).recipe is None
    await caller.perform(CloseModel())
