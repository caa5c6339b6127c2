"""An actor's ears and voice on the real log: detection, conversion, hearing again after a takeover, old sound."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest

from duplex_es.log.api import START
from duplex_es.log.errors import LogUnavailable
from duplex_es.log.memory import MemoryLog
from duplex_es.model import FeedAudio, Model, OpenModel
from duplex_es.protocol import AppendAudio, ClearInput, CommitInput, Heartbeat, UpdateSession, read_wav
from duplex_es.session import inputs, step
from duplex_es.session.step import Decision
from tests.support.calls import Caller, HinderedLog, SpiedModel, all_output, check_log, frame_type, pcm16, until
from tests.support.cascade import shared_cascade
from tests.support.chat_server import ChatServer, audio_chunk, chat_server, metadata, sound, text_chunk
from tests.support.voices import silence, spoken
from tests.workers.test_actor import scripted
from tests.workers.test_detector import Loudness
from workers.actor import Actor
from workers.detector import Detectors
from workers.models.chat import ChatModel
from workers.models.scripted import ScriptedModel
from workers.retention import Limits

pytestmark = pytest.mark.unit

SERVER_VAD = {"type": "server_vad", "silence_duration_ms": 200}
LOUD, QUIET = pcm16(1_000, level=0.9), pcm16(1_000, level=0)


@pytest.fixture
def log() -> HinderedLog:
    return HinderedLog()


@pytest.fixture
def detectors() -> Iterator[Detectors]:
    made = Detectors(Loudness)  # type: ignore[arg-type]
    yield made
    made.close()


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[inputs.Input]:
    """Everything the session was asked to decide on, in order."""
    seen: list[inputs.Input] = []

    def noting(session: object, said: inputs.Input, now_ms: int) -> Decision:
        seen.append(said)
        return step.step(session, said, now_ms)  # type: ignore[arg-type]

    monkeypatch.setattr("workers.actor.step", noting)
    return seen


class Running:
    """One actor at work on the next session that waits."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.task = asyncio.create_task(actor.run())

    @classmethod
    async def on(cls, log: MemoryLog, model: Model | SpiedModel, worker: str = "w1", **settings: object) -> Running:
        claimed = await log.claim(worker, [model.info.name])
        assert claimed is not None
        return cls(Actor(log, *claimed, model, **settings))  # type: ignore[arg-type]

    async def die(self) -> None:
        """End at once, as a process does that is killed."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


# -- detection -----------------------------------------------------------------------------------------------------


def verdicts(decided: list[inputs.Input]) -> list[inputs.VadVerdict]:
    return [said.vad for said in decided if isinstance(said, inputs.AudioArrived) and said.vad is not None]


async def test_the_session_is_told_where_the_caller_begins_and_stops(
    log: HinderedLog, detectors: Detectors, decided: list[inputs.Input]
) -> None:
    caller = await Caller.open(log, "scripted", turn_detection=SERVER_VAD)
    running = await Running.on(log, scripted(), detectors=detectors)
    await caller.answer()
    await caller.append(QUIET, LOUD, QUIET)
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    marks = [(v.start_ms, v.end_ms) for v in verdicts(decided) if v.speech_started or v.speech_stopped]
    (start_ms, _), (_, end_ms) = marks
    assert start_ms == 1_000 - 300 - 8
    assert end_ms == pytest.approx(2_000 + 200, abs=64)
    await check_log(log, caller.ref)
    await running.die()


async def test_pieces_of_one_append_are_one_decision_in_the_log_and_are_fed_whole(
    log: HinderedLog, detectors: Detectors, decided: list[inputs.Input]
) -> None:
    model = scripted()
    caller = await Caller.open(log, "scripted", turn_detection=SERVER_VAD)
    running = await Running.on(log, model, detectors=detectors)
    await caller.append(QUIET + LOUD + QUIET)
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    assert len(verdicts(decided)) == 3
    await until(lambda: sum(len(request.pcm) for request in model.requests(FeedAudio)) == 48_000 * 4)
    assert running.actor.session.input.clock.ms == 3_000
    bodies = await check_log(log, caller.ref)
    positions = {body["consumed"] for body in bodies}
    assert all(position.startswith("1-") for position in positions)
    await running.die()


async def test_a_detector_that_cannot_be_loaded_refuses_the_opening_that_asks_for_it(log: HinderedLog) -> None:
    def load() -> object:
        raise RuntimeError("no weights")

    caller = await Caller.open(log, "scripted", turn_detection=SERVER_VAD)
    running = await Running.on(log, scripted(), detectors=Detectors(load))  # type: ignore[arg-type]
    error = (await caller.answer()).error
    assert (error.code, error.param) == ("server_vad_initialization_failed", "turn_detection")
    await caller.ends()
    await running.task


async def test_a_detector_that_cannot_be_loaded_refuses_an_update_and_the_call_goes_on(log: HinderedLog) -> None:
    def load() -> object:
        raise RuntimeError("no weights")

    caller = await Caller.open(log, "scripted", instructions="Old.")
    running = await Running.on(log, scripted(), detectors=Detectors(load))  # type: ignore[arg-type]
    await caller.hears("session.updated")
    await caller.say(UpdateSession(session={"turn_detection": SERVER_VAD, "instructions": "New."}, event_id="e1"))
    (error,) = await caller.hears("error")
    assert (error.error.code, error.error.event_id) == ("server_vad_initialization_failed", "e1")
    assert running.actor.session.settings.instructions == "Old."
    await running.die()


async def test_a_detector_that_fails_is_told_with_the_lost_input(
    log: HinderedLog, detectors: Detectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await Caller.open(log, "scripted", turn_detection=SERVER_VAD)
    running = await Running.on(log, scripted(), detectors=detectors)
    await caller.answer()
    monkeypatch.setattr(Loudness, "fails", True)
    await caller.say(AppendAudio(audio=LOUD, event_id="e3"))
    await caller.hears("input_audio_buffer.cleared")
    error, cleared = caller.frames[-2:]
    assert (error.error.code, error.error.event_id) == ("server_vad_inference_failed", "e3")  # type: ignore[union-attr]
    assert frame_type(cleared) == "input_audio_buffer.cleared"
    monkeypatch.setattr(Loudness, "fails", False)
    await caller.append(LOUD)
    await until(lambda: running.actor.session.input.clock.ms == 1_000)
    await running.die()


# -- the voice -----------------------------------------------------------------------------------------------------


async def test_what_the_model_says_reaches_the_session_in_the_sound_the_client_asked_for(
    log: HinderedLog, decided: list[inputs.Input]
) -> None:
    caller = await Caller.open(log, "scripted", output_audio_format="g711_ulaw")
    running = await Running.on(log, scripted())
    await caller.append(LOUD)
    await caller.say(CommitInput())
    await caller.hears("response.done")
    speech = [said for said in decided if isinstance(said, inputs.SpeechReady)]
    assert {(part.format, part.rate_hz, part.model_rate_hz) for part in speech} == {("g711_ulaw", 8_000, 24_000)}
    assert sum(part.samples for part in speech) == 600 * 24
    assert sum(len(part.audio) for part in speech) == 600 * 8
    assert "".join(part.text for part in speech) == "This is a scripted answer."
    await running.die()


async def test_the_clients_voice_is_handed_to_the_model_at_the_opening_and_after_a_takeover(log: HinderedLog) -> None:
    voice = "data:audio/wav;base64," + "A" * 4_000
    caller = await Caller.open(log, "scripted", ref_audio=voice)
    first, second = scripted(), scripted()
    running = await Running.on(log, first)
    await caller.answer()
    await running.die()
    await log.release(running.actor.claim)
    successor = await Running.on(log, second, "w2")
    await until(lambda: bool(second.requests(OpenModel)))
    assert [model.requests(OpenModel)[0].ref_audio for model in (first, second)] == [voice, voice]
    await successor.die()


# -- profiles ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra_body", "level"),
    [({"native_duplex": True}, "model_native_duplex"), ({}, "serving_session_adapter")],
)
async def test_a_session_shows_the_card_of_the_lane_it_opted_in_to(
    log: HinderedLog, extra_body: dict[str, object], level: str
) -> None:
    model = ScriptedModel({"profile": "minicpmo_4_5", "lead_ms": "none"})
    voice = "data:audio/wav;base64,AAAA"
    caller = await Caller.open(log, "openbmb/MiniCPM-o-4_5", ref_audio=voice, extra_body=extra_body)
    running = await Running.on(log, model)
    session = (await caller.answer()).session
    assert session["capabilities"]["implementation_level"] == level
    await running.die()


async def test_a_rule_of_the_model_refuses_the_opening_with_its_code(log: HinderedLog) -> None:
    caller = await Caller.open(log, "openbmb/MiniCPM-o-4_5", extra_body={"native_duplex": True})
    running = await Running.on(log, ScriptedModel({"profile": "minicpmo_4_5"}))
    error = (await caller.answer()).error
    assert (error.code, error.param) == ("ref_audio_required", "session.ref_audio")
    await caller.ends()
    await running.task


async def test_a_model_at_22_05_khz_is_heard_at_the_rate_and_the_pitch_that_were_declared(log: HinderedLog) -> None:
    model = ScriptedModel({"profile": "nemotron_voicechat", "lead_ms": "none"})
    settings = {"output_audio_format": {"type": "audio/pcm", "rate": 24_000}, "extra_body": {"auto_response": True}}
    caller = await Caller.open(log, model.info.name, **settings)
    running = await Running.on(log, model)
    await caller.append(*[pcm16(80)] * 5)
    await caller.say(CommitInput())
    await caller.hears("response.done")
    deltas = caller.heard("response.output_audio.delta")
    assert {delta.sample_rate_hz for delta in deltas} == {24_000}
    sound = np.frombuffer(b"".join(delta.delta for delta in deltas), "<i2")
    assert sound.size == pytest.approx(2_000 * 24, abs=2), "two seconds, whatever the model's rate"
    assert deltas[-1].metadata.audio_duration_ms == 2_000
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(sound.size)))
    assert float(np.argmax(spectrum)) * 24_000 / sound.size == pytest.approx(440, abs=1)
    await running.die()


async def test_an_append_longer_than_the_model_takes_is_refused_alone(log: HinderedLog) -> None:
    model = SpiedModel(ScriptedModel({"profile": "nemotron_voicechat", "lead_ms": "none"}))
    caller = await Caller.open(log, model.info.name, extra_body={"auto_response": True})
    running = await Running.on(log, model)
    await caller.answer()
    await caller.append(pcm16(81), event_id="e1")
    (error,) = await caller.hears("error")
    assert (error.error.code, error.error.event_id) == ("bad_event", "e1")
    await caller.append(pcm16(80))
    await until(lambda: running.actor.session.input.clock.ms == 80)
    assert sum(len(request.pcm) for request in model.requests(FeedAudio)) <= 1_280 * 4
    await running.die()


# -- the chat lane -------------------------------------------------------------------------------------------------


@pytest.fixture
async def chat_log(log: HinderedLog) -> AsyncIterator[tuple[HinderedLog, ChatServer, ChatModel]]:
    """A log, a chat server that answers in text and 500 ms of sound, and the model that asks it."""
    pcm = sound(250)
    async with chat_server([text_chunk("Hello."), *[audio_chunk(pcm, metadata(pcm))] * 2]) as server:
        model = ChatModel({"chat_url": server.url, "lead_ms": "none"})
        await model.load()
        yield log, server, model
        await model.unload()


async def test_a_turn_of_the_chat_lane_is_one_request_and_one_response(
    chat_log: tuple[HinderedLog, ChatServer, ChatModel],
) -> None:
    log, server, model = chat_log
    caller = await Caller.open(log, "chat")
    running = await Running.on(log, model)
    await caller.append(pcm16(300), pcm16(300))
    await caller.say(CommitInput(response_create=True))
    (done,) = await caller.hears("response.done")
    assert done.response.status == "completed"
    (message,) = server.asked[0]["messages"]
    assert message["content"][0]["type"] == "input_audio"
    assert [frame.delta for frame in caller.heard("response.output_text.delta")] == ["Hello."]
    deltas = caller.heard("response.output_audio.delta")
    assert b"".join(delta.delta for delta in deltas) == sound(250) * 2
    assert {(delta.format, delta.sample_rate_hz) for delta in deltas} == {("pcm16", 24_000)}
    assert [delta.metadata.audio_duration_ms for delta in deltas][-1] == 500
    await check_log(log, caller.ref)
    await running.die()


async def test_server_vad_ends_a_turn_of_the_chat_lane_and_sends_no_more_than_the_utterance(
    chat_log: tuple[HinderedLog, ChatServer, ChatModel], detectors: Detectors
) -> None:
    log, server, model = chat_log
    caller = await Caller.open(log, "chat", turn_detection={"type": "server_vad", "prefix_padding_ms": 160})
    running = await Running.on(log, model, detectors=detectors)
    await caller.append(QUIET, QUIET, LOUD, QUIET)
    await caller.hears("response.done")
    content = server.asked[0]["messages"][0]["content"]
    _, _, pcm = read_wav(b64decode(content[0]["input_audio"]["data"]))
    assert len(pcm) / 32 == pytest.approx(160 + 1_000 + 500, abs=80)
    assert len(server.asked) == 1
    await check_log(log, caller.ref)
    await running.die()


async def test_an_answer_of_a_broken_chat_server_ends_as_failed(log: HinderedLog) -> None:
    pcm = sound(250)
    async with chat_server([audio_chunk(pcm, metadata(pcm)), audio_chunk(pcm, None)]) as server:
        model = ChatModel({"chat_url": server.url, "lead_ms": "none"})
        await model.load()
        caller = await Caller.open(log, "chat")
        running = await Running.on(log, model)
        await caller.append(pcm16(300))
        await caller.say(CommitInput(response_create=True))
        (done,) = await caller.hears("response.done")
        assert (done.response.status, done.response.status_details.reason) == ("failed", "response_error")
        assert [frame.error.code for frame in caller.heard("error")] == ["response_error"]
        await check_log(log, caller.ref)
        await running.die()
        await model.unload()


# -- hearing again -------------------------------------------------------------------------------------------------


async def test_a_successor_hears_the_whole_sentence_that_its_predecessor_heard_half_of(log: HinderedLog) -> None:
    question = np.concatenate([silence(600), spoken("My name is Martin."), silence(900)])
    pcm = np.rint(question * 32_767).astype("<i2").tobytes()
    chunks = [pcm[at : at + 3_200] for at in range(0, len(pcm), 3_200)]
    cascade = shared_cascade(lead_ms="none")
    await cascade.load()
    first, second = SpiedModel(cascade), SpiedModel(cascade)
    caller = await Caller.open(log, "cascade")
    running = await Running.on(log, first)
    await caller.answer()
    await caller.append(*chunks[:11])
    await caller.hears("input_audio_buffer.speech_started")
    await until(lambda: running.actor.session.input.clock.ms == 1_100)
    await running.die()
    await log.release(running.actor.claim)
    successor = await Running.on(log, second, "w2")
    await caller.append(*chunks[11:])
    (done,) = await caller.hears("conversation.item.input_audio_transcription.completed")
    assert "martin" in done.transcript.lower()
    assert "my name" in done.transcript.lower()
    await caller.hears("response.done")
    assert len(caller.heard("input_audio_buffer.speech_started")) == 1
    await check_log(log, caller.ref)
    fed = second.requests(FeedAudio)
    assert sum(len(request.pcm) for request in fed) == len(pcm) * 2, "every sample once, from the first on"
    assert [request.end_ms for request in fed] == sorted(request.end_ms for request in fed)
    await successor.die()


async def test_a_turn_that_was_committed_is_not_heard_again(log: HinderedLog) -> None:
    second = scripted()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted())
    await caller.append(LOUD)
    await caller.say(CommitInput())
    await caller.hears("response.done")
    await caller.append(pcm16(300))
    await until(lambda: running.actor.session.input.clock.ms == 1_300)
    await caller.hears("input_audio_buffer.speech_started", 2)
    await running.die()
    await log.release(running.actor.claim)
    successor = await Running.on(log, second, "w2")
    await until(lambda: successor.actor.session.input.clock.ms == 1_300)
    await until(lambda: bool(second.requests(FeedAudio)))
    assert sum(len(request.pcm) for request in second.requests(FeedAudio)) == 300 * 64
    await successor.die()


async def test_the_detector_of_a_successor_knows_that_the_caller_speaks(
    log: HinderedLog, detectors: Detectors, decided: list[inputs.Input]
) -> None:
    caller = await Caller.open(log, "scripted", turn_detection=SERVER_VAD)
    running = await Running.on(log, scripted(), detectors=detectors)
    await caller.answer()
    await caller.append(QUIET, LOUD)
    await caller.hears("input_audio_buffer.speech_started")
    await until(lambda: running.actor.session.input.clock.ms == 2_000)
    await running.die()
    decided.clear()
    await log.release(running.actor.claim)
    successor = await Running.on(log, scripted(), "w2", detectors=detectors)
    await caller.append(QUIET)
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    told = verdicts(decided)
    assert [verdict.speech_started for verdict in told] == [False] * len(told)
    assert [verdict.speech_stopped for verdict in told].count(True) == 1
    await successor.die()


# -- old sound -----------------------------------------------------------------------------------------------------


class Clock:
    """Unix milliseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


async def sounds(log: HinderedLog, caller: Caller) -> tuple[int, int]:
    """How many inputs and how many outputs still have their sound."""
    said = await log.read_input(caller.ref, START)
    shown = await all_output(log, caller.ref)
    return sum(entry.audio is not None for entry in said), sum(entry.audio is not None for entry in shown)


async def test_sound_older_than_the_setting_is_dropped_both_ways_and_the_words_stay(log: HinderedLog) -> None:
    clock = Clock()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted(), limits=Limits(audio_s=60), clock_ms=clock)
    await caller.append(LOUD)
    await caller.say(CommitInput())
    await caller.hears("response.done")
    heard, shown = await sounds(log, caller)
    assert heard == 1
    assert shown > 1
    clock.now_ms += 59_000
    await caller.append(QUIET)
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack")
    assert await sounds(log, caller) == (2, shown)
    clock.now_ms += 8_000
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack", 2)
    async with asyncio.timeout(30):
        while await sounds(log, caller) != (1, 0):
            await asyncio.sleep(0.001)
    assert caller.heard("response.done")
    await check_log(log, caller.ref)
    await running.die()


async def test_sound_that_cannot_be_dropped_now_is_dropped_later(
    log: HinderedLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise LogUnavailable("not now")

    clock = Clock()
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted(), limits=Limits(audio_s=60), clock_ms=clock)
    await caller.append(LOUD)
    await caller.say(ClearInput())
    await until(lambda: running.actor.session.input.clock.ms == 1_000)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(log, "trim_audio", away)
        clock.now_ms += 70_000
        await caller.say(Heartbeat())
        await caller.hears("session.heartbeat_ack")
        await until(lambda: "not tidied up" in caplog.text)
    clock.now_ms += 70_000
    await caller.say(Heartbeat())
    await caller.hears("session.heartbeat_ack", 2)
    async with asyncio.timeout(30):
        while await sounds(log, caller) != (0, 0):
            await asyncio.sleep(0.001)
    await running.die()


async def test_a_session_with_a_limit_names_its_end_and_ends_itself(log: HinderedLog) -> None:
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, scripted(), max_session_s=0.3)
    [expired] = await caller.hears("session.expired")
    await caller.ends("max_session_duration")
    assert expired.reason == "max_session_duration"
    assert caller.heard("session.updated")[0].session["expires_at"] > 0
    await check_log(log, caller.ref)
    await running.die()
