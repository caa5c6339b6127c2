"""Frames in, signals out: each rule of the ear, and that the same frames give the same signals again."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import numpy as np
import pytest

from duplex_es.model import (
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelHeardWords,
    ModelInterrupted,
    ModelListened,
    ModelMeasured,
    ModelPassedOn,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Signal,
    StageMetrics,
)
from duplex_es.protocol import decode_frame
from workers.models.bridge.card import card
from workers.models.bridge.hearing import Hearing, heard_ms
from workers.models.bridge.past import Past
from workers.models.bridge.presets import PRESETS
from workers.models.bridge.standing import Sent, Standing

pytestmark = pytest.mark.unit

INFO = card("b", PRESETS["any"], None, keeps_token=True)
ADDRESS = {"response_id": "r1", "item_id": "i1", "output_index": 0, "content_index": 0}


def hearing(**standing: Any) -> Hearing:
    return Hearing(Standing(session_id="s", **standing), INFO, Past())


def frame(kind: str, **fields: Any) -> Any:
    return decode_frame(msgspec.json.encode({"type": kind, **fields}))


def created(name: str = "r1") -> Any:
    return frame("response.created", response={"id": name, "status": "in_progress"})


def audio(data: str = "AAEC", **fields: Any) -> Any:
    return frame("response.output_audio.delta", **ADDRESS, delta=data, format="pcm16", sample_rate_hz=24_000, **fields)


def words(text: str) -> Any:
    return frame("response.output_audio_transcript.delta", **ADDRESS, delta=text)


def done(status: str = "completed", name: str = "r1", **fields: Any) -> Any:
    return frame("response.done", response={"id": name, "status": status, **fields})


def error(code: str, event_id: str | None = None) -> Any:
    body = {"type": "server_error", "code": code, "message": "no", **({"event_id": event_id} if event_id else {})}
    return frame("error", error=body)


def heard(ear: Hearing, *frames: Any) -> list[Signal]:
    return [signal for one in frames for signal in ear.take(one)]


def kinds(signals: list[Signal]) -> list[type]:
    return [type(signal) for signal in signals]


def test_an_answer_is_sound_with_its_words() -> None:
    ear = hearing(asked=["mine"])
    signals = heard(ear, created(), audio("AAECAw=="), words("Hello. "), done())
    assert kinds(signals) == [ModelSpoke, ModelProducedAudio, ModelFinished]
    assert (signals[0].response_id, signals[1].pcm, signals[1].text) == ("mine", b"\0\1\2\3", "Hello. ")
    assert ear.past.items[-1].text == "Hello. "


def test_sound_waits_for_its_words_and_comes_without_them_if_there_are_none() -> None:
    ear = hearing()
    assert heard(ear, created(), audio("AAECAw==")) == []
    assert ear.holds
    assert kinds(ear.flush()) == [ModelSpoke, ModelProducedAudio]
    assert not ear.holds


def test_words_without_sound_join_the_next_sound_or_are_written_at_the_end() -> None:
    ear = hearing()
    signals = heard(ear, created(), words("One "), audio("AAECAw=="), words("two. "), words("Three."), done())
    assert [s.text for s in signals if isinstance(s, ModelProducedAudio | ModelProducedText)] == ["One two. ", "Three."]


def measured(**stages: dict[str, Any]) -> dict[str, Any]:
    """Metadata with what a server tells of its stages, named ``s0``, ``s1``, ..."""
    return {"vllm_omni": {"stage_metrics": {name[1:]: told for name, told in stages.items()}}}


def test_what_the_server_tells_of_its_stages_is_of_all_of_the_answer_and_the_newest_holds() -> None:
    first = {"num_tokens_out": 3, "batch_id": 7}
    then = {"num_tokens_out": 9, "vllm_itls_ms": [20, 21], "vllm_itl_ms": 3}
    early, late = measured(s0=first, s1={"audio_duration_s": 0.5}), measured(s0=then)
    said = [audio(metadata=early), words("x"), audio(metadata=late)]
    signals = heard(hearing(), created(), *said, words("y"), done())
    assert kinds(signals)[-2:] == [ModelMeasured, ModelFinished]
    told = {"0": StageMetrics(num_tokens_out=9, vllm_itls_ms=(20, 21)), "1": StageMetrics(audio_duration_s=0.5)}
    assert signals[-2] == ModelMeasured(epoch=0, turn=0, stages=told)
    signals = heard(hearing(), created(), audio(), words("x"), done("failed", metadata=measured(s0=then)))
    assert kinds(signals)[-2:] == [ModelMeasured, ModelFailed]
    assert ModelMeasured not in kinds(heard(hearing(), created(), audio(), words("x"), done(metadata=measured(s0={}))))


def test_of_an_answer_that_is_not_heard_no_stage_is_told() -> None:
    ear = hearing(cutting=1)
    assert heard(ear, created(), audio(metadata=measured(s0={"num_tokens_out": 3})), done()) == []
    assert ear._measured == {}


def test_floats_become_samples_and_another_rate_is_named() -> None:
    pcm = np.array([0.5], np.float32).tobytes()
    ear = hearing()
    heard(ear, created())
    ear.take(msgspec.structs.replace(audio("AAEC"), delta=pcm, format="pcm_f32le", sample_rate_hz=16_000))
    (_, produced) = ear.take(words(""))
    assert (produced.pcm, produced.rate_hz) == (np.array([16_384], "<i2").tobytes(), 16_000)


def test_nothing_is_heard_of_what_an_interruption_came_before() -> None:
    ear = hearing(cutting=1, epoch=1)
    assert heard(ear, created(), audio(), words("x"), done("cancelled")) == []
    assert ear.standing.answers == {}


def test_an_answer_that_nobody_wanted_is_cancelled_unheard() -> None:
    ear = hearing(unwanted=True)
    assert heard(ear, created(), audio(), words("x")) == []
    assert ear.is_to_be_cancelled


def test_a_server_that_cuts_itself_raises_the_epoch() -> None:
    ear = hearing(epoch=4)
    signals = heard(ear, created(), audio(), words("x"), done("cancelled", status_details={"type": "cancelled"}))
    assert kinds(signals) == [ModelSpoke, ModelProducedAudio, ModelInterrupted]
    assert ear.standing.epoch == 5


def test_a_failed_answer_says_why() -> None:
    ear = hearing()
    details = {"type": "failed", "reason": "runtime_append_failed"}
    signals = heard(ear, created(), error("chat_error"), done("failed", status_details=details))
    assert [(s.code, s.message) for s in signals if isinstance(s, ModelFailed)] == [("chat_error", "no")]
    signals = heard(ear, created(), done("failed", status_details=details))
    assert [s.code for s in signals if isinstance(s, ModelFailed)] == ["runtime_append_failed"]


def test_listening_ends_the_answer_that_was_asked_for() -> None:
    ear = hearing(asked=["mine"])
    listen = frame(
        "response.listen",
        session_id="s",
        epoch=0,
        response_id="r1",
        response={"status": "listening", "metadata": {"reason": "silence_or_noise"}},
    )
    assert heard(ear, created(), listen, done()) == [
        ModelListened(epoch=0, reason="silence_or_noise", response_id="mine")
    ]


def test_an_asked_answer_without_output_is_over_all_the_same() -> None:
    assert kinds(heard(hearing(asked=["mine"]), created(), done())) == [ModelSpoke, ModelFinished]
    assert heard(hearing(), created(), done()) == []


def test_a_call_is_one_signal_whatever_frames_it_comes_in() -> None:
    item = {"id": "c", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'}
    ear = hearing()
    added = frame("response.output_item.done", response_id="r1", output_index=0, item=item)
    (call,) = heard(ear, created(), added, done())
    assert call == ModelCalledFunction(epoch=0, turn=0, call_id="call_1", name="look", arguments='{"a":1}')
    (bad,) = ear.take(frame("duplex.function_call.done", event={"name": "look", "arguments": {"a": 1}}))
    assert (bad.call_id, bad.arguments, bad.turn) == (None, '{"a":1}', 1)


def test_a_turn_that_was_ended_here_is_understood_there() -> None:
    ear = hearing(commits=["mine"])
    committed = frame("input_audio_buffer.committed", previous_item_id=None, item_id="u1")
    grows = frame("conversation.item.input_audio_transcription.delta", item_id="u1", delta="What ")
    item = {"id": "u1", "type": "message", "role": "user", "content": [{"type": "input_audio", "transcript": "What?"}]}
    whole = frame("conversation.item.done", previous_item_id=None, item=item)
    signals = heard(ear, committed, grows, whole, whole)
    assert signals == [
        ModelHeardWords(epoch=0, text="What ", item_id="mine"),
        ModelHeardTurn(epoch=0, transcript="What?", item_id="mine"),
    ]


def test_a_turn_that_the_server_ends_has_its_times_on_our_clock() -> None:
    ear = hearing(offset_ms=1_000)
    signals = heard(
        ear,
        frame("input_audio_buffer.speech_started", audio_start_ms=200, item_id="u1"),
        frame("input_audio_buffer.speech_stopped", audio_end_ms=700, item_id="u1"),
        frame("input_audio_buffer.committed", previous_item_id=None, item_id="u1"),
        frame("conversation.item.input_audio_transcription.completed", item_id="u1", transcript="Hi."),
    )
    assert signals == [
        ModelHeardSpeech(epoch=0, start_ms=1_200),
        ModelHeardSpeechEnd(epoch=0, end_ms=1_700),
        ModelHeardTurn(epoch=0, transcript="Hi.", audio_ms=500),
    ]


def test_a_turn_of_which_the_server_says_nothing_is_heard_as_nothing() -> None:
    ear = hearing(commits=["a", "b"])
    heard(ear, frame("input_audio_buffer.committed", previous_item_id=None, item_id="u1"))
    assert ear.give_up_words("u1") == [ModelHeardTurn(epoch=0, transcript="", item_id="a")]
    assert ear.give_up_words("u1") == []
    assert ear.unheard_commits() == [ModelHeardTurn(epoch=0, transcript="", item_id="b")]


def test_what_a_chat_server_said_is_passed_on() -> None:
    (signal,) = hearing().take(frame("response.message", message={"x": 1}))
    assert (type(signal), signal.message) == (ModelPassedOn, {"x": 1})


def test_refusals_are_told_by_what_was_refused() -> None:
    sent = Sent(turns=["mine"], asked=["resp"])
    ear = hearing(commits=["mine"], asked=["resp"])
    assert ear.take(error("response_not_active", sent.event_id("cut"))) == []
    assert kinds(ear.take(error("input_audio_buffer_empty", sent.event_id("commit")))) == [
        ModelHeardTurn,
        ModelListened,
    ]
    (failed,) = ear.take(error("unsupported_native_response_options", sent.event_id("ask")))
    assert failed.code == "unsupported_native_response_options"
    assert (ear.standing.commits, ear.standing.asked) == ([], [])
    assert kinds(ear.take(error("internal_error"))) == [ModelFailed]


def test_an_answer_that_the_server_gives_by_itself_is_the_one_asked_for() -> None:
    ear = hearing()
    heard(ear, created())
    ear.standing.asked.append("resp")
    assert ear.take(error("response_already_active", Sent(asked=["resp"]).event_id("ask"))) == []
    assert heard(ear, audio(), words(""))[0] == ModelSpoke(epoch=0, turn=0, response_id="resp")


def test_the_same_frames_give_the_same_signals_from_any_place_on() -> None:
    frames = [created(), audio(), words("a"), audio(), words("b"), done()]
    for at in range(len(frames)):
        ear = hearing(asked=["mine"])
        heard(ear, *frames[:at])
        if ear.holds:
            continue
        other = Hearing(Standing.unpacked(ear.standing.packed()) or Standing(), INFO, Past())
        assert heard(other, *frames[at:]) == heard(copy.copy(ear), *frames[at:])


@pytest.mark.parametrize(
    ("text", "ms"), [("", 0), ("abcde", 100), ("abcdefg", 150), ("abcdefghij", 400), ("abcdefghijk", 400)]
)
def test_heard_words_are_a_place_in_the_sound(text: str, ms: int) -> None:
    marks = [(5, 100), (9, 200)]
    assert heard_ms(text, marks, 400) == ms
