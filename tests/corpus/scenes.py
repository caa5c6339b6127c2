"""The calls of the corpus: what a caller does in each, against a deployment that really runs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

import numpy as np

from tests.support.calls import pcm16
from tests.support.services import Deployment
from tests.support.talking import Caller, calling, conversing, question_pcm
from workers.g711 import encode

QWEN = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
PERSONAPLEX = "nvidia/personaplex-7b-v1"
STORY = "Once upon a time there was a king who had three daughters and a very long story to tell."
Wire = dict[str, Any]


class Place(NamedTuple):
    """Where a scene is played: two gateways of one service, and a way to lose the worker that has the session."""

    deployment: Deployment
    name: str
    lose_worker: Callable[[], Awaitable[None]]

    def call(self, model: str, **session: Any) -> AbstractAsyncContextManager[Caller]:
        """Open the scene's session on the first gateway."""
        return conversing(self.deployment.urls[0], model=model, session_id=self.name, **session)


def scripted(*steps: Wire, **session: Any) -> Wire:
    """A session that plays these steps."""
    return {**session, "extra_body": {"script": list(steps), **session.get("extra_body", {})}}


def answer(text: str, audio_ms: int = 600, **more: Any) -> Wire:
    """Speak, at the pace of speech."""
    return {"audio_ms": audio_ms, "text": text, **more}


DONE: Wire = {"finish": True}


async def say_words(caller: Caller, text: str) -> None:
    """Type a message and ask for an answer."""
    part = {"type": "input_text", "text": text}
    await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
    await caller.say(type="response.create")


async def speak(caller: Caller, ms: int, **fields: Any) -> None:
    """Sound of that length in pieces of 100 ms, at the pace of speech."""
    for _ in range(ms // 100):
        audio = base64.b64encode(pcm16(100)).decode()
        await caller.say(type="input_audio_buffer.append", audio=audio, **fields)
        await asyncio.sleep(0.1)


async def commit(caller: Caller, **fields: Any) -> None:
    """End the turn."""
    await caller.say(type="input_audio_buffer.commit", **fields)


async def done(caller: Caller) -> Wire:
    """The end of the next answer."""
    frame = await caller.hear_until("response.done")
    await caller.hear_until("rate_limits.updated")
    return frame


# -- scenes --------------------------------------------------------------------------------------------------------


async def barge_in(place: Place) -> None:
    """The caller talks over an answer and is answered anew."""
    turns = (
        {"on": "end_turn", "transcript": "Tell me a story.", "do": [answer(STORY, 4_000), DONE]},
        {"on": "end_turn", "transcript": "Stop, what time is it?", "do": [answer("It is noon."), DONE]},
    )
    async with place.call("scripted", **scripted(*turns)) as caller:
        await speak(caller, 500, is_speech=True)
        await commit(caller, response_create=True)
        for _ in range(5):
            await caller.hear_until("response.output_audio.delta")
        await speak(caller, 300, is_speech=True)
        await speak(caller, 100, is_speech=True, overlap_action="barge_in")
        await speak(caller, 200, is_speech=True)
        await done(caller)
        await commit(caller, response_create=True)
        await done(caller)


async def backchannel(place: Place) -> None:
    """A short "yes" over the answer changes nothing; a longer remark waits for its end."""
    turns = (
        {"on": "end_turn", "transcript": "Tell me a story.", "do": [answer(STORY, 3_000), DONE]},
        {"on": "end_turn", "every": True, "transcript": "And the daughters?", "do": [answer("They left."), DONE]},
    )
    async with place.call("scripted", **scripted(*turns, overlap_policy="listen_only")) as caller:
        await speak(caller, 500, is_speech=True)
        await commit(caller, response_create=True)
        await caller.hear_until("response.output_audio.delta")
        await speak(caller, 300, is_speech=True, transcript="yes")
        await speak(caller, 300, is_speech=False)
        await commit(caller)
        await speak(caller, 1_000, is_speech=True)
        await commit(caller, response_create=True)
        await done(caller)
        await done(caller)


async def tool_call(place: Place) -> None:
    """The model asks for a function, gets its output, and goes on."""
    call = {"name": "get_weather", "call_id": "call_weather", "arguments": {"city": "Paris"}}
    turns = (
        {"on": "end_turn", "transcript": "How is the weather in Paris?", "do": [{"function_call": call}]},
        {"on": "tool_output", "do": [answer("It rains in Paris."), DONE]},
        {"on": "end_turn", "transcript": "And now?", "do": [{"function_call": {"name": "get_time"}}, DONE]},
    )
    tools = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]
    async with place.call("scripted", **scripted(*turns, tools=tools)) as caller:
        await speak(caller, 400, is_speech=True)
        await commit(caller, response_create=True)
        await caller.hear_until("response.function_call_arguments.done")
        output = {"type": "function_call_output", "call_id": "call_weather", "output": '{"sky": "rain"}'}
        await caller.say(type="conversation.item.create", item=output)
        await done(caller)
        await done(caller)
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        await caller.hear_until("duplex.function_call.done")


async def takeover(place: Place) -> None:
    """The worker dies in the middle of an answer; the next one goes on with it, and with the caller's sentence."""
    turns = (
        {"on": "end_turn", "transcript": "Tell me a story.", "do": [answer(STORY, 6_000), DONE]},
        {"on": "end_turn", "transcript": "Thanks.", "do": [answer("You are welcome."), DONE]},
    )
    async with place.call("scripted", **scripted(*turns)) as caller:
        await speak(caller, 500, is_speech=True)
        await commit(caller, response_create=True)
        for _ in range(4):
            await caller.hear_until("response.output_audio.delta")
        await place.lose_worker()
        await speak(caller, 500, is_speech=True)
        await done(caller)
        await commit(caller, response_create=True)
        await done(caller)


async def resume(place: Place) -> None:
    """The socket breaks in the middle of an answer; the client comes back at the other gateway."""
    urls = place.deployment.urls
    async with conversing(urls[0], model="echo", session_id=place.name) as first:
        created = first.heard[0]
        await say_words(first, "one two three four five six seven eight")
        await first.hear_until("response.output_audio.delta")
        first.socket.transport.abort()
    async with calling(urls[1], query="?duplex=1&autostart=0") as second:
        await second.say(
            type="session.resume",
            session_id=place.name,
            incarnation=created["incarnation"],
            resume_token=created["resume_token"],
            last_received_server_event_seq=first.seqs[-1],
        )
        await done(second)
        await say_words(second, "good bye")
        await done(second)
        await second.say(type="session.close")
        await second.hear_until("session.closed")


async def truncation(place: Place) -> None:
    """The client reports what was played, cuts one answer short, and deletes an item."""
    turns = (
        {"on": "end_turn", "transcript": "Tell me a story.", "do": [answer(STORY, 2_000, pace="fast"), DONE]},
        {"on": "end_turn", "transcript": "Shorter.", "do": [answer("A king left.", 800, pace="fast"), DONE]},
    )
    settings = scripted(*turns, playback_commit_policy="ack_only")
    async with place.call("scripted", **settings) as caller:
        for played_ms, cut in ((1_200, True), (800, False)):
            await speak(caller, 300, is_speech=True)
            await commit(caller, response_create=True)
            said = (await done(caller))["response"]
            item_id = said["output"][0]["id"]
            await caller.say(
                type="playback.ack", response_id=said["id"], played_ms=played_ms, committed_ms=played_ms
            )
            if cut:
                at = {"item_id": item_id, "content_index": 0, "audio_end_ms": 900}
                await caller.say(type="conversation.item.truncate", **at)
                await caller.hear_until("conversation.item.truncated")
        await caller.say(type="conversation.item.retrieve", item_id=item_id)
        await caller.say(type="conversation.item.delete", item_id=item_id)
        await caller.hear_until("conversation.item.deleted")


async def silence(place: Place) -> None:
    """Commits of nothing, of noise and of silence, a clear, and then a word after all."""
    turn = {"on": "end_turn", "transcript": "Hello?", "do": [answer("Hello."), DONE]}
    async with place.call("scripted", **scripted(turn)) as caller:
        await commit(caller)
        await caller.hear_until("error")
        await speak(caller, 300, is_speech=False)
        await commit(caller)
        await caller.hear_until("response.listen")
        await speak(caller, 200, is_speech=True)
        await caller.say(type="input_audio_buffer.clear")
        await caller.hear_until("input_audio_buffer.cleared")
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        await done(caller)


async def text_turn(place: Place) -> None:
    """Typed questions, one of them answered in writing only, one cancelled."""
    async with place.call("echo", instructions="Repeat what is typed.") as caller:
        await say_words(caller, "say this again")
        await done(caller)
        part = {"type": "input_text", "text": "and write this"}
        await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await caller.say(type="response.create", response={"modalities": ["text"]})
        await done(caller)
        await say_words(caller, "one two three four five six seven eight nine ten")
        await caller.hear_until("response.output_audio.delta")
        await caller.say(type="response.cancel")
        await done(caller)


async def telephone(place: Place) -> None:
    """G.711 both ways; the model hears by itself where the caller stops."""
    async with place.call("echo", input_audio_format="g711_ulaw", output_audio_format="g711_ulaw") as caller:
        tone = np.frombuffer(pcm16(1_000, rate_hz=8_000), "<i2")
        line = encode("g711_ulaw", tone) + encode("g711_ulaw", np.zeros(8_000, np.int16))
        for at in range(0, len(line), 160):
            await caller.say(type="input_audio_buffer.append", audio=base64.b64encode(line[at : at + 160]).decode())
            await asyncio.sleep(0.02)
        await done(caller)


async def chat_lane(place: Place) -> None:
    """A model of turns and requests: a committed question, a typed one, one that ends the answer before it."""
    turns = (
        {"on": "generate", "do": [answer("The first answer."), DONE]},
        {"on": "generate", "do": [answer(STORY, 3_000), DONE]},
        {"on": "generate", "every": True, "do": [answer("The last answer."), DONE]},
    )
    async with place.call(QWEN, **scripted(*turns)) as caller:
        await speak(caller, 400)
        await commit(caller, response_create=True)
        await done(caller)
        await say_words(caller, "And then?")
        await caller.hear_until("response.output_audio.delta")
        await speak(caller, 400)
        await commit(caller, response_create=True)
        await done(caller)
        await done(caller)


async def failure(place: Place) -> None:
    """An answer fails, a command is refused, a frame is no command; at the end the model is lost for good."""
    fault = {"code": "response_error", "message": "out of words", "fatal": False}
    fatal = {"code": "runtime_data_plane_stream_failed", "message": "the model is gone", "fatal": True}
    turns = (
        {"on": "end_turn", "transcript": "Why?", "do": [answer("Because"), {"fail": fault}]},
        {"on": "end_turn", "transcript": "Why not?", "do": [answer("I do not"), {"fail": fatal}]},
    )
    async with place.call("scripted", **scripted(*turns)) as caller:
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        await done(caller)
        await caller.say(type="response.cancel")
        await caller.hear_until("error")
        await caller.say(type="input_audio_buffer.append", audio="this is not base64")
        await caller.hear_until("error")
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        await caller.hear_until("session.closed")


async def long_call(place: Place) -> None:
    """Fifty turns."""
    more = answer("Then more.", 200, pace="fast")
    turn = {"on": "end_turn", "every": True, "transcript": "and then", "do": [more, DONE]}
    async with place.call("scripted", **scripted(turn)) as caller:
        for number in range(50):
            for _ in range(10):
                audio = base64.b64encode(pcm16(100)).decode()
                await caller.say(type="input_audio_buffer.append", audio=audio, is_speech=True)
            if number % 10 == 9:
                await caller.say(type="session.update", session={"instructions": f"This is turn {number}."})
            await commit(caller, response_create=True)
            said = (await done(caller))["response"]
            await caller.say(type="playback.ack", response_id=said["id"], played_ms=200, committed_ms=200)


async def conversation(place: Place) -> None:
    """A person's question to the real default model, answered aloud, and talked over."""
    async with place.call("cascade") as caller:
        await caller.play(question_pcm(), silence_ms=700)
        await caller.hear_until("response.output_audio.delta")
        await caller.play(question_pcm(), silence_ms=900)
        await asyncio.sleep(0.2)
        await caller.hear_until("response.done", where=lambda one: one["response"]["status"] == "completed")


async def detector(place: Place) -> None:
    """The service's own voice detector ends the turns, and a word over the answer interrupts it."""
    turns = (
        {"on": "end_turn", "transcript": "How old is he?", "do": [answer(STORY, 5_000), DONE]},
        {"on": "end_turn", "every": True, "transcript": "No, how old?", "do": [answer("Forty."), DONE]},
    )
    detects = {"type": "server_vad", "silence_duration_ms": 400}
    settings = scripted(*turns, turn_detection=detects, overlap_policy="barge_in_on_speech")
    async with place.call("scripted", **settings) as caller:
        await caller.play(question_pcm(), silence_ms=700)
        await commit(caller, response_create=True)
        await caller.hear_until("response.output_audio.delta")
        await caller.play(question_pcm(), silence_ms=700)
        await commit(caller, response_create=True)
        await caller.hear_until("response.done", where=lambda one: one["response"]["status"] == "completed")


async def chat_detector(place: Place) -> None:
    """A model of turns whose turns the voice detector ends and has answered."""
    turn = {"on": "generate", "every": True, "do": [answer("I understand.", 800), DONE]}
    async with place.call(QWEN, **scripted(turn, turn_detection={"type": "server_vad"})) as caller:
        await caller.play(question_pcm(), silence_ms=900)
        await done(caller)
        await caller.play(question_pcm(), silence_ms=900)
        await done(caller)


async def own_ear(place: Place) -> None:
    """A model that hears by itself where turns end, and cuts its own answer when it is talked over."""
    async with place.call("echo") as caller:
        await caller.play(pcm16(1_500), silence_ms=700)
        await caller.hear_until("response.output_audio.delta")
        await caller.play(pcm16(800), silence_ms=800)
        await caller.hear_until("response.done", where=lambda one: one["response"]["status"] == "completed")


async def always_on(place: Place) -> None:
    """A model that speaks and listens all the time, unit by unit; the client interrupts it."""
    async with place.call(PERSONAPLEX, extra_body={"auto_response": True}) as caller:
        tone = pcm16(80, rate_hz=24_000)
        for number in range(30):
            audio = base64.b64encode(tone).decode()
            await caller.say(type="input_audio_buffer.append", audio=audio, sample_rate_hz=24_000)
            await asyncio.sleep(0.08)
            if number == 15:
                await caller.say(type="response.cancel")


async def other_sound(place: Place) -> None:
    """An answer as WAV files at another rate, settings changed midway, and a session that is refused before."""
    async with calling(place.deployment.urls[0], query="?autostart=0") as refused:
        session = {"model": "scripted", "session_id": f"{place.name}-refused", "extra_body": {"script": [{"on": "x"}]}}
        await refused.say(type="session.update", session=session)
        await refused.hear_until("error")
    turn = {"on": "end_turn", "every": True, "transcript": "Again.", "do": [answer("Once more.", 500), DONE]}
    async with place.call("scripted", **scripted(turn, output_audio_format="wav")) as caller:
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        await done(caller)
        await caller.say(type="session.update", session={"instructions": "Be brief.", "temperature": 0.4})
        await caller.hear_until("session.updated")
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        await caller.hear_until("response.output_audio.delta")
        await caller.say(type="output_audio_buffer.clear")
        await done(caller)


async def measured(place: Place) -> None:
    """A client that asks what the stages of the model did: of an answer that a second worker ends, and of a cut one."""
    words = {"measure": {"0": {"num_tokens_in": 31, "num_tokens_out": 8, "vllm_ttft_ms": 80.125, "vllm_tpot_ms": 20}}}
    sound = {"measure": {"1": {"audio_generated_frames": 24_000, "audio_duration_s": 1, "other": {"voice": "tone"}}}}
    told = [words, answer(STORY, 8_000), sound, sound, DONE]
    cut = [words, answer("It was noon. ", 400), sound, answer(STORY, 4_000)]
    turns = (
        {"on": "end_turn", "transcript": "Tell me a story.", "do": told},
        {"on": "end_turn", "transcript": "What time was it?", "do": cut},
    )
    asking = {"return_stage_metrics": True}
    async with place.call("scripted", **scripted(*turns, extra_body=asking)) as caller:
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        for _ in range(4):
            await caller.hear_until("response.output_audio.delta")
        await place.lose_worker()
        await done(caller)
        await speak(caller, 300, is_speech=True)
        await commit(caller, response_create=True)
        for _ in range(6):
            await caller.hear_until("response.output_audio.delta")
        await caller.say(type="response.cancel")
        await done(caller)
        await caller.say(type="session.close")
        await caller.hear_until("session.closed")


SCENES: tuple[Callable[[Place], Awaitable[None]], ...] = (
    barge_in,
    backchannel,
    tool_call,
    takeover,
    resume,
    truncation,
    silence,
    text_turn,
    telephone,
    chat_lane,
    failure,
    long_call,
    conversation,
    detector,
    chat_detector,
    own_ear,
    always_on,
    other_sound,
    measured,
)
"""Each is one recording, under its own name."""
