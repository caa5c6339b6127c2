"""One voice per session: in order, fenced, paced, and silent after the end."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.model import (
    ContinueAnswer,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelHeardSpeech,
    ModelInterrupted,
    ModelListened,
    ModelMeasured,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Recipe,
    Signal,
    StageMetrics,
)
from workers.models.floor import Answer, AnswerCut, Floor

pytestmark = pytest.mark.unit

SECOND = b"\0\0" * 1000


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that only sleeping moves."""
    clock = Clock()

    async def sleep(delay_s: float) -> None:
        clock.now_s += delay_s

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return clock


@pytest.fixture
def told() -> list[Signal]:
    return []


@pytest.fixture
def floor(told: list[Signal], clock: Clock) -> Floor:
    """A floor whose audio has 1,000 samples a second and may run 1.5 s ahead."""
    return Floor(told.append, output_rate_hz=1000, lead_ms=1500, now_s=clock)


async def test_an_answer_is_one_sequence_with_its_own_turn(floor: Floor, told: list[Signal]) -> None:
    for turn in range(2):
        answer = floor.begin("resp" if turn else None)
        await answer.say(SECOND, "Hello ")
        answer.write("there.")
        answer.finish(output_tokens=3)
        assert answer.text == "Hello there."
    assert told[4:] == [
        ModelSpoke(epoch=0, turn=1, response_id="resp"),
        ModelProducedAudio(epoch=0, turn=1, pcm=SECOND, text="Hello "),
        ModelProducedText(epoch=0, turn=1, text="there."),
        ModelFinished(epoch=0, turn=1, output_tokens=3),
    ]


async def test_what_its_stages_did_is_told_inside_an_answer_only(floor: Floor, told: list[Signal]) -> None:
    answer = floor.begin()
    stages = {"0": StageMetrics(num_tokens_out=3)}
    answer.measure(stages)
    answer.finish()
    assert told[1] == ModelMeasured(epoch=0, turn=0, stages=stages)
    with pytest.raises(AnswerCut):
        answer.measure(stages)


async def test_audio_waits_until_its_lead_is_allowed(floor: Floor, clock: Clock) -> None:
    answer = floor.begin()
    emitted_s = []
    for _ in range(4):
        await answer.say(SECOND)
        emitted_s.append(clock.now_s - 100.0)
    assert emitted_s == pytest.approx([0.0, 0.5, 1.5, 2.5])


async def test_after_a_stall_the_listeners_clock_starts_anew(floor: Floor, clock: Clock) -> None:
    answer = floor.begin()
    await answer.say(SECOND)
    clock.now_s += 10.0
    await answer.say(SECOND)
    assert clock.now_s == pytest.approx(110.0)
    await answer.say(SECOND)
    assert clock.now_s == pytest.approx(110.5)


async def test_a_first_piece_longer_than_the_lead_does_not_wait(floor: Floor, clock: Clock) -> None:
    await floor.begin().say(SECOND * 5)
    assert clock.now_s == 100.0


async def test_an_unpaced_floor_never_waits(told: list[Signal], clock: Clock) -> None:
    answer = Floor(told.append, output_rate_hz=1000, lead_ms=None, now_s=clock).begin()
    for _ in range(5):
        await answer.say(SECOND)
    assert clock.now_s == 100.0


async def test_a_finished_answer_is_still_heard_while_its_lead_plays(floor: Floor, clock: Clock) -> None:
    answer = floor.begin()
    await answer.say(SECOND)
    answer.finish()
    assert floor.is_heard
    clock.now_s += 1.1
    assert not floor.is_heard


async def test_stopping_cuts_only_what_is_older(floor: Floor, told: list[Signal]) -> None:
    answer = floor.begin()
    assert floor.stop(1) is answer
    with pytest.raises(AnswerCut):
        await answer.say(SECOND)
    newer = floor.begin()
    assert floor.stop(1) is None
    newer.finish()
    assert [type(signal) for signal in told] == [ModelSpoke, ModelSpoke, ModelFinished]
    assert told[-1].epoch == 1


def test_a_request_of_a_newer_epoch_ends_an_older_answer(floor: Floor, told: list[Signal]) -> None:
    answer = floor.begin()
    floor.adopt(3)
    assert not answer.is_open
    floor.adopt(2)
    assert floor.epoch == 3
    assert len(told) == 1


def test_cutting_oneself_is_reported_and_moves_the_epoch(floor: Floor, told: list[Signal]) -> None:
    floor.begin()
    floor.interrupt("barge_in")
    assert told[-1] == ModelInterrupted(epoch=0, turn=0, reason="barge_in")
    assert floor.epoch == 1
    assert floor.interrupt("barge_in") is None
    assert floor.epoch == 1


def test_a_call_belongs_to_the_open_answer_or_is_a_turn_of_its_own(floor: Floor, told: list[Signal]) -> None:
    answer = floor.begin()
    answer.call("c1", "f", "{}")
    answer.finish()
    floor.call("c2", "f", "{}")
    floor.begin()
    calls = [signal for signal in told if isinstance(signal, ModelCalledFunction)]
    assert [call.turn for call in calls] == [0, 1]
    assert isinstance(told[-1], ModelSpoke) and told[-1].turn == 2


def test_a_failure_ends_the_answer(floor: Floor, told: list[Signal]) -> None:
    answer = floor.begin()
    answer.fail("response_error", "no voice")
    assert told[-1] == ModelFailed(epoch=0, code="response_error", message="no voice")
    with pytest.raises(AnswerCut):
        answer.finish()


def test_two_answers_at_once_are_a_mistake(floor: Floor) -> None:
    floor.begin()
    with pytest.raises(RuntimeError, match="still open"):
        floor.begin()


def test_nothing_is_said_after_the_end(floor: Floor, told: list[Signal]) -> None:
    answer: Answer = floor.begin()
    floor.close()
    with pytest.raises(AnswerCut):
        answer.write("more")
    with pytest.raises(AnswerCut):
        floor.begin()
    floor.listen("model_listen")
    floor.report(ModelHeardSpeech(epoch=0, start_ms=0))
    floor.interrupt("barge_in")
    assert len(told) == 1


def test_listening_names_the_response_it_ends(floor: Floor, told: list[Signal]) -> None:
    floor.listen("model_listen", "resp_1")
    assert told == [ModelListened(epoch=0, reason="model_listen", response_id="resp_1")]


# -- answers that another worker had begun ---------------------------------------------------------------------------


def again(**said: int) -> ContinueAnswer:
    return ContinueAnswer(epoch=0, turn=7, recipe=Recipe(notes={"a": 1}), response_id="resp", **said)


async def test_an_answer_that_goes_on_keeps_its_turn_its_name_and_its_recipe(floor: Floor, told: list[Signal]) -> None:
    floor.begin(again=again()).finish()
    floor.begin(recipe=Recipe(notes={"b": 2}))
    spoke = [signal for signal in told if isinstance(signal, ModelSpoke)]
    assert spoke == [
        ModelSpoke(epoch=0, turn=7, response_id="resp", recipe=Recipe(notes={"a": 1})),
        ModelSpoke(epoch=0, turn=8, recipe=Recipe(notes={"b": 2})),
    ]


@pytest.mark.parametrize(
    ("idle_ms", "due_s"), [(5_000, [0.0, 0.5]), (900, [0.1, 1.1]), (0, [1.0, 2.0])], ids=["long ago", "lately", "now"]
)
async def test_the_rest_of_an_answer_runs_no_further_ahead_than_all_of_it_may(
    floor: Floor, clock: Clock, idle_ms: int, due_s: list[float]
) -> None:
    answer = floor.begin(again=again(said_samples=3_000, idle_ms=idle_ms))
    for _ in range(3):
        assert answer.is_catching_up
        await answer.say(SECOND)
    assert clock.now_s == 100.0, "what was had before comes at once"
    assert not answer.is_catching_up
    emitted_s = []
    for _ in due_s:
        await answer.say(SECOND)
        emitted_s.append(clock.now_s - 100.0)
    assert emitted_s == pytest.approx(due_s)


async def test_an_answer_that_ends_before_what_was_had_of_it_falls_short(floor: Floor) -> None:
    answer = floor.begin(again=again(said_samples=1_500))
    await answer.say(SECOND)
    assert answer.falls_short
    await answer.say(SECOND)
    assert not answer.falls_short
