"""A chat session over a real socket: turns in, answers out, and every way a server can fail."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from starlette.responses import Response

from duplex_es.model import (
    CloseModel,
    EndTurn,
    Generate,
    HistoryItem,
    Interrupt,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelHeardTurn,
    ModelListened,
    ModelPassedOn,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    ReconfigureModel,
    ResetInput,
    Signal,
    ToolOutput,
)
from duplex_es.protocol import read_wav
from duplex_es.testing.model_suite import Caller, ModelSuite, check_order, words_of
from tests.support.calls import until
from tests.support.chat_server import (
    RATE_HZ,
    ChatServer,
    audio_chunk,
    chat_server,
    json_answer,
    metadata,
    server_dies,
    sound,
    text_chunk,
)
from workers.models.chat import PLUGIN
from workers.models.chat.options import ChatOptions
from workers.models.chat.senses import Senses

pytestmark = pytest.mark.unit

TONE = np.full(16_000, 0.25, "<f4").tobytes()


class Asked:
    """One session of a chat server."""

    def __init__(self, server: ChatServer, caller: Caller) -> None:
        self.server = server
        self.caller = caller

    @classmethod
    @asynccontextmanager
    async def of(
        cls, server: ChatServer, *, opening: dict[str, Any] | None = None, **options: str
    ) -> AsyncIterator[Asked]:
        model = PLUGIN({"chat_url": server.url, "lead_ms": "none", **options})
        await model.load()
        caller = await ModelSuite().opened(model, **(opening or {}))
        yield cls(server, caller)
        await caller.perform(CloseModel())
        check_order(caller.ear.signals)
        await model.unload()

    async def failed(self) -> ModelFailed:
        return await self.caller.ear.first(ModelFailed)

    def messages(self, number: int = -1) -> list[dict[str, Any]]:
        return list(self.server.asked[number]["messages"])


def audio_of(signals: list[Signal]) -> bytes:
    return b"".join(signal.pcm for signal in signals if isinstance(signal, ModelProducedAudio))


PCM = sound(500)
SPOKEN = [text_chunk("Hello "), text_chunk("there."), audio_chunk(PCM, metadata(PCM)), audio_chunk(PCM, metadata(PCM))]


async def test_a_spoken_turn_is_sent_as_a_file_and_answered_in_text_and_sound() -> None:
    counted = {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 20}}
    usage = {"choices": [], "usage": counted}
    async with chat_server([*SPOKEN, usage]) as server, Asked.of(server, chat_model="omni") as asked:
        await asked.caller.say(TONE)
        await asked.caller.commit()
        answer = await asked.caller.ear.answered(0)
        (message,) = asked.messages()
        (part,) = message["content"]
        found, _, pcm = read_wav(b64decode(part["input_audio"]["data"]))
        assert (found.sample_rate_hz, len(pcm)) == (16_000, 32_000)
        assert server.asked[0]["model"] == "omni"
        assert audio_of(answer) == PCM * 2
        assert words_of(answer) == "Hello there."
        assert {s.text for s in answer if isinstance(s, ModelProducedAudio)} == {""}, "its words are written"
        assert {s.rate_hz for s in answer if isinstance(s, ModelProducedAudio)} == {RATE_HZ}
        assert answer[-1] == ModelFinished(epoch=0, turn=0, input_tokens=30, output_tokens=4, cached_tokens=20)


async def test_the_server_is_asked_once_per_answer_and_told_what_was_said_before() -> None:
    async with chat_server([text_chunk("One.")], [text_chunk("Two.")]) as server, Asked.of(server) as asked:
        await asked.caller.say(TONE)
        await asked.caller.commit()
        await asked.caller.ear.answered(0)
        await asked.caller.say(TONE)
        await asked.caller.commit()
        await asked.caller.ear.answered(1)
        roles = [(m["role"], m["content"] if isinstance(m["content"], str) else "audio") for m in asked.messages()]
        assert roles == [("user", "audio"), ("assistant", "One."), ("user", "audio")]
        assert len(server.asked) == 2


async def test_a_request_for_an_answer_brings_its_own_history_with_the_speech_of_its_items() -> None:
    async with chat_server([text_chunk("Yes.")]) as server, Asked.of(server) as asked:
        await asked.caller.say(TONE)
        item_id = await asked.caller.commit(respond=False)
        history = (
            HistoryItem(item_id="a", role="user", text="Remember: blue."),
            HistoryItem(item_id=item_id, role="user", text="", spoken=True),
        )
        await asked.caller.perform(
            Generate(epoch=0, response_id="resp_1", history=history, instructions="Shout.", max_output_tokens=9)
        )
        assert (await asked.caller.ear.first(ModelSpoke)).response_id == "resp_1"
        await asked.caller.ear.answered(0)
        system, blue, spoken = asked.messages()
        assert (system["content"], blue["content"]) == ("Shout.", "Remember: blue.")
        assert spoken["content"][0]["type"] == "input_audio"
        assert server.asked[0]["max_tokens"] == 9
        assert len(server.asked) == 1


async def test_only_the_part_of_the_sound_that_belongs_to_the_turn_is_sent() -> None:
    async with chat_server() as server, Asked.of(server) as asked:
        await asked.caller.be_silent(3_000)
        await asked.caller.say(TONE)
        await asked.caller.perform(EndTurn(epoch=0, item_id="i", respond=True, audio_start_ms=2_700))
        await asked.caller.ear.answered(0)
        _, _, pcm = read_wav(b64decode(asked.messages()[0]["content"][0]["input_audio"]["data"]))
        assert len(pcm) == 1_300 * 32


async def test_settings_reach_the_server_and_changes_hold_from_the_next_answer_on() -> None:
    tool: dict[str, object] = {"type": "function", "name": "get_time"}
    opening = {"instructions": "Old.", "voice": "ethan", "temperature": 0.2, "extra_body": {"top_k": 3}}
    async with chat_server() as server, Asked.of(server, opening=opening) as asked:
        await asked.caller.commit()
        await asked.caller.ear.answered(0)
        await asked.caller.perform(ReconfigureModel(instructions="New.", modalities=("text",), tools=(tool,)))
        await asked.caller.commit()
        await asked.caller.ear.answered(1)
        first, second = server.asked
        assert (first["messages"][0]["content"], first["audio"]["voice"]) == ("Old.", "ethan")
        assert (first["temperature"], first["top_k"], second["top_k"]) == (0.2, 3, 3)
        assert (second["messages"][0]["content"], second["modalities"]) == ("New.", ["text"])
        assert second["tools"][0]["function"]["name"] == "get_time"


async def test_a_server_that_only_writes_is_asked_for_text() -> None:
    async with chat_server() as server, Asked.of(server, audio="off") as asked:
        await asked.caller.commit()
        await asked.caller.ear.answered(0)
        assert server.asked[0]["modalities"] == ["text"]


async def test_a_tool_is_called_and_its_output_told_with_the_next_request() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "get_time", "arguments": "{}"}}
    calling = [{"choices": [{"delta": {"tool_calls": [call]}}]}]
    async with chat_server(calling, [text_chunk("Noon.")]) as server, Asked.of(server) as asked:
        await asked.caller.commit()
        called = await asked.caller.ear.first(ModelCalledFunction)
        assert (called.call_id, called.name, called.arguments) == ("call_1", "get_time", "{}")
        await asked.caller.ear.answered(0)
        await asked.caller.perform(ToolOutput(epoch=0, call_id="call_1", output="12:00"))
        await asked.caller.ear.quiet()
        assert len(server.asked) == 1, "the client asks for the answer"
        await asked.caller.commit()
        await asked.caller.ear.answered(1)
        assert [message["role"] for message in asked.messages()] == ["assistant", "tool"]


async def test_words_that_come_with_the_sound_ride_on_it() -> None:
    def piece(**audio: str) -> dict[str, Any]:
        return {"choices": [{"delta": {"audio": audio}}]}

    data = b64encode(PCM).decode()
    chunks = [
        piece(transcript="Hel"),
        piece(data=data),
        piece(transcript="lo."),
        piece(data=data),
        piece(transcript="!"),
    ]
    async with chat_server(chunks) as server, Asked.of(server, audio_metadata="off") as asked:
        await asked.caller.commit()
        answer = await asked.caller.ear.answered(0)
        spoken = [signal.text for signal in answer if isinstance(signal, ModelProducedAudio) and signal.text]
        assert spoken == ["Hel", "lo."]
        assert words_of(answer) == "Hello.!"
        assert audio_of(answer) == PCM * 2


async def test_what_is_no_part_of_an_answer_is_passed_on() -> None:
    extra = {"metrics": {"ttft_ms": 12}}
    async with chat_server([text_chunk("Hi."), extra]) as server, Asked.of(server) as asked:
        await asked.caller.commit()
        await asked.caller.ear.answered(0)
        assert asked.caller.ear.of(ModelPassedOn) == [ModelPassedOn(epoch=0, turn=0, message=extra)]


# -- failures ------------------------------------------------------------------------------------------------------

OTHER_RATE = sound(100, 16_000)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([text_chunk("a"), {"error": {"type": "server_error", "message": "oom"}}], "chat_error"),
        (json_answer({"error": {"type": "resource_exhausted", "message": "full"}}, 429), "resource_exhausted"),
        (json_answer({"object": "error", "message": "no such model"}, 404), "chat_error"),
        (Response("<html>bad gateway</html>", 502), "chat_error"),
        (["{broken"], "response_error"),
        ([audio_chunk(PCM, None)], "response_error"),
        ([audio_chunk(PCM, {**metadata(PCM), "frame_count": 1})], "response_error"),
        ([audio_chunk(PCM, metadata(PCM)), audio_chunk(OTHER_RATE, metadata(OTHER_RATE, 16_000))], "response_error"),
        ([text_chunk("x", modality="video")], "unsupported_response_modality"),
    ],
)
async def test_an_answer_that_fails_says_why_and_the_next_one_is_given(answer: Any, code: str) -> None:
    async with chat_server(answer, [text_chunk("Fine.")]) as server, Asked.of(server, retries="0") as asked:
        await asked.caller.commit()
        failed = await asked.failed()
        assert (failed.code, failed.fatal) == (code, False)
        await asked.caller.commit()
        assert words_of(await asked.caller.ear.answered(1)) == "Fine."
        assert len(asked.caller.ear.of(ModelFailed)) == 1


async def test_a_server_that_is_not_there_fails_the_answer() -> None:
    server = ChatServer(url="http://127.0.0.1:9/v1")
    async with Asked.of(server) as asked:
        await asked.caller.commit()
        assert (await asked.failed()).code == "response_error"


async def test_sound_before_the_failure_was_heard() -> None:
    async with (
        chat_server([audio_chunk(PCM, metadata(PCM)), audio_chunk(PCM, None)]) as server,
        Asked.of(server) as asked,
    ):
        await asked.caller.commit()
        failed = await asked.failed()
        assert "audio_metadata" in failed.message
        assert audio_of(asked.caller.ear.signals) == PCM


# -- interruptions -------------------------------------------------------------------------------------------------


async def test_an_interruption_closes_the_request_and_the_next_answer_knows_what_was_heard() -> None:
    endless = [text_chunk("One two three."), *[0.05, text_chunk(" more")] * 400]
    async with chat_server(endless, [text_chunk("Next.")]) as server, Asked.of(server) as asked:
        await asked.caller.commit()
        await asked.caller.ear.first(ModelProducedText)
        asked.caller.epoch += 1
        await asked.caller.perform(Interrupt(epoch=1, heard_text="One"))
        await asked.caller.commit()
        spoke = await asked.caller.ear.first(ModelSpoke, lambda spoke: spoke.epoch == 1)
        await asked.caller.ear.answered(spoke.turn)
        assert asked.messages()[0] == {"role": "assistant", "content": "One"}
        await until(lambda: server.cut == 1)


async def test_sound_does_not_run_far_ahead_of_its_playing_time() -> None:
    long = sound(4_000)
    async with chat_server([audio_chunk(long, metadata(long))]) as server, Asked.of(server, lead_ms="300") as asked:
        await asked.caller.commit()
        await asked.caller.ear.first(ModelProducedAudio)
        await asyncio.sleep(0.1)
        # Far from the whole four seconds, also where this comes late.
        assert len(audio_of(asked.caller.ear.signals)) < 3_000 * RATE_HZ // 1000 * 2
        asked.caller.epoch += 1
        await asked.caller.perform(Interrupt(epoch=1))


async def test_cleared_sound_is_not_sent() -> None:
    async with chat_server() as server, Asked.of(server) as asked:
        await asked.caller.say(TONE)
        await asked.caller.perform(ResetInput(epoch=0))
        await asked.caller.commit()
        await asked.caller.ear.answered(0)
        assert asked.messages() == []


class TestChat(ModelSuite, promises=("takes_text_turns",)):
    """The chat model keeps the contract's promises."""

    @pytest.fixture
    async def model(self) -> AsyncIterator[Any]:
        chunks = [text_chunk("Once upon a time. "), *[audio_chunk(PCM, metadata(PCM))] * 8]
        async with chat_server(chunks) as server:
            yield PLUGIN({"chat_url": server.url, "lead_ms": "300"})


# -- what fails on the way, and what the server lacks ---------------------------------------------------------------


class FakeSenses(Senses):
    """Hears how long it was, says 100 ms a character."""

    def __init__(self, options: ChatOptions) -> None:
        hear = (lambda samples: f"{len(samples)} samples") if options.audio_in == "asr" else None
        say = (lambda text: np.full(2_400 * len(text), 0.1, np.float32)) if options.audio_out == "tts" else None
        super().__init__(hear, say)


@asynccontextmanager
async def sensing(server: ChatServer, **options: str) -> AsyncIterator[Asked]:
    model = PLUGIN({"chat_url": server.url, "lead_ms": "none", **options}, loader=FakeSenses)
    await model.load()
    caller = await ModelSuite().opened(model)
    yield Asked(server, caller)
    await caller.perform(CloseModel())
    check_order(caller.ear.signals)
    await model.unload()


async def test_a_request_that_fails_before_its_first_piece_is_made_again() -> None:
    busy = json_answer({"error": {"message": "busy"}}, 503)
    async with chat_server(busy, busy, [text_chunk("Here.")]) as server, Asked.of(server) as asked:
        await asked.caller.ask("Hello?", "text")
        assert words_of(await asked.caller.ear.answered(0)) == "Here."
        assert len(server.asked) == 3
        assert len(asked.caller.ear.of(ModelSpoke)) == 1


async def test_a_server_that_dies_in_the_middle_ends_the_answer_and_is_not_asked_again() -> None:
    async with chat_server([text_chunk("Half an "), server_dies]) as server, Asked.of(server) as asked:
        await asked.caller.ask("Hello?", "text")
        failed = await asked.failed()
        assert failed.code == "response_error"
        assert words_of(asked.caller.ear.signals) == "Half an "
        assert len(server.asked) == 1


async def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    async with chat_server([5.0]) as server, Asked.of(server, first_byte_s="0.1", retries="0") as asked:
        await asked.caller.ask("Hello?", "text")
        assert "nothing within 0.1 s" in (await asked.failed()).message


async def test_a_server_that_falls_silent_is_given_up_in_time() -> None:
    async with chat_server([text_chunk("Well, "), 5.0]) as server, Asked.of(server, idle_s="0.1") as asked:
        await asked.caller.ask("Hello?", "text")
        assert "Timeout" in (await asked.failed()).message


async def test_a_server_that_only_reads_is_told_the_words() -> None:
    async with chat_server([text_chunk("Yes.")]) as server, sensing(server, audio_in="asr") as asked:
        await asked.caller.say(TONE)
        item_id = await asked.caller.commit()
        heard = await asked.caller.ear.first(ModelHeardTurn)
        assert (heard.item_id, heard.transcript) == (item_id, "16000 samples")
        await asked.caller.ear.answered(0)
        assert asked.messages() == [{"role": "user", "content": "16000 samples"}]


async def test_a_turn_without_sound_is_not_asked_about() -> None:
    async with chat_server() as server, sensing(server, audio_in="asr") as asked:
        await asked.caller.be_silent(300)
        await asked.caller.commit()
        await asked.caller.ear.first(ModelListened)
        assert server.asked == []


async def test_a_server_that_only_writes_is_given_a_voice_sentence_by_sentence() -> None:
    chunks = [text_chunk("One. T"), text_chunk("wo. Thr"), text_chunk("ee.")]
    async with chat_server(chunks) as server, sensing(server, audio_out="tts") as asked:
        await asked.caller.ask("Count.")
        answer = await asked.caller.ear.answered(0)
        assert words_of(answer) == "One. Two. Three."
        assert len(audio_of(answer)) == 2 * 2_400 * len("One.Two.Three.")
        assert server.asked[0]["modalities"] == ["text"]
        await asked.caller.ask("Count.", "text")
        assert audio_of(await asked.caller.ear.answered(1)) == b""


class TestChatWithEarsAndVoice(ModelSuite, promises=("transcribes", "takes_text_turns")):
    """The promises hold as well when the server can neither hear nor speak."""

    question = "Tell me a story."

    @pytest.fixture
    async def model(self) -> AsyncIterator[Any]:
        async with chat_server([text_chunk("Once upon a time there was a fox. ")]) as server:
            options = {"chat_url": server.url, "lead_ms": "300", "audio_in": "asr", "audio_out": "tts"}
            yield PLUGIN(options, loader=FakeSenses)
