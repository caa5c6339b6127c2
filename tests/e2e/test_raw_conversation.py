"""A conversation with ``cascade`` over a bare WebSocket: typed and spoken."""

from __future__ import annotations

import pytest

from tests.support.ordering import check_order
from tests.support.services import Deployment
from tests.support.talking import conversing, loudness, question_pcm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


async def test_a_typed_question_gets_a_spoken_answer(cascade: Deployment):
    async with conversing(cascade.urls[0], model="cascade") as caller:
        text = {"type": "input_text", "text": "What is seven plus five?"}
        await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [text]})
        await caller.say(type="response.create", event_id="evt_ask")
        done = await caller.hear_until("response.done")
        await caller.hear_until("rate_limits.updated")

    assert done["response"]["status"] == "completed"
    assert "12" in done["response"]["output"][0]["content"][0]["transcript"].replace("twelve", "12")
    assert len(caller.answer_pcm) > 24_000 and loudness(caller.answer_pcm) > 0.01
    assert caller.seqs == list(range(1, len(caller.seqs) + 1))
    check_order(caller.heard)


async def test_a_spoken_question_gets_a_spoken_answer_without_any_commit(cascade: Deployment):
    async with conversing(cascade.urls[0], model="cascade") as caller:
        await caller.play(question_pcm(), silence_ms=1000)
        done = await caller.hear_until("response.done")
        await caller.hear_until("rate_limits.updated")

    kinds = [frame["type"] for frame in caller.heard]
    heard = next(f for f in caller.heard if f["type"] == "conversation.item.input_audio_transcription.completed")
    assert "martin" in heard["transcript"].lower()
    assert kinds.index("input_audio_buffer.speech_started") < kinds.index("input_audio_buffer.speech_stopped")
    assert kinds.index("input_audio_buffer.committed") < kinds.index("response.created")
    assert done["response"]["status"] == "completed" and loudness(caller.answer_pcm) > 0.01
    check_order(caller.heard)


async def test_a_committed_question_is_answered_at_once(cascade: Deployment):
    async with conversing(cascade.urls[0], model="cascade", extra_body={"auto_response": False}) as caller:
        await caller.play(question_pcm(), realtime=False)
        await caller.say(type="input_audio_buffer.commit", response_create=True)
        done = await caller.hear_until("response.done")
        await caller.hear_until("rate_limits.updated")

    kinds = [frame["type"] for frame in caller.heard]
    fan_out = ["conversation.item.added", "conversation.item.created", "input_audio_buffer.committed"]
    at = kinds.index("conversation.item.added")
    assert kinds[at : at + 3] == fan_out
    assert done["response"]["status"] == "completed"
    check_order(caller.heard)


async def test_the_caller_can_talk_over_the_answer(cascade: Deployment):
    async with conversing(cascade.urls[0], model="cascade") as caller:
        text = {
            "type": "input_text",
            "text": "Please repeat after me: one two three four five six seven eight nine ten.",
        }
        await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [text]})
        await caller.say(type="response.create")
        await caller.hear_until("response.output_audio.delta")
        await caller.play(question_pcm(), silence_ms=800)
        cut = await caller.hear_until("response.done")
        answered = await caller.hear_until("response.done")
        await caller.hear_until("rate_limits.updated")

    assert cut["response"]["status"] == "cancelled"
    assert cut["response"]["status_details"]["reason"] == "barge_in"
    assert answered["response"]["status"] == "completed"
    check_order(caller.heard)
