"""A model that has a memory, and its worker dies: what was heard is heard once, and the answer goes on."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from duplex_es.log.api import Claim, Record
from duplex_es.model import (
    FeedAudio,
    ModelInfo,
    ModelListened,
    ModelProducedAudio,
    ModelRemembered,
    ModelSpoke,
    OpenModel,
)
from duplex_es.protocol.objects import Capabilities
from tests.support.calls import Caller, HinderedLog, SpiedModel, check_log, pcm16, until
from tests.support.toy_engine import FRAME_SAMPLES
from tests.workers.test_actor import scripted
from tests.workers.test_actor_senses import Running
from workers.actor import BATCH
from workers.models.stepping.model import EnginePlan, SteppingModel
from workers.models.stepping.voice import Manner

pytestmark = pytest.mark.unit

INFO = ModelInfo(name="toy", capabilities=Capabilities(), output_rate_hz=16_000, memory_bytes=200, auto_response=True)
HEARD_MS = 300


@pytest.fixture
def log() -> HinderedLog:
    return HinderedLog()


@pytest.fixture
async def toys() -> AsyncIterator[list[SteppingModel]]:
    """Two loaded models that step, each with an engine of its own: two workers have one each."""
    plan = EnginePlan("tests.support.toy_engine:ToyEngine", {"slots": "2"})
    models = [SteppingModel(INFO, plan, Manner()) for _ in range(2)]
    for model in models:
        await model.load()
    yield models
    for model in models:
        await model.unload()


def frame(value: int) -> bytes:
    """The sound in which the toy hears ``value``."""
    return array("h", [round(value / 1000 * 32_768)] * FRAME_SAMPLES).tobytes()


def remembered(running: Running) -> list[int]:
    """What the toy had heard so far, by the session's memory."""
    return array("h", running.actor.session.memory).tolist()


async def test_a_model_that_steps_hears_every_frame_once_and_its_answer_goes_on(
    log: HinderedLog, toys: list[SteppingModel]
) -> None:
    first, second = (SpiedModel(model) for model in toys)
    caller = await Caller.open(log, "toy")
    running = await Running.on(log, first)
    await caller.append(*[frame(value) for value in (5, 6, 7)])
    await until(lambda: remembered(running) == [5, 6, 7])
    await running.die()
    await log.release(running.actor.claim)
    successor = await Running.on(log, second, "w2")
    await caller.append(frame(1))
    await until(lambda: remembered(successor) == [5, 6, 7, 1])
    (opened,) = second.requests(OpenModel)
    assert array("h", opened.memory).tolist() == [5, 6, 7]
    assert sum(len(request.pcm) for request in second.requests(FeedAudio)) == FRAME_SAMPLES * 4
    await caller.catch_up()
    assert len(caller.heard("response.created")) == 1
    assert {delta.response_id for delta in caller.heard("response.output_audio.delta")} == {
        caller.heard("response.created")[0].response.id
    }
    await check_log(log, caller.ref)
    await successor.die()


async def test_a_frame_is_saved_whole_or_not_at_all(log: HinderedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """However its signals lie to the end of what is decided in one go."""
    model = scripted()
    model.info = replace(model.info, memory_bytes=200)
    await Caller.open(log, "scripted")
    running = await Running.on(log, model)
    await until(lambda: model.emit is not None)
    assert model.emit is not None
    appends: list[bool] = []
    append = log.append_output

    async def noting(claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        appends.append(any(record.audio for record in records))
        await append(claim, first_seq, records)

    monkeypatch.setattr(log, "append_output", noting)
    log.gate.clear()
    model.emit(ModelListened(epoch=0))
    await until(lambda: log.held == 1)
    for _ in range(BATCH - 2):
        model.emit(ModelListened(epoch=0))
    model.emit(ModelRemembered(epoch=0, data=b"here"))
    model.emit(ModelSpoke(epoch=0, turn=0))
    model.emit(ModelProducedAudio(epoch=0, turn=0, pcm=pcm16(20)))
    log.gate.set()
    await until(lambda: any(appends))
    assert appends == [False, True], "the first signal, and then all the others"
    assert running.actor.session.memory == b"here"
    await running.die()


@pytest.mark.parametrize(
    ("remembers", "transcribes", "again_ms"),
    [
        (True, False, 0),  # It has in its memory what it heard.
        (True, True, HEARD_MS),  # What it has is where it is, not what was said: it is asked again.
        (False, False, HEARD_MS),  # It has not stepped yet: nobody has what was said but the log.
    ],
)
async def test_the_turn_that_is_not_over_is_heard_again_by_a_model_that_has_it_nowhere(
    log: HinderedLog, remembers: bool, transcribes: bool, again_ms: int
) -> None:
    first, second = scripted(), scripted()
    for model in (first, second):
        model.info = replace(model.info, memory_bytes=200, transcribes=transcribes)
    caller = await Caller.open(log, "scripted")
    running = await Running.on(log, first)
    await caller.append(pcm16(HEARD_MS))
    await until(lambda: running.actor.session.input.clock.ms == HEARD_MS)
    if remembers:
        assert first.emit is not None
        for signal in (ModelRemembered(epoch=0, data=b"here"), ModelListened(epoch=0)):
            first.emit(signal)  # What is remembered is written down with the signal behind it.
        await caller.hears("response.listen")
    await running.die()
    await log.release(running.actor.claim)
    successor = await Running.on(log, second, "w2")
    await caller.append(pcm16(100))
    await until(lambda: successor.actor.session.input.clock.ms == HEARD_MS + 100)
    await until(lambda: sum(len(one.pcm) for one in second.requests(FeedAudio)) == (again_ms + 100) * 64)
    await check_log(log, caller.ref)
    await successor.die()
