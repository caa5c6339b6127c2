"""A caller on the line, against a server over a real socket."""

from __future__ import annotations

import base64
from array import array

import pytest

from duplex_es.client import DuplexConnectionError, DuplexProtocolError
from duplex_es.client.events import view
from duplex_es.tools.conversation import Conversation, Heard, ask, transcribe
from duplex_es.tools.errors import ToolError
from duplex_es.tools.waves import Wave
from tests.support.voice_server import ANSWER_PCM, ANSWER_RATE_HZ, voice_server

pytestmark = pytest.mark.unit

QUESTION = Wave(array("h", [6_000, -6_000] * 1_600).tobytes(), 16_000)


async def test_a_question_is_said_and_the_whole_answer_heard() -> None:
    async with voice_server() as server:
        conversation = await ask([server.url], QUESTION, model="m", timeout_s=30)
    assert conversation.question == "What time is it?"
    assert conversation.session_id == "sess_1"
    answer = conversation.answer
    assert answer is not None
    assert (answer.text, bytes(answer.pcm), answer.sample_rate_hz) == ("It is noon.", ANSWER_PCM, ANSWER_RATE_HZ)
    assert answer.duration_ms == 200
    sent = b"".join(base64.b64decode(each["audio"]) for each in server.heard("input_audio_buffer.append"))
    assert sent.startswith(QUESTION.pcm)
    assert not any(sent[len(QUESTION.pcm) :])


async def test_the_answers_whole_sound_is_acknowledged_as_played() -> None:
    async with voice_server() as server:
        await ask([server.url], QUESTION, model="m", timeout_s=30)
        [ack] = server.heard("playback.ack")
    assert (ack["played_ms"], ack["response_id"]) == (200, "resp_1")


async def test_speech_ends_before_the_answer_begins() -> None:
    async with voice_server() as server:
        conversation = await ask([server.url], QUESTION, model="m", timeout_s=30)
    assert conversation.answer is not None
    assert conversation.answer.first_audio is not None
    assert conversation.stream_start_s < conversation.speech_end_s < conversation.answer.first_audio.at_s


async def test_an_explicit_end_of_turn_is_sent_where_it_is_asked_for() -> None:
    async with voice_server(answers=False) as server:
        conversation = await ask([server.url], QUESTION, model="m", timeout_s=30, commits=True, instructions="be brief")
        assert len(server.heard("input_audio_buffer.commit")) == 1
        assert server.heard("session.update")[0]["session"]["instructions"] == "be brief"
    assert conversation.answer is not None


async def test_a_service_that_never_answers_is_reported_with_what_it_understood() -> None:
    async with voice_server(answers=False) as server:
        with pytest.raises(ToolError, match=r"no answer within 0.3 s .*understood nothing"):
            await ask([server.url], QUESTION, model="m", timeout_s=0.3)


async def test_a_cut_off_answer_is_not_an_answer() -> None:
    async with voice_server(status="cancelled") as server:
        with pytest.raises(ToolError, match="it understood 'What time is it"):
            await ask([server.url], QUESTION, model="m", timeout_s=3)


async def test_a_refused_session_and_a_missing_service_are_the_clients_errors() -> None:
    async with voice_server(refusal="resource_exhausted") as server:
        with pytest.raises(DuplexProtocolError, match="resource_exhausted"):
            await ask([server.url], QUESTION, model="m", timeout_s=10)
    with pytest.raises(DuplexConnectionError):
        await ask([server.url], QUESTION, model="m", timeout_s=10)


async def test_a_transcript_is_asked_for_without_an_answer() -> None:
    async with voice_server() as server:
        assert await transcribe([server.url], QUESTION, model="m", timeout_s=30) == "What time is it?"
        assert server.heard("session.update")[0]["session"]["extra_body"] == {"auto_response": False}
        assert server.heard("input_audio_buffer.commit")[0]["response_create"] is False


def test_several_items_make_one_question_and_a_later_transcript_replaces_an_earlier() -> None:
    conversation = Conversation()
    for item, text in (("a", "Hello"), ("b", " there "), ("a", "Hullo"), ("c", "")):
        event = {"type": "conversation.item.input_audio_transcription.completed", "item_id": item, "transcript": text}
        conversation.take(Heard(0.0, view(event)))
    assert conversation.question == "Hullo there"


def test_events_of_a_response_that_was_never_created_are_only_noted() -> None:
    conversation = Conversation()
    conversation.take(Heard(1.0, view({"type": "response.output_text.delta", "response_id": "r", "delta": "x"})))
    assert conversation.answer is None
    assert len(conversation.heard) == 1
