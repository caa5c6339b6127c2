"""What is given again is swallowed as far as the caller has had it, to the sample and to the letter."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_es.model import (
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelHeardSpeech,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Recipe,
)
from duplex_es.protocol import CancelResponse
from duplex_es.session.inputs import AnswerDiverged, Input, SpeechReady
from duplex_es.session.state import Session
from duplex_es.testing.scenario import Scenario
from tests.session.cast import eager, response_id
from workers.continuing import Continuation, Goes

pytestmark = pytest.mark.unit

SOUND = bytes(range(200)) * 24
WORDS = "It is sunny, twenty-four degrees, and nobody is in. "
SPOKE = ModelSpoke(epoch=0, turn=3, recipe=Recipe(notes={"a": 1}))
FINISHED = ModelFinished(epoch=0, turn=3)


def pieces(*cuts: int) -> list[ModelProducedAudio]:
    """The whole answer, cut at these samples; the words are spread by their share of the sound."""
    edges = [0, *sorted(cut * 2 for cut in set(cuts)), len(SOUND)]
    made = []
    for start, end in pairwise(edges):
        text = WORDS[len(WORDS) * start // len(SOUND) : len(WORDS) * end // len(SOUND)]
        made.append(ModelProducedAudio(epoch=0, turn=3, pcm=SOUND[start:end], text=text))
    return [piece for piece in made if piece.pcm]


def after(*said: Input, **session: Any) -> Scenario:
    return eager(**session).given(SPOKE, *said)


def given_again(scenario: Scenario, *signals: Any, unheard: int = 0) -> list[Goes]:
    going = Continuation(scenario.session, 3, model_rate_hz=24_000, unheard=unheard)
    return [one for signal in signals for one in going.take(scenario.session, signal)]


def sound_in(goes: list[Goes]) -> bytes:
    return b"".join(one.pcm if isinstance(one, ModelProducedAudio) else getattr(one, "audio", b"") for one in goes)


def words_in(goes: list[Goes]) -> str:
    return "".join(getattr(one, "text", "") for one in goes)


cuts = st.lists(st.integers(1, len(SOUND) // 2 - 1), max_size=8)


@given(cuts, cuts, st.integers(0, 9))
@settings(max_examples=150)
def test_the_rest_follows_what_was_had_however_both_were_cut(before: list[int], again: list[int], had: int) -> None:
    said = pieces(*before)[:had]
    goes = given_again(after(*said), SPOKE, *pieces(*again), FINISHED)
    assert sound_in(list(said)) + sound_in(goes) == SOUND
    assert words_in(list(said)) + words_in(goes) == WORDS
    assert goes[-1] == FINISHED
    assert all(one.pcm or one.text for one in goes[:-1] if isinstance(one, ModelProducedAudio))


@given(st.integers(0, len(SOUND) // 2 - 1))
@settings(max_examples=40)
def test_one_sample_that_differs_is_enough(at: int) -> None:
    scenario = after(*pieces(700, 1_400))
    other = bytearray(SOUND)
    other[at * 2] ^= 1
    changed = ModelProducedAudio(epoch=0, turn=3, pcm=bytes(other), text=WORDS)
    assert given_again(scenario, SPOKE, changed) == [AnswerDiverged(response_id())]


@pytest.mark.parametrize(
    "signals",
    [
        (ModelProducedAudio(epoch=0, turn=3, pcm=SOUND, text=WORDS.upper()),),
        (FINISHED,),
        (pieces(700)[0], FINISHED),
        (ModelFailed(epoch=0, code="worker_lost", message="no"),),
    ],
    ids=["other words", "nothing", "less", "a failure"],
)
def test_what_is_not_the_same_answer_is_given_up(signals: tuple[Any, ...]) -> None:
    goes = given_again(after(*pieces(700)), SPOKE, *signals, pieces(700)[1])
    assert goes[0] == AnswerDiverged(response_id())
    assert not [one for one in goes if isinstance(one, ModelFinished | ModelFailed)]


def test_a_failure_that_ends_the_session_is_not_swallowed() -> None:
    failed = ModelFailed(epoch=0, code="response_error", message="no", fatal=True)
    assert given_again(after(*pieces(700)), SPOKE, failed) == [failed]


def test_a_call_that_was_announced_is_not_announced_again() -> None:
    first, second = (ModelCalledFunction(epoch=0, turn=3, call_id=f"call_{n}", name="f", arguments="{}") for n in "12")
    nameless = ModelCalledFunction(epoch=0, turn=3, call_id=None, name="f", arguments="{}")
    scenario = after(first, nameless, *pieces(700)[:1])
    goes = given_again(scenario, SPOKE, first, nameless, *pieces(700), second, FINISHED)
    assert [one for one in goes if isinstance(one, ModelCalledFunction)] == [second]


def test_the_call_at_which_it_broke_off_is_not_announced_again_either() -> None:
    call = ModelCalledFunction(epoch=0, turn=3, call_id="call_1", name="f", arguments="{}")
    begin, end = pieces(700)
    assert given_again(after(begin, call), SPOKE, begin, call, end, FINISHED) == [end, FINISHED]


def test_words_after_the_sound_and_answers_in_writing_go_on_to_the_letter() -> None:
    parts = [ModelProducedText(epoch=0, turn=3, text=text) for text in ("One, ", "two, ", "three.")]
    scenario = after(*pieces(), parts[0], parts[1])
    whole = ModelProducedText(epoch=0, turn=3, text="One, two, three.")
    assert words_in(given_again(scenario, SPOKE, *pieces(), whole)) == "three."
    written = after(*parts[:1], modalities=["text"])
    assert words_in(given_again(written, SPOKE, *parts)) == "two, three."


def test_of_a_spoken_answer_in_writing_only_the_words_count() -> None:
    begin, end = pieces(700)
    scenario = after(begin, modalities=["text"])
    goes = given_again(scenario, SPOKE, begin, end, FINISHED)
    assert words_in(goes) == end.text
    assert sound_in(goes) == b""


def ready(data: bytes, samples: int, text: str = "", form: str = "g711_ulaw") -> SpeechReady:
    return SpeechReady(
        epoch=0, turn=3, samples=samples, model_rate_hz=24_000, audio=data, format=form, rate_hz=8_000, text=text
    )


def test_converted_sound_goes_on_at_the_byte_with_the_samples_it_stands_for() -> None:
    scenario = after(ready(b"abc", 900, "One "))
    goes = given_again(scenario, SPOKE, ready(b"abcde", 1_500, "One two "), ready(b"f", 0))
    assert goes == [ready(b"de", 600, "two "), ready(b"f", 0)]


def test_a_file_of_sound_is_whole_or_another() -> None:
    scenario = after(ready(b"abc", 900, form="wav"))
    assert given_again(scenario, SPOKE, ready(b"abc", 900, form="wav"), ready(b"de", 9, form="wav"))[0].audio == b"de"  # type: ignore[union-attr]
    assert given_again(scenario, SPOKE, ready(b"abcde", 900, form="wav")) == [AnswerDiverged(response_id())]


def test_sound_that_was_counted_but_never_written_comes_without_being_counted_again() -> None:
    begin, end = pieces(700)
    late, rest, finished = given_again(after(begin), SPOKE, begin, end, FINISHED, unheard=len(begin.pcm))
    assert isinstance(late, SpeechReady)
    assert (late.audio, late.samples, late.text, late.rate_hz) == (begin.pcm, 0, "", 24_000)
    assert (rest, finished) == (end, FINISHED)


def test_what_is_not_of_the_answer_passes() -> None:
    speech = ModelHeardSpeech(epoch=0, start_ms=5)
    stale = ModelProducedAudio(epoch=0, turn=2, pcm=b"ab")
    assert given_again(after(*pieces(700)), speech, stale) == [speech, stale]


def test_an_answer_that_was_cut_meanwhile_is_followed_no_more() -> None:
    scenario = after(*pieces(700))
    going = Continuation(scenario.session, 3, model_rate_hz=24_000)
    cut: Session = scenario.given(CancelResponse()).session
    piece = pieces()[0]
    assert going.take(cut, piece) == [piece]
    assert going.is_over


def test_an_answer_of_which_nothing_was_to_be_heard_begins_like_any_other() -> None:
    call = ModelCalledFunction(epoch=0, turn=3, call_id="call_1", name="f", arguments="{}")
    goes = given_again(after(call), SPOKE, call, *pieces(700), FINISHED)
    assert goes == [*pieces(700), FINISHED]
