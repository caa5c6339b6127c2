"""What a model measures of its own work: kept where the client asked, added up, shown with the end of the answer."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from duplex_es.model import ModelMeasured, ModelRemembered, Recipe, StageMetrics
from duplex_es.protocol import CancelResponse, CreateResponse, UpdateSession, frames
from duplex_es.protocol.dialects import BETA, GA, project
from duplex_es.protocol.dialects import NATIVE as NATIVE_DIALECT
from duplex_es.session.events import StagesMeasured
from duplex_es.session.facts import pack_fact, unpack_facts
from duplex_es.session.inputs import WorkerTookOver
from duplex_es.session.measuring import LONGEST_WORD, MOST_INTERVALS, MOST_NAMES, added, shown
from duplex_es.session.state import StageTotal
from duplex_es.testing.scenario import Scenario, opened
from tests.session.cast import NATIVE, finished, patient, said, spoke, typed

pytestmark = pytest.mark.unit

WORDS = StageMetrics(num_tokens_in=40, num_tokens_out=3, vllm_ttft_ms=120.0, vllm_tpot_ms=20.0)
SOUND = StageMetrics(audio_generated_frames=24_000, audio_duration_s=1.0)


def measured(turn: int = 0, *, epoch: int = 0, **stages: StageMetrics) -> ModelMeasured:
    """What the model tells, its stages named ``s0``, ``s1``, ..."""
    return ModelMeasured(epoch=epoch, turn=turn, stages={name[1:]: told for name, told in stages.items()})


def asking(**session: Any) -> Scenario:
    """A session whose client asks for the figures of the stages."""
    return patient(extra_body={"return_stage_metrics": True}, **session)


def done_of(scenario: Scenario) -> dict[str, Any]:
    """The metadata of the answer that has just ended."""
    (done,) = (frame for frame in scenario.frames if isinstance(frame, frames.ResponseDone))
    assert isinstance(done.response.metadata, dict)
    return done.response.metadata


def stages_of(scenario: Scenario) -> Any:
    """What its end shows of the stages."""
    return done_of(scenario)["vllm_omni"]["stage_metrics"]


# -- who is told -----------------------------------------------------------------------------------------------------


def test_the_end_of_an_answer_shows_what_was_measured_of_it() -> None:
    scenario = asking().given(spoke(), said("One.")).when(measured(s0=WORDS, s1=SOUND))
    scenario.then(StagesMeasured(turn=0, stages={"0": WORDS, "1": SOUND})).shows()
    assert stages_of(scenario.when(finished())) == {
        "0": {"num_tokens_in": 40, "num_tokens_out": 3, "vllm_ttft_ms": 120.0, "vllm_tpot_ms": 20.0},
        "1": {"audio_generated_frames": 24_000, "audio_duration_s": 1.0},
    }


@pytest.mark.parametrize("wish", [None, False, 1, "true", {}, [True]])
def test_nothing_is_kept_or_shown_unless_it_is_asked_for_with_a_literal_true(wish: object) -> None:
    scenario = patient(extra_body={"return_stage_metrics": wish}).given(spoke(), said("One.")).when(measured(s0=WORDS))
    scenario.then().shows()
    assert "vllm_omni" not in done_of(scenario.when(finished()))


def test_a_client_may_begin_to_ask_during_the_call() -> None:
    update = UpdateSession(session={"extra_body": {"return_stage_metrics": True}})
    scenario = patient().given(update, spoke(), said("One."), measured(s0=WORDS)).when(finished())
    assert stages_of(scenario)["0"]["num_tokens_out"] == 3


def test_an_answer_without_figures_has_no_section() -> None:
    assert "vllm_omni" not in done_of(asking().given(spoke(), said("One.")).when(finished()))


def test_a_cut_answer_shows_what_was_known_by_then() -> None:
    scenario = asking().given(spoke(), said("One."), measured(s0=WORDS)).when(CancelResponse())
    assert stages_of(scenario)["0"]["vllm_ttft_ms"] == 120.0


def test_what_comes_before_anything_is_heard_belongs_to_the_answer_too() -> None:
    scenario = asking().given(typed("hi"), CreateResponse(), spoke(), measured(s0=WORDS), said("One."))
    assert stages_of(scenario.when(finished()))["0"]["num_tokens_in"] == 40


def test_every_answer_has_its_own() -> None:
    scenario = asking().given(spoke(), said("One."), measured(s0=WORDS), finished())
    scenario = scenario.given(spoke(1), said("Two.", turn=1), measured(1, s0=WORDS)).when(finished(1))
    assert stages_of(scenario)["0"]["num_tokens_out"] == 3


@pytest.mark.parametrize("late", [measured(1, s0=WORDS), measured(epoch=1, s0=WORDS)], ids=["turn", "epoch"])
def test_what_belongs_to_another_answer_is_dropped(late: ModelMeasured) -> None:
    asking().given(spoke(), said("One.")).when(late).then().shows()


def test_what_comes_after_the_end_is_dropped() -> None:
    asking().given(spoke(), said("One."), finished()).when(measured(s0=WORDS)).then().shows()


def test_a_turn_that_ends_without_a_word_leaves_nothing_for_the_next() -> None:
    scenario = asking().given(spoke(), measured(s0=WORDS), finished(), spoke(1), said("Two.", turn=1)).when(finished(1))
    assert "vllm_omni" not in done_of(scenario)


# -- dialects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [GA, BETA])
def test_a_stock_client_hears_nothing_of_it(dialect: str) -> None:
    plainly = asking().given(spoke(), said("One.")).when(finished())
    scenario = asking().given(spoke(), said("One."), measured(s0=WORDS)).when(finished())
    heard, without = ([project(frame, dialect) for frame in one.frames] for one in (scenario, plainly))
    assert heard == without
    assert any(event["type"] == "response.done" for events in heard for event in events)


def test_a_raw_client_finds_it_in_its_own_event() -> None:
    scenario = asking().given(spoke(), said("One."), measured(s0=WORDS)).when(finished())
    heard = [event for frame in scenario.frames for event in project(frame, NATIVE_DIALECT)]
    (done,) = (event for event in heard if event["type"] == "response.done")
    omni: Any = done["vllm_omni"]
    assert omni["stage_metrics"]["0"]["num_tokens_in"] == 40


# -- adding up -------------------------------------------------------------------------------------------------------


def summed(*told: StageMetrics) -> StageMetrics:
    total = StageTotal()
    for one in told:
        total = added(total, one)
    return total.sum


def test_amounts_add_up() -> None:
    unit = StageMetrics(
        num_tokens_in=1,
        num_tokens_out=2,
        stage_gen_time_ms=3.5,
        audio_generated_frames=4,
        audio_duration_s=0.5,
        output_unit_count=6,
    )
    twice = summed(unit, unit)
    assert twice == StageMetrics(
        num_tokens_in=2,
        num_tokens_out=4,
        stage_gen_time_ms=7.0,
        audio_generated_frames=8,
        audio_duration_s=1.0,
        output_unit_count=12,
    )


def test_of_first_times_the_first_holds() -> None:
    told = [StageMetrics(), StageMetrics(vllm_ttft_ms=5.0), StageMetrics(vllm_ttft_ms=2.0)]
    told.append(StageMetrics(serving_time_to_first_output_ms=7.0))
    assert (summed(*told).vllm_ttft_ms, summed(*told).serving_time_to_first_output_ms) == (5.0, 7.0)


def test_the_time_for_a_token_is_the_mean_over_tokens_not_over_units() -> None:
    long, short = StageMetrics(num_tokens_out=10, vllm_tpot_ms=10.0), StageMetrics(num_tokens_out=2, vllm_tpot_ms=30.0)
    silent = StageMetrics(num_tokens_out=5)
    assert summed(long, silent, short).vllm_tpot_ms == pytest.approx((9 * 10 + 30) / 10)
    assert summed(StageMetrics(vllm_tpot_ms=4.0), StageMetrics(vllm_tpot_ms=6.0)).vllm_tpot_ms == 5.0


def test_intervals_follow_each_other_and_their_mean_is_shown() -> None:
    total = added(added(StageTotal(), StageMetrics(vllm_itls_ms=(1.0, 2.0))), StageMetrics(vllm_itls_ms=(6.0,)))
    assert shown({"0": total}) == {"0": {"vllm_itls_ms": [1.0, 2.0, 6.0], "vllm_itl_ms": 3.0}}
    pieces = StageTotal(StageMetrics(inter_output_latencies_ms=(80.0, 81.0)))
    assert shown({"1": pieces})["1"] == {"inter_output_latencies_ms": [80.0, 81.0], "inter_output_latency_ms": 80.5}


def test_a_long_answer_keeps_so_many_intervals_and_no_more() -> None:
    many = StageMetrics(vllm_itls_ms=(1.0,) * (MOST_INTERVALS - 1))
    assert len(summed(many, many).vllm_itls_ms) == MOST_INTERVALS


def test_of_words_and_other_figures_the_newest_hold_and_never_hide_a_known_one() -> None:
    first = StageMetrics(final_output_type="text", other={"replica_id": 1, "num_tokens_out": 99})
    then = StageMetrics(num_tokens_out=2, other={"replica_id": 2, "finish_reason": "stop"})
    assert shown({"0": added(added(StageTotal(), first), then)}) == {
        "0": {"final_output_type": "text", "num_tokens_out": 2, "replica_id": 2, "finish_reason": "stop"}
    }


# -- a plug-in that errs ---------------------------------------------------------------------------------------------


def test_what_cannot_be_is_left_out() -> None:
    odd = StageMetrics(
        num_tokens_in=-4,
        num_tokens_out=2.9,  # type: ignore[arg-type]
        stage_gen_time_ms=float("inf"),
        vllm_ttft_ms=float("nan"),
        vllm_tpot_ms=1.23456,
        audio_generated_frames=10**400,
        vllm_itls_ms=(1.0, float("nan"), -3.0),
        other={"a": {"deep": 1}, "b": float("nan"), "c": None, "d": "word", "e": True, "f": 10**40},
    )
    scenario = asking().given(spoke(), said("One.")).when(measured(s0=odd))
    (fact,) = scenario.decision.facts
    assert fact == StagesMeasured(
        turn=0,
        stages={
            "0": StageMetrics(
                num_tokens_out=2,
                vllm_tpot_ms=1.235,
                audio_generated_frames=2**53,
                vllm_itls_ms=(1.0, 0.0, 0.0),
                other={"d": "word", "e": True},
            )
        },
    )
    assert list(unpack_facts([pack_fact(fact)])) == [fact]
    asking().given(spoke(), said("One.")).when(measured(s0=StageMetrics(), s1=StageMetrics(num_tokens_in=-1))).then()


class Half(float):
    """A float that no log packs, as those of numpy."""


def test_what_has_another_type_than_it_should_harms_no_session() -> None:
    odd = StageMetrics(
        num_tokens_in=None,  # type: ignore[arg-type]
        num_tokens_out=Fraction(7, 1),  # type: ignore[arg-type]
        vllm_ttft_ms="soon",  # type: ignore[arg-type]
        vllm_tpot_ms=Half(0.5),
        vllm_itls_ms=(Half(2.0), None),  # type: ignore[arg-type]
        output_unit_type=None,  # type: ignore[arg-type]
        final_output_type="text",
        other={1: 2, "half": Half(0.5), "word": "x" * 5_000, "n" * 5_000: 1},  # type: ignore[dict-item]
    )
    scenario = asking().given(spoke(), said("One.")).when(measured(s0=odd))
    (fact,) = scenario.decision.facts
    other = {"half": 0.5, "word": "x" * LONGEST_WORD, "n" * LONGEST_WORD: 1}
    sane = StageMetrics(
        num_tokens_out=7, vllm_tpot_ms=0.5, vllm_itls_ms=(2.0, 0.0), final_output_type="text", other=other
    )
    assert fact == StagesMeasured(turn=0, stages={"0": sane})
    assert list(unpack_facts([pack_fact(fact)])) == [fact]


def test_more_than_anybody_reads_is_not_kept() -> None:
    told = StageMetrics(num_tokens_in=1, other={f"name-{number}": number for number in range(1_000)})
    many = ModelMeasured(epoch=0, turn=0, stages={str(number): told for number in range(1_000)})
    (fact,) = asking().given(spoke(), said("One.")).when(many).decision.facts
    assert isinstance(fact, StagesMeasured)
    assert len(fact.stages) == len(fact.stages["0"].other) == MOST_NAMES


# -- another worker --------------------------------------------------------------------------------------------------


def test_an_answer_that_is_given_again_is_measured_again_from_its_beginning() -> None:
    begun = spoke(recipe=Recipe(notes={"words": 1}))
    scenario = asking().given(begun, said("One."), measured(s0=WORDS), WorkerTookOver(2, can_rebuild=True))
    assert scenario.session.response is not None and not scenario.session.response.measured
    scenario = scenario.given(measured(s0=WORDS, s1=SOUND)).when(finished())
    assert stages_of(scenario)["0"]["num_tokens_out"] == 3


def test_an_answer_that_steps_on_keeps_what_was_measured() -> None:
    steps = opened(msgspec.structs.replace(NATIVE, memory_bytes=8), {"extra_body": {"return_stage_metrics": True}})
    scenario = steps.given(spoke(), ModelRemembered(epoch=0, data=b"m"), said("One."), measured(s0=WORDS))
    scenario = scenario.given(WorkerTookOver(2), measured(s0=WORDS)).when(finished())
    assert stages_of(scenario)["0"]["num_tokens_out"] == 6
