"""One caller over toys in real processes: answers, tools, interruptions, and what happens when something dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from duplex_es.model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    ModelCalledFunction,
    ModelDroppedInput,
    ModelFailed,
    ModelFinished,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelRemembered,
    ModelSpoke,
    ReconfigureModel,
    Signal,
)
from duplex_es.testing.model_suite import check_order
from tests.support.nemotron_stage import Call, Ear, called, loaded
from tests.support.toy_nemotron import (
    BROKEN,
    CALL,
    CALL_ALL,
    LONG,
    SAID,
    SAY,
    SPEECH,
    TALE,
    UNCLOSED,
    frame,
)
from tests.support.toy_talker import sound_of
from workers.models.nemotron import NemotronModel
from workers.models.nemotron.calls import LONGEST_OUTPUT_CHARS, MOST_PENDING
from workers.models.nemotron.session import ANSWER_FRAMES, GAP_MS, HUSHED_FRAMES, LEAD_FRAMES, LISTEN_FRAMES
from workers.models.seat import Seat

pytestmark = [pytest.mark.unit, pytest.mark.asyncio(loop_scope="module")]

FRAME_BYTES = 441 * 2
SILENCE = {ModelRemembered, ModelListened}
"""What a model signals that only listens."""


def has(kind: type[Signal], count: int = 1):
    return lambda heard: sum(isinstance(one, kind) for one in heard) >= count


def sound(text: str) -> bytes:
    return b"".join(sound_of(word) for word in text.split())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def toy() -> AsyncIterator[NemotronModel]:
    async with loaded() as model:
        yield model


@pytest_asyncio.fixture(loop_scope="module")
async def call(toy: NemotronModel) -> AsyncIterator[Call]:
    call = await called(toy)
    yield call
    await call.perform(CloseModel())
    check_order(call.ear.heard)


# -- answers -------------------------------------------------------------------------------------------------------


async def test_what_the_model_writes_is_said_word_by_word_with_its_sound(call: Call) -> None:
    await call.frames(SAY)
    await call.goes_on_until(has(ModelFinished))
    assert (call.ear.words, call.ear.sound) == (SAID, sound(SAID))
    pieces = call.ear.of(ModelProducedAudio)
    assert len(pieces[0].pcm) <= (1 + LEAD_FRAMES) * FRAME_BYTES
    assert all(len(piece.pcm) <= FRAME_BYTES for piece in pieces[1:])
    assert [type(one) for one in call.ear.heard if not isinstance(one, ModelRemembered)][:2] == [
        ModelSpoke,
        ModelProducedAudio,
    ]


async def test_the_first_words_are_heard_before_the_model_has_written_the_last(call: Call) -> None:
    await call.frames(LONG)
    await call.goes_on_until(has(ModelProducedAudio))
    frames = len(call.ear.of(ModelRemembered))
    assert frames < len(TALE.split()) / 2
    assert call.ear.of(ModelProducedAudio)[0].text.startswith("Once")


async def test_a_caller_that_sends_nothing_more_is_answered_to_the_end(call: Call) -> None:
    await call.frames(SAY)
    await call.ear.has(ModelFinished)
    assert call.ear.words == SAID


async def test_a_turn_that_is_committed_is_answered_though_no_sound_follows_it(call: Call) -> None:
    await call.frames(SPEECH, SPEECH)
    await call.perform(EndTurn(epoch=0, item_id="item_1", respond=True))
    await call.ear.has(ModelFinished)
    assert call.ear.words == SAID


async def test_an_answer_that_is_asked_for_carries_its_name(call: Call) -> None:
    await call.perform(Generate(epoch=0, response_id="resp_1", history=()))
    await call.frames(SAY)
    await call.goes_on_until(has(ModelFinished))
    assert [spoke.response_id for spoke in call.ear.of(ModelSpoke)] == ["resp_1"]


async def test_a_model_that_does_not_answer_is_said_to_listen(call: Call) -> None:
    await call.perform(Generate(epoch=0, response_id="resp_1", history=()))
    await call.goes_on_until(has(ModelListened))
    assert call.ear.of(ModelListened) == [ModelListened(epoch=0, response_id="resp_1")]


async def test_a_model_that_listens_says_so_now_and_then_and_not_while_an_answer_may_come(call: Call) -> None:
    await call.goes_on_until(has(ModelListened, 2))
    told = [one for one in call.ear.heard if isinstance(one, ModelRemembered | ModelListened)]
    listened = [at for at, one in enumerate(told) if isinstance(one, ModelListened)]
    assert [at - number for number, at in enumerate(listened)] == [LISTEN_FRAMES, 2 * LISTEN_FRAMES], "frames before it"
    await call.perform(EndTurn(epoch=0, item_id="item_1", respond=True))
    await call.goes_on_until(has(ModelListened, 3))
    assert len(call.ear.of(ModelRemembered)) >= 2 * LISTEN_FRAMES + ANSWER_FRAMES


async def test_a_session_that_wants_text_only_gets_words_without_sound(toy: NemotronModel) -> None:
    call = await called(toy, modalities=("text",))
    await call.frames(SAY)
    await call.goes_on_until(has(ModelFinished))
    assert call.ear.words == SAID and call.ear.of(ModelProducedAudio) == []
    await call.perform(ReconfigureModel(modalities=("text", "audio")))
    await call.frames(SAY)
    await call.goes_on_until(has(ModelFinished, 2))
    assert call.ear.sound == sound(SAID)
    await call.perform(CloseModel())


# -- tools ---------------------------------------------------------------------------------------------------------


async def test_a_tool_is_called_and_its_output_is_answered_while_frames_go_on(call: Call) -> None:
    await call.frames(SAY, CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    (made,) = call.ear.of(ModelCalledFunction)
    assert (made.name, made.arguments) == ("weather", '{"city": "Bern"}')
    frames = len(call.ear.of(ModelRemembered))
    await call.goes_on_until(has(ModelRemembered, frames + 5))  # The tool takes its time.
    await call.output(made.call_id, '{"c": 21}')
    await call.ends_with("]. ")
    assert call.ear.words == SAID + 'The answer is [{"c": 21}]. '
    turns = [spoke.turn for spoke in call.ear.of(ModelSpoke)]
    assert turns == sorted(set(turns))


async def test_a_call_outside_of_an_answer_is_a_turn_of_its_own(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.frames(SAY)
    await call.goes_on_until(has(ModelFinished))
    assert [call.ear.of(kind)[0].turn for kind in (ModelCalledFunction, ModelSpoke)] == [0, 1]


async def test_five_tools_called_together_are_answered_together(call: Call) -> None:
    await call.frames(CALL_ALL)
    await call.goes_on_until(has(ModelCalledFunction, 5))
    made = call.ear.of(ModelCalledFunction)
    assert [one.name for one in made] == ["weather", "time", "light", "door", "music"]
    for number, one in reversed(list(enumerate(made))):
        await call.output(one.call_id, str(number))
    await call.goes_on_until(has(ModelFinished))
    assert call.ear.words == "The answer is [0, 1, 2, 3, 4]. "


async def test_a_call_that_cannot_be_read_is_shown_and_nothing_else_happens(call: Call) -> None:
    await call.frames(BROKEN, SAY)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.ends_with(SAID)
    (made,) = call.ear.of(ModelCalledFunction)
    assert made.name is None and made.call_id is None and "weather" in made.arguments
    assert call.ear.words == SAID


async def test_a_call_that_is_never_closed_does_not_keep_outputs_waiting(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.frames(UNCLOSED)
    await call.goes_on_until(lambda heard: call.session._reader.is_calling)
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, "1")
    await call.goes_on_until(has(ModelFinished))
    assert [made.name for made in call.ear.of(ModelCalledFunction)] == ["weather", None]
    assert call.ear.words == "The answer is [1]. "


async def test_outputs_beyond_those_that_can_wait_are_told_and_not_lost(call: Call) -> None:
    for _ in range(MOST_PENDING + 2):
        await call.frames(CALL)
        before = len(call.ear.of(ModelCalledFunction))
        await call.goes_on_until(has(ModelCalledFunction, before + 1))
    for number, made in enumerate(call.ear.of(ModelCalledFunction)):
        await call.output(made.call_id, str(number))
    complaints = call.ear.of(ModelFailed)
    assert [(one.code, one.fatal) for one in complaints] == [("resource_exhausted", False)] * 2
    assert "8 tool outputs wait" in complaints[0].message
    await call.goes_on_until(lambda heard: call.ear.words.count("The answer is") == MOST_PENDING + 2)


async def test_an_output_that_is_too_long_is_told_to_both_sides(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, "x" * (LONGEST_OUTPUT_CHARS + 1))
    assert "8001 characters" in call.ear.of(ModelFailed)[0].message
    await call.goes_on_until(has(ModelFinished))
    assert "8001 characters" in call.ear.words


async def test_an_output_the_engine_has_no_room_for_is_told_after_the_answer(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.frames(SAY)
    await call.goes_on_until(has(ModelProducedAudio))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, "x" * 4_000)  # The toy has room for 2,400.
    await call.goes_on_until(has(ModelFailed))
    kinds = [type(one) for one in call.ear.heard]
    assert kinds.index(ModelFinished) < kinds.index(ModelFailed)
    assert "are too many" in call.ear.of(ModelFailed)[0].message
    assert call.ear.words == SAID


async def test_what_is_told_of_an_output_does_not_end_an_answer_that_is_awaited(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.perform(EndTurn(epoch=0, item_id="item_1", respond=True))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, "x" * (LONGEST_OUTPUT_CHARS + 1))
    assert call.ear.of(ModelFailed) == []
    await call.goes_on_until(has(ModelFailed))
    kinds = [type(one) for one in call.ear.heard]
    assert kinds.index(ModelFinished) < kinds.index(ModelFailed)


async def test_an_output_that_the_engine_fails_at_is_told_and_nobody_else_hears_of_it(toy: NemotronModel) -> None:
    call, other = await called(toy), await called(toy, session_id="other")
    starts = toy.engine.starts
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, "unsayable")
    await call.goes_on_until(has(ModelFailed))
    await other.frames(SAY)
    await other.ends_with(SAID)
    assert toy.engine.starts == starts and not call.ear.of(ModelFailed)[0].fatal
    for one in (call, other):
        await one.perform(CloseModel())


async def test_half_a_letter_in_an_output_goes_to_the_model_as_a_question_mark(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, r'{"a": "\ud83d"}')
    await call.goes_on_until(has(ModelFinished))
    assert call.ear.words == 'The answer is [{"a": "?"}]. '


async def test_a_session_whose_opening_is_given_up_leaves_nothing_running(toy: NemotronModel) -> None:
    opening = asyncio.create_task(called(toy, session_id="given up"))
    async with asyncio.timeout(10):
        while not any("given up" in task.get_name() for task in asyncio.all_tasks()):
            await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with asyncio.timeout(10):
        while any("given up" in task.get_name() for task in asyncio.all_tasks()):
            await asyncio.sleep(0)
    assert not any("given up" in name for name in toy.engine._sessions)


# -- interruptions -------------------------------------------------------------------------------------------------


async def test_an_interruption_stops_what_is_said_and_what_is_still_being_written(call: Call) -> None:
    await call.frames(LONG)
    await call.goes_on_until(has(ModelProducedAudio, 3))
    await call.perform(Interrupt(epoch=1))
    told = len(call.ear.heard)
    written = len(call.ear.of(ModelRemembered))
    await call.goes_on_until(has(ModelRemembered, written + len(TALE.split())))
    assert {type(one) for one in call.ear.heard[told:]} <= SILENCE
    await call.frames(SAY)
    await call.goes_on_until(has(ModelFinished))
    (first, second) = call.ear.of(ModelSpoke)
    assert (first.epoch, second.epoch, second.turn) == (0, 1, first.turn + 1)
    after = [one for one in call.ear.of(ModelProducedAudio) if one.epoch == 1]
    assert "".join(one.text for one in after) == SAID
    assert b"".join(one.pcm for one in after) == sound(SAID)


async def test_what_is_said_right_after_an_interruption_of_what_was_written_to_its_end_is_not_lost(call: Call) -> None:
    await call.frames(SAY)
    await call.goes_on_until(lambda heard: call.session._unwritten > HUSHED_FRAMES)
    assert call.session._voice.is_open, "it is still being said"
    await call.perform(Interrupt(epoch=1))
    await call.frames(SAY)
    await call.ends_with(SAID)
    assert "".join(one.text for one in call.ear.of(ModelProducedAudio) if one.epoch == 1) == SAID


async def test_an_answer_that_was_cut_does_not_come_back_when_an_output_was_told(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.frames(LONG)
    await call.goes_on_until(has(ModelProducedAudio))
    await call.perform(Interrupt(epoch=1))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, "1", respond=False)
    await call.ends_with("The answer is [1]. ")
    after = (one.text for one in call.ear.of(ModelProducedAudio) if one.epoch == 1)
    assert "".join(after) == "The answer is [1]. "


async def test_an_output_that_comes_after_an_interruption_is_still_told_to_the_model(call: Call) -> None:
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.perform(Interrupt(epoch=1))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, "1", respond=False)
    await call.goes_on_until(has(ModelFinished))
    assert call.ear.words == "The answer is [1]. "


# -- when something dies -------------------------------------------------------------------------------------------


async def test_a_clause_whose_speech_fails_is_told_without_sound_and_the_session_goes_on(toy: NemotronModel) -> None:
    call = await called(toy)
    await call.frames(CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, '"sick"')
    await call.goes_on_until(has(ModelFinished))
    assert call.ear.words == 'The answer is ["sick"]. ' and call.ear.sound
    await call.frames(SAY)
    await call.goes_on_until(has(ModelFinished, 2))
    assert call.ear.words.endswith(SAID)
    await call.perform(CloseModel())


async def test_a_speech_process_that_is_killed_is_started_again_and_the_answer_is_whole(toy: NemotronModel) -> None:
    speech = toy.speech
    assert speech is not None and speech.pid is not None
    call, starts = await called(toy), speech.starts
    await call.frames(LONG)
    await call.goes_on_until(has(ModelProducedAudio, 2))
    os.kill(speech.pid, signal.SIGKILL)
    await call.goes_on_until(has(ModelFinished))
    assert speech.starts == starts + 1
    assert (call.ear.words, call.ear.sound) == (TALE, sound(TALE))
    await call.perform(CloseModel())


@pytest.mark.parametrize("until", ["words", "call", "output"])
async def test_an_engine_that_is_killed_is_started_again_and_nothing_is_lost_or_said_twice(
    toy: NemotronModel, until: str
) -> None:
    assert toy.engine.pid is not None
    call, starts = await called(toy), toy.engine.starts
    await call.frames(SAY, CALL)
    if until == "words":
        await call.goes_on_until(has(ModelProducedAudio, 2))
    elif until == "call":
        await call.goes_on_until(lambda heard: call.session._reader.is_calling)
    else:
        await call.goes_on_until(has(ModelCalledFunction))
        await call.output(call.ear.of(ModelCalledFunction)[0].call_id, '{"c": 21}')
        await call.goes_on_until(lambda heard: call.session._calls.told > 2)
    os.kill(toy.engine.pid, signal.SIGKILL)
    await call.goes_on_until(has(ModelCalledFunction))
    if until != "output":
        await call.output(call.ear.of(ModelCalledFunction)[0].call_id, '{"c": 21}')
    await call.ends_with("]. ")
    assert toy.engine.starts == starts + 1
    assert call.ear.words == SAID + 'The answer is [{"c": 21}]. '
    assert len(call.ear.of(ModelCalledFunction)) == 1
    assert call.ear.of(ModelFailed) == []
    assert all(isinstance(one, ModelDroppedInput) for one in call.ear.of(ModelDroppedInput))
    await call.perform(CloseModel())


async def whole_call(toy: NemotronModel) -> list[Signal]:
    """What a caller hears of an answer, a call, its output and the answer to that."""
    call = await called(toy, session_id="whole")
    await call.frames(SAY, CALL)
    await call.goes_on_until(has(ModelCalledFunction))
    await call.output(call.ear.of(ModelCalledFunction)[0].call_id, '{"c": 21}')
    await call.ends_with("]. ")
    await call.perform(CloseModel())
    return list(call.ear.heard)


async def test_another_worker_goes_on_wherever_this_one_was_lost(toy: NemotronModel) -> None:
    """Cut after every third frame, with what the log would hold then; together it is what nobody interrupted."""
    whole = await whole_call(toy)
    frames = [at for at, one in enumerate(whole) if isinstance(one, ModelRemembered)]
    for cut in frames[2::3]:
        before = Ear()
        before.heard = whole[:cut]
        made = before.of(ModelCalledFunction)
        history = [
            item
            for one in made
            for item in (
                HistoryItem(item_id="c", role="assistant", text=one.arguments, call_id=one.call_id, name=one.name),
                HistoryItem(item_id="o", role="tool", text='{"c": 21}', call_id=one.call_id),
            )
        ]
        after = await called(
            toy,
            session_id="whole",
            memory=before.memory(),
            open_turn=before.open_turn(),
            history=tuple(history),
            resumed=True,
        )
        told = made
        if not made:
            await after.goes_on_until(has(ModelCalledFunction))
            told = after.ear.of(ModelCalledFunction)
            await after.output(told[0].call_id, '{"c": 21}')
        told_so = 'The answer is [{"c": 21}]. '
        wanted = SAID + told_so
        await after.goes_on_until(lambda heard, a=after, b=before, w=wanted: b.words + a.ear.words == w)
        await after.goes_on_until(
            lambda heard, a=after: bool(heard) and not a.session._voice.is_open and not a.session._mouth.is_busy
        )
        assert before.words + after.ear.words == wanted, f"cut at {cut}"
        assert before.sound + after.ear.sound == sound(SAID) + sound(told_so), f"cut at {cut}"
        assert len(made) + len(after.ear.of(ModelCalledFunction)) == 1
        assert told[0].call_id == next(one.call_id for one in whole if isinstance(one, ModelCalledFunction))
        await after.perform(CloseModel())


async def test_an_interruption_that_the_lost_worker_never_heard_of_holds_in_the_next(toy: NemotronModel) -> None:
    first = await called(toy, session_id="cut")
    await first.frames(LONG)
    await first.goes_on_until(has(ModelProducedAudio, 3))
    memory = first.ear.memory()
    await first.perform(CloseModel())
    second = await called(toy, session_id="cut", memory=memory, epoch=1)
    await second.goes_on_until(has(ModelRemembered, len(TALE.split())))
    assert {type(one) for one in second.ear.heard} <= SILENCE
    await second.perform(CloseModel())


async def test_what_was_still_to_be_said_does_not_keep_a_worker_without_a_voice_waiting(toy: NemotronModel) -> None:
    first = await called(toy, session_id="mute")
    await first.frames(LONG)
    await first.goes_on_until(lambda heard: len(first.session._mouth.standing().clauses) > 2)
    memory = first.ear.memory()
    await first.perform(CloseModel())
    async with loaded(speech="off") as mute:
        second = await called(mute, session_id="mute", memory=memory, open_turn=0)
        await second.goes_on_until(has(ModelFinished))
        assert not second.session._needs_frames
        await second.perform(CloseModel())


async def test_a_caller_whose_place_took_long_to_prepare_is_not_taken_to_be_silent(
    toy: NemotronModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await called(toy, session_id="slow")
    await first.frames(LONG)
    await first.goes_on_until(has(ModelProducedAudio))
    memory = first.ear.memory()
    await first.perform(CloseModel())
    prepared = Seat.prepared

    async def slowly(seat: Seat, timeout_s: float) -> None:
        await asyncio.sleep(2 * GAP_MS / 1000)
        await prepared(seat, timeout_s)

    monkeypatch.setattr(Seat, "prepared", slowly)
    second = await called(toy, session_id="slow", memory=memory, open_turn=0)
    fed: list[bytes] = []
    monkeypatch.setattr(toy.engine, "feed", lambda name, pcm: fed.append(pcm))
    for _ in range(20):
        await asyncio.sleep(0)
    assert second.session._needs_frames and fed == []
    await second.perform(CloseModel())


async def test_sound_of_half_a_sample_is_no_reason_to_fail(call: Call) -> None:
    await call.perform(FeedAudio(epoch=0, pcm=b"\x00" * 7, end_ms=0))
    await call.perform(FeedAudio(epoch=0, pcm=frame(SAY), end_ms=80))
    await call.goes_on_until(has(ModelProducedText if call.session.speaker is None else ModelProducedAudio))
    assert call.ear.of(ModelFailed) == []
