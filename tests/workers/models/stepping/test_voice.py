"""Frames to answers: an endless one, and those that begin and end by themselves."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    ModelCalledFunction,
    ModelFinished,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Signal,
)
from workers.models.stepping.voice import Manner, Voice

pytestmark = pytest.mark.unit

PCM = b"\x01\x00"
ENDLESS = Manner()
BY_TURNS = Manner(silent_frames=2, announces=True)


def take(voice: Voice, *frames: tuple[bytes, str, bool]) -> list[Signal]:
    return [signal for pcm, text, speaks in frames for signal in voice.take(pcm, text, speaks=speaks)]


def kinds(signals: list[Signal]) -> list[type]:
    return [type(signal) for signal in signals]


def test_an_endless_model_is_in_one_answer_from_its_first_sound_on() -> None:
    voice = Voice(ENDLESS, epoch=0)
    signals = take(voice, (b"", "", False), (PCM, "", False), (PCM, "Hi", True), *[(PCM, "", False)] * 9)
    assert kinds(signals) == [ModelSpoke, *[ModelProducedAudio] * 11]
    assert list(voice.finish()) == [ModelFinished(epoch=0, turn=0)]


def test_a_model_that_takes_turns_begins_when_it_speaks_and_ends_after_its_silence() -> None:
    voice = Voice(BY_TURNS, epoch=3)
    signals = take(voice, (PCM, "", False), (PCM, "Hi", True), (PCM, "", False), (PCM, "", False), (PCM, "", False))
    assert kinds(signals) == [
        ModelListened,
        ModelSpoke,
        ModelProducedAudio,
        ModelProducedAudio,
        ModelProducedAudio,
        ModelFinished,
        ModelListened,
    ]
    assert {signal.epoch for signal in signals} == {3}
    assert signals[2] == ModelProducedAudio(epoch=3, turn=0, pcm=PCM, text="Hi")
    again = take(voice, (PCM, "And", True))
    assert again[0] == ModelSpoke(epoch=3, turn=1)


def test_a_word_within_the_silence_keeps_the_answer_open() -> None:
    voice = Voice(BY_TURNS, epoch=0)
    frames = [(PCM, "a", True), (PCM, "", False), (PCM, "b", True), (PCM, "", False)]
    assert ModelFinished not in kinds(take(voice, *frames))


def test_an_answer_that_goes_on_from_elsewhere_is_not_begun_again() -> None:
    voice = Voice(ENDLESS, epoch=0, open_turn=4)
    assert take(voice, (PCM, "on", True)) == [ModelProducedAudio(epoch=0, turn=4, pcm=PCM, text="on")]


def test_a_newer_epoch_cuts_the_answer_without_a_word_and_an_older_one_changes_nothing() -> None:
    voice = Voice(ENDLESS, epoch=1)
    take(voice, (PCM, "", True))
    voice.adopt(0)
    assert kinds(take(voice, (PCM, "", True))) == [ModelProducedAudio]
    voice.adopt(2)
    assert take(voice, (PCM, "", True))[0] == ModelSpoke(epoch=2, turn=1)
    assert list(Voice(ENDLESS, epoch=0).finish()) == []


def test_an_answer_may_begin_before_its_sound_and_words_without_any_are_text() -> None:
    voice = Voice(BY_TURNS, epoch=0)
    assert kinds(take(voice, (b"", "", True), (PCM, "a", True), (b"", "b", True))) == [
        ModelSpoke,
        ModelProducedAudio,
        ModelProducedText,
    ]


def test_an_answer_that_was_asked_for_says_so_once_and_a_newer_epoch_forgets_the_request() -> None:
    voice = Voice(BY_TURNS, epoch=0)
    voice.ask("resp_1")
    assert take(voice, (PCM, "a", True))[0] == ModelSpoke(epoch=0, turn=0, response_id="resp_1")
    assert voice.asked is None
    voice.ask("resp_2")
    voice.adopt(1)
    assert take(voice, (PCM, "a", True))[0] == ModelSpoke(epoch=1, turn=1)


def test_a_call_belongs_to_the_open_answer_or_is_a_turn_of_its_own() -> None:
    voice = Voice(BY_TURNS, epoch=0)
    assert voice.call("c", "f", "{}") == ModelCalledFunction(epoch=0, turn=0, call_id="c", name="f", arguments="{}")
    take(voice, (PCM, "a", True))
    assert (voice.call("d", "f", "{}").turn, voice.turn, voice.is_open) == (1, 1, True)


def test_a_successor_stands_where_the_lost_one_stood() -> None:
    voice = Voice(BY_TURNS, epoch=0, open_turn=3, silent=1)
    assert kinds(take(voice, (b"", "", False))) == [ModelFinished]
    assert Voice(BY_TURNS, epoch=0, turn=5).turn == 5 and voice.silent == 0
