"""The plug-in over a real engine process with the double in it: contract, units, answers, interruptions, a crash."""

from __future__ import annotations

import array
import asyncio
import base64
import io
import math
import os
import signal
import wave
from collections.abc import AsyncIterator

import pytest

from duplex_es.model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    Model,
    ModelFailed,
    ModelFinished,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelRefused,
    ModelSpoke,
    Signal,
)
from duplex_es.testing.model_suite import Caller, ModelSuite, sound_of
from workers.models.minicpmo import PLUGIN, MiniCPMModel
from workers.plugins import make_model

pytestmark = pytest.mark.unit

RATE_HZ = 16_000


def voice_url(duration_s: float = 0.55) -> str:
    data = io.BytesIO()
    with wave.open(data, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(RATE_HZ)
        wav.writeframes(b"\1\1" * int(RATE_HZ * duration_s))
    return "data:audio/wav;base64," + base64.b64encode(data.getvalue()).decode()


VOICE = voice_url()


def tone(duration_ms: int) -> bytes:
    samples = RATE_HZ * duration_ms // 1000
    return array.array("f", (0.3 * math.sin(math.tau * 440 * n / RATE_HZ) for n in range(samples))).tobytes()


def a_model(**options: str) -> MiniCPMModel:
    model = PLUGIN({"fake": "yes", **options})
    model.real_time = False
    return model


class Suite(ModelSuite):
    async def opened(self, model: Model, **fields: object) -> Caller:
        body = {"native_duplex": True, **fields.pop("extra_body", {})}  # type: ignore[dict-item]
        return await super().opened(model, **{"ref_audio": VOICE, "extra_body": body, **fields})


class TestMiniCPM(Suite, promises=()):
    @pytest.fixture
    def model(self) -> Model:
        return a_model()


@pytest.fixture
async def model() -> AsyncIterator[MiniCPMModel]:
    model = a_model()
    await model.load()
    yield model
    await model.unload()


opened = Suite().opened
AUTO = {"auto_response": True}


def test_it_is_found_by_its_published_name() -> None:
    assert make_model("openbmb/MiniCPM-o-4_5", {"fake": "yes"}).info.name == "openbmb/MiniCPM-o-4_5"


async def test_a_model_that_decides_itself_says_of_every_unit_what_it_did(model: MiniCPMModel) -> None:
    caller = await opened(model, extra_body=AUTO)
    await caller.say(tone(1030))
    await caller.ear.first(ModelListened)
    await caller.be_silent(1000)
    spoke = await caller.ear.first(ModelSpoke)
    answer = await caller.ear.answered(spoke.turn)
    sounds = [one for one in answer if isinstance(one, ModelProducedAudio)]
    assert {len(one.pcm) for one in sounds} == {2 * 24_000}
    assert all(one.text for one in sounds)
    await caller.perform(CloseModel())


async def test_less_than_the_first_unit_is_no_unit_yet(model: MiniCPMModel) -> None:
    caller = await opened(model, extra_body=AUTO)
    await caller.be_silent(1000)
    await caller.ear.quiet()
    assert caller.ear.signals == []
    await caller.be_silent(30)
    await caller.ear.first(ModelListened)
    await caller.perform(CloseModel())


async def test_a_model_that_is_asked_answers_only_then(model: MiniCPMModel) -> None:
    caller = await opened(model)
    for piece in (tone(1030), bytes(4 * RATE_HZ)):
        await caller.perform(FeedAudio(epoch=0, pcm=piece, end_ms=0, force_listen=True))
    await caller.ear.quiet()
    assert caller.ear.signals == []
    await caller.commit()
    spoke = await caller.ear.first(ModelSpoke)
    await caller.ear.answered(spoke.turn)
    await caller.perform(CloseModel())


async def test_an_asked_model_that_hears_nothing_says_at_last_that_it_listens(model: MiniCPMModel) -> None:
    caller = await opened(model)
    await caller.perform(Generate(epoch=0, response_id="resp_1", history=()))
    listened = await caller.ear.first(ModelListened)
    assert listened.response_id == "resp_1"
    await caller.perform(CloseModel())


async def test_a_written_answer_is_words_only(model: MiniCPMModel) -> None:
    caller = await opened(model, modalities=("text",), ref_audio=None)
    await caller.say(tone(1500))
    await caller.commit()
    spoke = await caller.ear.first(ModelSpoke)
    answer = await caller.ear.answered(spoke.turn)
    assert any(isinstance(one, ModelProducedText) for one in answer)
    assert not any(isinstance(one, ModelProducedAudio) for one in answer)
    await caller.perform(CloseModel())


async def test_the_same_sound_gives_the_same_answer(model: MiniCPMModel) -> None:
    said = []
    for _ in range(2):
        caller = await opened(model)
        await caller.say(tone(1500))
        await caller.commit()
        spoke = await caller.ear.first(ModelSpoke)
        said.append(await caller.ear.answered(spoke.turn))
        await caller.perform(CloseModel())
    assert said[0] == said[1]


async def answered_to_speech(caller: Caller) -> list[Signal]:
    """What a session says after a second and a half of speech."""
    await caller.say(tone(1500))
    await caller.commit()
    spoke = await caller.ear.first(ModelSpoke)
    return await caller.ear.answered(spoke.turn)


async def test_an_answer_is_the_same_whatever_runs_beside_it(model: MiniCPMModel) -> None:
    said = []
    for company in (0, 1):
        beside = [await opened(model, session_id="sess_2") for _ in range(company)]
        caller = await opened(model)
        for other in beside:
            await other.say(tone(3000))
            await other.commit()
        said.append(await answered_to_speech(caller))
        for one in (caller, *beside):
            await one.perform(CloseModel())
    assert said[0] == said[1]


async def test_another_worker_takes_a_call_over_by_its_words(model: MiniCPMModel) -> None:
    history = (
        HistoryItem(item_id="a", role="user", text="I am Martin."),
        HistoryItem(item_id="b", role="assistant", text="Hello Martin."),
    )
    caller = await opened(model, history=history)
    first = await answered_to_speech(caller)
    await caller.perform(CloseModel(goes_on=True))
    other = a_model()
    await other.load()
    successor = await opened(other, history=history, resumed=True, open_turn=None)
    assert await answered_to_speech(successor) == first
    await successor.perform(CloseModel())
    await other.unload()


async def test_a_picture_is_seen_with_the_sound_it_came_with(model: MiniCPMModel) -> None:
    said = []
    for frames in ((), (b"a cat",), (b"a dog",)):
        caller = await opened(model)
        await caller.perform(FeedAudio(epoch=0, pcm=b"", end_ms=0, frames=frames))
        said.append(await answered_to_speech(caller))
        await caller.perform(CloseModel())
    assert len({sound_of(answer) for answer in said}) == 3


async def test_one_object_is_one_session_and_the_card_says_so() -> None:
    model = a_model(objects="1")
    await model.load()
    assert model.capacity == 1
    assert not model.info.capabilities.supports_multi_session
    caller = await opened(model)
    with pytest.raises(ModelRefused) as refused:
        await opened(model, session_id="sess_2")
    assert refused.value.code == "resource_exhausted"
    await caller.perform(CloseModel())
    await model.unload()


async def test_an_interruption_silences_what_was_asked_before_it(model: MiniCPMModel) -> None:
    caller = await opened(model)
    await caller.say(tone(1500))
    await caller.commit()
    await caller.perform(Interrupt(epoch=1))
    told = len(caller.ear.signals)
    await caller.ear.quiet()
    assert caller.ear.signals[told:] == []
    caller.epoch = 1
    await caller.say(tone(1500))
    await caller.commit()
    spoke = await caller.ear.first(ModelSpoke, lambda one: one.epoch == 1)
    await caller.ear.answered(spoke.turn)
    await caller.perform(CloseModel())


async def test_there_is_room_for_as_many_as_there_are_objects(model: MiniCPMModel) -> None:
    assert model.capacity == 2
    callers = [await opened(model), await opened(model)]
    with pytest.raises(ModelRefused) as refused:
        await opened(model)
    assert refused.value.code == "resource_exhausted"
    await callers[0].perform(CloseModel())
    await (await opened(model)).perform(CloseModel())


async def test_a_lost_engine_ends_the_answer_and_the_next_turn_goes_on(model: MiniCPMModel) -> None:
    model.real_time = True
    caller = await opened(model, history=(HistoryItem(item_id="a", role="user", text="I am Martin."),))
    await caller.say(tone(1500))
    await caller.perform(EndTurn(epoch=0, item_id="item_1", respond=True))
    await caller.ear.first(ModelSpoke)
    pid = model.engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    ended = await caller.ear.first(ModelFailed | ModelFinished)  # type: ignore[arg-type]
    if isinstance(ended, ModelFailed):
        assert (ended.code, ended.fatal) == ("worker_lost", False)
    model.real_time = False
    (session,) = model._keeper._sessions
    session._real_time = False
    async with asyncio.timeout(30):
        while session._seat.life < 2:
            await caller.ear.quiet()
    told = len(caller.ear.signals)
    await caller.say(tone(1500))
    await caller.commit()
    spoke = await caller.ear.first(ModelSpoke, after=told)
    await caller.ear.answered(spoke.turn)
    await caller.perform(CloseModel())


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"ref_audio": None}, "ref_audio_required", "session.ref_audio"),
        ({"ref_audio": "https://elsewhere.example/voice.wav"}, "invalid_duplex_runtime_config", "session.ref_audio"),
        ({"ref_audio": "data:audio/wav;base64,AAAA"}, "invalid_duplex_runtime_config", "session.ref_audio"),
        ({"extra_body": {"native_duplex": False}}, "invalid_duplex_runtime_config", "session.extra_body.native_duplex"),
        (
            {"extra_body": {"listen_prob_scale": "much"}},
            "invalid_duplex_runtime_config",
            "session.extra_body.listen_prob_scale",
        ),
        ({"extra_body": {"ref_audio_data": "x"}}, "invalid_duplex_runtime_config", "session.extra_body.ref_audio_data"),
        ({"extra_body": {"ref_audio_path": "/x"}}, "unsupported_ref_audio_path", "session.extra_body.ref_audio_path"),
    ],
)
async def test_what_cannot_be_served_is_refused_by_name(
    model: MiniCPMModel, fields: dict[str, object], code: str, param: str
) -> None:
    with pytest.raises(ModelRefused) as refused:
        await opened(model, **fields)
    assert (refused.value.code, refused.value.param) == (code, param)
    await (await opened(model)).perform(CloseModel())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "weights is missing"),
        ({"fake": "yes", "objects": "none"}, "objects"),
        ({"fake": "yes", "voices_from": "voices.example"}, "voices_from"),
        ({"fake": "yes", "window": "wide"}, "window is 'wide'; it is one of basic, context, off"),
        ({"fake": "yes", "colour": "red"}, "colour"),
    ],
)
def test_options_are_refused_by_name(options: dict[str, str], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        PLUGIN(options)
