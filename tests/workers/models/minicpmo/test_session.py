"""One caller's units and answers, with the engine in the test's hand and a clock that stands still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from duplex_es.model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Interrupt,
    ModelDroppedInput,
    ModelFailed,
    ModelFinished,
    ModelListened,
    ModelMeasured,
    ModelProducedAudio,
    ModelProducedText,
    ModelRefused,
    ModelSpoke,
    OpenModel,
    ResetInput,
    Signal,
    StageMetrics,
)
from workers.engine.contract import EngineFacts
from workers.engine.process import Dropped, EngineProcess, Failed, Hear, Ready, Refused
from workers.engine.units import UnitDone
from workers.models.minicpmo.session import MOST_SILENT_UNITS, UnitSession

pytestmark = pytest.mark.unit

FACTS = EngineFacts(
    name="toy",
    frame_ms=1000,
    first_ms=1030,
    input_rate_hz=16_000,
    output_rate_hz=24_000,
    slots=1,
    window_frames=0,
    memory_bytes=0,
)
SECOND = bytes(48_000)


class Handed(NamedTuple):
    """One unit as the engine got it."""

    serial: int
    samples: int
    loud: bool
    frames: tuple[bytes, ...]
    forced: bool


class Engine:
    """Takes units and answers when the test says so."""

    def __init__(self) -> None:
        self.is_alive = True
        self.units: list[Handed] = []
        self.openings: list[Mapping[str, Any]] = []
        self.interrupted = 0
        self.closed: list[str] = []
        self.hear: Hear

    def open(self, session: str, opening: Mapping[str, Any], hear: Hear, memory: bytes = b"") -> None:
        self.openings.append(opening)
        self.hear = hear
        hear(Ready())

    def unit(
        self, session: str, serial: int, pcm: bytes, *, frames: Sequence[bytes] = (), forced: bool = False
    ) -> None:
        samples = np.frombuffer(pcm, np.float32)
        self.units.append(Handed(serial, samples.size, bool(samples.any()), tuple(frames), forced))

    def interrupt(self, session: str) -> None:
        self.interrupted += 1

    def close(self, session: str) -> None:
        self.closed.append(session)

    def listens(self, *, ends: bool = False) -> None:
        self.hear(UnitDone(b"", "", listens=True, ends=ends, serial=self.units[-1].serial))

    def speaks(self, text: str = "yes ", pcm: bytes = SECOND, *, ends: bool = False, serial: int | None = None) -> None:
        number = self.units[-1].serial if serial is None else serial
        self.hear(UnitDone(pcm, text, listens=False, ends=ends, serial=number))

    def dies(self) -> None:
        self.is_alive = False
        self.hear(Failed("gone"))


class Scene:
    """A session, its engine and what it said; what it measured is kept apart."""

    def __init__(self, *, auto: bool = False, real_time: bool = False, **fields: Any) -> None:
        self.engine = Engine()
        self.said: list[Signal] = []
        self.measured: list[ModelMeasured] = []
        self.now_s = 100.0
        request = OpenModel(session_id="s", incarnation=0, epoch=0, **fields)
        self.session = UnitSession(
            cast(EngineProcess, self.engine),
            FACTS,
            request,
            self._hear,
            b"",
            answers_by_itself=auto,
            real_time=real_time,
            now_s=lambda: self.now_s,
        )

    def _hear(self, signal: Signal) -> None:
        if isinstance(signal, ModelMeasured):
            self.measured.append(signal)
        else:
            self.said.append(signal)

    @classmethod
    async def new(cls, **fields: Any) -> Scene:
        scene = cls(**fields)
        await scene.session.open()
        return scene

    async def say(self, duration_ms: int, *, level: float = 0.1, **fields: Any) -> None:
        pcm = np.full(16 * duration_ms, level, np.float32).tobytes()
        await self.session.perform(FeedAudio(**{"epoch": 0, "pcm": pcm, "end_ms": 0, **fields}))

    async def commit(self, *, respond: bool = True) -> None:
        await self.session.perform(EndTurn(epoch=0, item_id="i", respond=respond))

    def kinds(self) -> list[type]:
        return [type(signal) for signal in self.said]


async def test_the_first_unit_is_longer_and_a_turns_end_fills_one_up() -> None:
    scene = await Scene.new()
    await scene.say(1200, force_listen=True)
    await scene.commit()
    assert [(unit.samples, unit.forced) for unit in scene.engine.units] == [(16_480, True), (16_000, False)]


async def test_an_answer_is_what_the_model_says_until_its_turn_ends() -> None:
    scene = await Scene.new()
    await scene.say(500)
    await scene.commit()
    scene.engine.speaks("Hello ")
    scene.engine.speaks("there.", ends=True)
    assert scene.said == [
        ModelSpoke(epoch=0, turn=0),
        ModelProducedAudio(epoch=0, turn=0, pcm=SECOND, text="Hello "),
        ModelProducedAudio(epoch=0, turn=0, pcm=SECOND, text="there."),
        ModelFinished(epoch=0, turn=0),
    ]


async def test_every_unit_of_an_answer_is_told_by_network_or_as_a_whole() -> None:
    scene = await Scene.new()
    await scene.say(500)
    await scene.commit()
    scene.engine.hear(UnitDone(SECOND, "Hello ", listens=False, ends=False, serial=1, work_ms=700.0))
    told = {"0": {"num_tokens_out": 8}, "2": {"audio_duration_s": 1.0}}
    scene.engine.hear(UnitDone(SECOND, "there.", listens=False, ends=True, serial=2, stages=told))
    whole = StageMetrics(
        stage_gen_time_ms=700.0,
        audio_generated_frames=24_000,
        audio_duration_s=1.0,
        output_unit_count=1,
        final_output_type="audio",
    )
    assert scene.measured == [
        ModelMeasured(epoch=0, turn=0, stages={"0": whole}),
        ModelMeasured(
            epoch=0, turn=0, stages={"0": StageMetrics(num_tokens_out=8), "2": StageMetrics(audio_duration_s=1.0)}
        ),
    ]


async def test_a_unit_that_only_listened_belongs_to_no_answer() -> None:
    scene = await Scene.new()
    await scene.session.perform(Generate(epoch=0, response_id="r", history=()))
    scene.engine.listens()
    assert scene.measured == []


async def test_listening_ends_an_answer_too() -> None:
    scene = await Scene.new()
    await scene.say(500)
    await scene.commit()
    scene.engine.speaks()
    scene.engine.listens()
    assert scene.kinds()[-1] is ModelFinished


async def test_silent_units_drive_an_answer_while_the_caller_sends_nothing() -> None:
    scene = await Scene.new()
    await scene.session.perform(Generate(epoch=0, response_id="r", history=()))
    assert [unit.loud for unit in scene.engine.units] == [False]
    scene.engine.speaks()
    assert len(scene.engine.units) == 2
    scene.engine.listens()
    assert len(scene.engine.units) == 2, "nothing drives a model that is not answering"
    assert ModelSpoke(epoch=0, turn=0, response_id="r") in scene.said


async def test_a_model_that_does_not_want_to_answer_is_let_be_after_a_while() -> None:
    scene = await Scene.new()
    await scene.session.perform(Generate(epoch=0, response_id="r", history=()))
    for _ in range(MOST_SILENT_UNITS):
        scene.engine.listens()
    assert scene.said == [ModelListened(epoch=0, response_id="r")]
    assert len(scene.engine.units) == MOST_SILENT_UNITS


async def test_in_real_time_an_answer_is_at_most_a_unit_ahead_of_its_playing() -> None:
    scene = await Scene.new(real_time=True)
    await scene.session.perform(Generate(epoch=0, response_id="r", history=()))
    scene.engine.speaks()
    assert len(scene.engine.units) == 2, "a second is being played: the next one is made meanwhile"
    scene.engine.speaks()
    assert len(scene.engine.units) == 2, "two seconds are there: the third is not due yet"
    scene.now_s += 1.0
    scene.session._due()
    assert len(scene.engine.units) == 3
    await scene.session.perform(CloseModel())


async def test_a_model_nobody_asked_is_not_listened_to() -> None:
    scene = await Scene.new()
    await scene.say(1030, force_listen=True)
    scene.engine.speaks()
    scene.engine.listens()
    assert scene.said == []


async def test_a_model_that_decides_itself_tells_of_every_unit() -> None:
    scene = await Scene.new(auto=True)
    await scene.say(1030)
    scene.engine.listens()
    await scene.say(1000)
    scene.engine.speaks(ends=True)
    assert scene.kinds() == [ModelListened, ModelSpoke, ModelProducedAudio, ModelFinished]


async def test_a_turn_that_wants_no_response_is_listened_to() -> None:
    scene = await Scene.new(auto=True)
    await scene.say(500)
    await scene.commit(respond=False)
    assert scene.said == [ModelListened(epoch=0)]
    assert [unit.forced for unit in scene.engine.units] == [True]


async def test_an_interruption_breaks_off_swallows_and_ends_the_models_turn() -> None:
    scene = await Scene.new(auto=True)
    await scene.say(1030)
    scene.engine.speaks("one ")
    await scene.say(1000)
    late = scene.engine.units[-1].serial
    await scene.session.perform(Interrupt(epoch=1, heard_text="on"))
    told = len(scene.said)
    scene.engine.speaks("two ", serial=late)
    assert scene.engine.interrupted == 1 and scene.said[told:] == []
    await scene.say(1000, epoch=1)
    assert scene.engine.units[-1].forced, "the model must stop speaking"
    scene.engine.listens(ends=True)
    await scene.say(1000, epoch=1)
    assert not scene.engine.units[-1].forced
    scene.engine.speaks()
    assert scene.said[-2] == ModelSpoke(epoch=1, turn=1)


async def test_a_written_answer_is_words_only() -> None:
    scene = await Scene.new(modalities=("text",))
    await scene.say(500)
    await scene.commit()
    scene.engine.speaks("Hello.", ends=True)
    assert scene.kinds() == [ModelSpoke, ModelProducedText, ModelFinished]


async def test_words_without_sound_fail_an_answer_that_was_asked_for() -> None:
    scene = await Scene.new()
    await scene.say(500)
    await scene.commit()
    scene.engine.speaks("Hello.", pcm=b"")
    assert [one.code for one in scene.said if isinstance(one, ModelFailed)] == ["runtime_data_plane_text_without_audio"]


async def test_pictures_leave_with_their_unit_and_are_cleared_with_the_input() -> None:
    scene = await Scene.new()
    await scene.say(1030, frames=(b"a", b"b"))
    assert scene.engine.units[-1].frames == (b"a",)
    await scene.session.perform(ResetInput(epoch=0))
    await scene.say(1000)
    assert scene.engine.units[-1].frames == ()


async def test_a_lost_engine_ends_the_answer_and_the_next_one_hears_the_words_so_far() -> None:
    scene = await Scene.new(history=(HistoryItem(item_id="a", role="user", text="I am Martin."),))
    await scene.say(500)
    await scene.commit()
    scene.engine.speaks("Hello Martin. ")
    scene.engine.dies()
    (failed,) = [one for one in scene.said if isinstance(one, ModelFailed)]
    assert (failed.code, failed.fatal) == ("worker_lost", False)
    await scene.say(2500)
    scene.engine.is_alive = True
    scene.session.begin_again()
    assert scene.engine.openings[-1]["history"] == [["user", "I am Martin."], ["assistant", "Hello Martin."]]
    assert any(isinstance(one, ModelDroppedInput) for one in scene.said)
    await scene.say(1030)
    assert scene.engine.units[-1].samples == 16_480, "a new engine begins with a first unit"


async def test_a_sick_session_fails_for_good() -> None:
    scene = await Scene.new()
    scene.engine.hear(Failed("sick"))
    (failed,) = scene.said
    assert isinstance(failed, ModelFailed) and failed.fatal


async def test_what_was_dropped_is_told_in_milliseconds() -> None:
    scene = await Scene.new()
    scene.engine.hear(Dropped(2))
    assert scene.said == [ModelDroppedInput(epoch=0, duration_ms=2_000)]


async def test_a_refused_opening_is_refused() -> None:
    scene = Scene()
    scene.engine.open = lambda session, opening, hear, memory=b"": hear(Refused("c", "m", "p"))  # type: ignore[method-assign]
    with pytest.raises(ModelRefused) as refused:
        await scene.session.open()
    assert (refused.value.code, refused.value.param) == ("c", "p")


async def test_nothing_is_said_after_the_end() -> None:
    scene = await Scene.new(auto=True)
    await scene.say(1030)
    await scene.session.perform(CloseModel())
    scene.engine.speaks()
    assert scene.said == [] and len(scene.engine.closed) == 1
