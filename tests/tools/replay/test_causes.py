"""From a fact to what it came of: whatever is offered first gives that fact again."""

from __future__ import annotations

import pytest

from duplex_es.log.api import START, Entry, EntryId
from duplex_es.model import ModelFinished, ModelListened, ModelMeasured, ModelProducedAudio, ModelSpoke, StageMetrics
from duplex_es.protocol import AppendAudio, RefuseCommand, ResponseOutputAudioDelta
from duplex_es.session import events
from duplex_es.session.inputs import AudioArrived, SpeechReady, TimerFired
from duplex_es.session.state import Begun, Session, Settings, replace
from duplex_es.tools.replay.causes import Left, ways_in, ways_out
from duplex_es.tools.replay.recording import Heard, Recorded

pytestmark = pytest.mark.unit

OPEN = Session(id="s", state="open", epoch=3, begun=Begun(turn=7))


def left(*facts: events.Fact, sounds: tuple[bytes, ...] = ()) -> Left:
    """These facts, still to come of one decision with this sound."""
    delta = {"response_id": "r", "item_id": "i", "output_index": 0, "content_index": 0}
    frames = [ResponseOutputAudioDelta(delta=sound, **delta) for sound in sounds]
    return Left(facts, Recorded(1_000, facts, START, frames))


def test_a_fact_of_the_model_names_its_signal() -> None:
    assert next(ways_out(OPEN, left(events.TurnBegun(turn=8)))) == (ModelSpoke(epoch=3, turn=8),)
    assert next(ways_out(OPEN, left(events.TurnEndedEmpty(turn=7)))) == (ModelFinished(epoch=3, turn=7),)
    assert next(ways_out(OPEN, left(events.Listened(reason="model_listen")))) == (ModelListened(epoch=3),)
    stages = {"0": StageMetrics(vllm_ttft_ms=80.125)}
    told = (ModelMeasured(epoch=3, turn=7, stages=stages),)
    assert next(ways_out(OPEN, left(events.StagesMeasured(turn=7, stages=stages)))) == told


def test_the_sound_of_a_piece_lies_beside_its_frame() -> None:
    said = events.AudioProduced(response_id="r", samples=2, rate_hz=24_000, text="hi")
    assert next(ways_out(OPEN, left(said, sounds=(b"abcd",)))) == (
        ModelProducedAudio(epoch=3, turn=7, pcm=b"abcd", text="hi", rate_hz=24_000),
    )
    converted = replace(said, format="g711_ulaw", sent_rate_hz=8_000)
    (ready,) = next(ways_out(OPEN, left(converted, sounds=(b"a",))))
    assert isinstance(ready, SpeechReady) and (ready.samples, ready.audio, ready.rate_hz) == (2, b"a", 8_000)


def test_timers_are_tried_when_nothing_else_fits() -> None:
    offered = [parts[0] for parts in ways_out(OPEN, left(events.SessionExpired(reason="idle_ttl_expired")))]
    assert offered and all(isinstance(one, TimerFired) for one in offered)


def test_an_append_is_as_loud_as_its_fact_says_and_cut_where_facts_were_cut() -> None:
    entry = Entry(EntryId(1, 2), b"")
    heard = Heard(entry, AppendAudio(audio=bytes(640)), 0)
    appended = events.AudioAppended(samples=320, rate_hz=16_000, is_speech=True)
    (first,) = next(ways_in(OPEN, heard, left(appended), "echo"))
    assert isinstance(first, AudioArrived) and first.rms == 1.0 and first.vad is None

    detecting = replace(OPEN, settings=Settings(turn_detection={"type": "server_vad"}), info=_info())
    started = events.SpeechStarted(item_id="i", start_ms=40, detected=True)
    pieces = left(replace(appended, samples=120, is_speech=False), started, replace(appended, samples=200))
    before, after = next(ways_in(detecting, heard, pieces, "echo"))
    assert isinstance(before, AudioArrived) and isinstance(after, AudioArrived)
    assert (len(before.command.audio), len(after.command.audio)) == (240, 400)
    assert after.vad is not None and (after.vad.speech_started, after.vad.start_ms) == (True, 40)


def test_what_the_host_refused_is_offered_as_a_refusal() -> None:
    heard = Heard(Entry(EntryId(1, 2), b""), AppendAudio(audio=b"\0\0", is_speech=True), 0)
    rejected = events.CommandRejected(code="bad_event", message="too long", param="audio")
    offered = list(ways_in(OPEN, heard, left(rejected), "echo"))
    assert (RefuseCommand(code="bad_event", message="too long", param="audio"),) in offered


def _info() -> object:
    from workers.models.scripted import ScriptedModel

    return ScriptedModel({}).info
