"""What a session takes in: every input in the parts it is decided in, whatever the detector and the converter do."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from duplex_es.model import Interrupt, ModelInfo, ModelProducedAudio, ResetInput
from duplex_es.protocol import AppendAudio, ClearInput, CreateItem, Heartbeat, RefuseCommand, UpdateSession
from duplex_es.protocol.objects import Capabilities, ContentPart, Item
from duplex_es.session.effects import AskModel, FeedAppended
from duplex_es.session.inputs import AudioArrived
from duplex_es.session.state import Clock, Input, Session, Settings
from tests.support.calls import pcm16
from tests.workers.test_detector import NATIVE, Loudness
from workers.detector import Detectors
from workers.intake import Intake, Part
from workers.listener import Heard

pytestmark = pytest.mark.unit

INFO = ModelInfo(name="m", capabilities=Capabilities(), ends_turns=False)
PLAIN = Session(id="s", state="open", info=INFO)
DETECTING = Session(id="s", state="open", info=INFO, settings=Settings(turn_detection=NATIVE))
UPDATE = UpdateSession(session={"turn_detection": {"type": "server_vad"}}, event_id="e1")
LOUD, QUIET = np.full(16_000, 0.5), np.zeros(16_000)


def append(samples: np.ndarray, **fields: object) -> AudioArrived:
    audio = np.rint(samples * 32_767).astype("<i2").tobytes()
    return AudioArrived(command=AppendAudio(audio=audio, **fields))  # type: ignore[arg-type]


@pytest.fixture
def detectors() -> Iterator[Detectors]:
    made = Detectors(Loudness)  # type: ignore[arg-type]
    yield made
    made.close()


async def test_an_append_is_measured(detectors: Detectors) -> None:
    (part,) = await Intake(INFO, detectors).take(PLAIN, append(LOUD))
    assert isinstance(part.said, AudioArrived)
    assert part.said.rms == pytest.approx(0.5, abs=1e-3)
    assert part.said.vad is None
    assert part.heard is not None
    assert part.heard.samples.size == LOUD.size


@pytest.mark.parametrize(("session", "ends_turns"), [(PLAIN, False), (DETECTING, True)])
async def test_nothing_is_detected_where_nobody_asked_or_the_model_does_it(
    detectors: Detectors, session: Session, ends_turns: bool
) -> None:
    info = msgspec.structs.replace(INFO, ends_turns=ends_turns)
    (part,) = await Intake(info, detectors).take(session, append(LOUD))
    assert isinstance(part.said, AudioArrived)
    assert part.said.vad is None


async def test_an_append_that_cannot_be_read_goes_on_as_it_is(detectors: Detectors) -> None:
    odd = AudioArrived(command=AppendAudio(audio=b"abc"))
    assert await Intake(INFO, detectors).take(DETECTING, odd) == [Part(odd)]


async def test_an_append_is_cut_where_an_utterance_begins_and_ends(detectors: Detectors) -> None:
    said = append(
        np.concatenate([QUIET, LOUD, QUIET]),
        event_id="e1",
        transcript="hello",
        force_barge_in=True,
        is_speech=True,
        video_frames=["aaaa"],
        duration_ms=3_000,
    )
    parts = await Intake(INFO, detectors).take(DETECTING, said)
    pieces = [part.said for part in parts]
    assert all(isinstance(piece, AudioArrived) and piece.vad is not None for piece in pieces)
    changed = [(piece.vad.speech_started, piece.vad.speech_stopped) for piece in pieces]  # type: ignore[union-attr]
    assert changed == [(True, False), (False, True), (False, False)]
    assert b"".join(piece.command.audio for piece in pieces) == said.command.audio  # type: ignore[union-attr]
    for piece, part in zip(pieces, parts, strict=True):
        assert isinstance(piece, AudioArrived)
        assert part.heard is not None
        assert part.heard.samples.size * 2 == len(piece.command.audio)
        assert piece.command.event_id == "e1"
        assert piece.command.speech_verdict is True
    hints = [piece.command.transcript_hint for piece in pieces]  # type: ignore[union-attr]
    assert hints == ["hello", "", ""]
    assert [piece.command.force_barge_in is True for piece in pieces] == [True, False, False]  # type: ignore[union-attr]


async def test_a_detector_that_fails_loses_the_utterance_and_says_so(
    detectors: Detectors, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(INFO, detectors)
    await intake.take(DETECTING, append(LOUD))
    monkeypatch.setattr(Loudness, "fails", True)
    with caplog.at_level(logging.ERROR):
        refused, cleared = await intake.take(DETECTING, append(LOUD, event_id="e7"))
    assert isinstance(refused.said, RefuseCommand)
    assert (refused.said.code, refused.said.event_id) == ("server_vad_inference_failed", "e7")
    assert cleared.said == ClearInput()
    monkeypatch.setattr(Loudness, "fails", False)
    parts = await intake.take(DETECTING, append(LOUD))
    started = [part.said.vad.speech_started for part in parts]  # type: ignore[union-attr]
    assert started == [True, False], "the stream begins anew"


async def test_a_detector_that_cannot_be_loaded_refuses_the_update_and_nothing_else() -> None:
    def load() -> object:
        raise RuntimeError("no weights")

    intake = Intake(INFO, Detectors(load))  # type: ignore[arg-type]
    (part,) = await intake.take(PLAIN, UPDATE)
    assert isinstance(part.said, RefuseCommand)
    assert (part.said.code, part.said.param) == ("server_vad_initialization_failed", "turn_detection")
    assert part.said.event_id == "e1"
    for session in ({"turn_detection": None}, {"instructions": "x"}, {"turn_detection": {"type": "none"}}):
        update = UpdateSession(session=session)
        assert await intake.take(PLAIN, update) == [Part(update)]
    native = Intake(msgspec.structs.replace(INFO, ends_turns=True), Detectors(load))  # type: ignore[arg-type]
    assert await native.take(PLAIN, UPDATE) == [Part(UPDATE)]


async def test_an_update_goes_through_once_the_detector_is_there(detectors: Detectors) -> None:
    assert await Intake(INFO, detectors).take(PLAIN, UPDATE) == [Part(UPDATE)]


@pytest.mark.parametrize(("request_", "begins_anew"), [(ResetInput(epoch=0), True), (Interrupt(epoch=1), False)])
async def test_input_that_the_session_forgets_is_forgotten_by_the_detector(
    detectors: Detectors, request_: ResetInput | Interrupt, begins_anew: bool
) -> None:
    intake = Intake(INFO, detectors)
    await intake.take(DETECTING, append(LOUD))
    intake.note([AskModel(request_)], DETECTING)
    later = msgspec.structs.replace(DETECTING, input=Input(clock=Clock(16_000, 16_000)))
    parts = await intake.take(later, append(LOUD))
    started = [part.said.vad.start_ms for part in parts if part.said.vad.speech_started]  # type: ignore[union-attr]
    assert started == ([1_000] if begins_anew else [])


async def test_other_settings_mean_another_detector(detectors: Detectors) -> None:
    intake = Intake(INFO, detectors)
    await intake.take(DETECTING, append(LOUD))
    stricter = msgspec.structs.replace(DETECTING, settings=Settings(turn_detection={**NATIVE, "threshold": 0.95}))
    (part,) = await intake.take(stricter, append(LOUD))
    assert isinstance(part.said, AudioArrived)
    assert part.said.vad is not None
    assert not part.said.vad.speech_active


async def test_what_was_heard_before_a_takeover_is_known_after_it(detectors: Detectors) -> None:
    intake = Intake(INFO, detectors)
    left = Input(clock=Clock(16_000, 16_000), item_id="item_1", speech_started=True)
    session = msgspec.structs.replace(DETECTING, input=left)
    await intake.hear_again(session, Heard(LOUD.astype(np.float32), 16_000, None))
    parts = await intake.take(session, append(QUIET))
    changed = [(part.said.vad.speech_started, part.said.vad.speech_stopped) for part in parts]  # type: ignore[union-attr]
    assert changed == [(False, True), (False, False)]


async def test_a_detector_that_fails_while_hearing_again_is_left_alone(
    detectors: Detectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loudness, "fails", True)
    await Intake(INFO, detectors).hear_again(DETECTING, Heard(LOUD.astype(np.float32), 16_000, None))


@pytest.mark.parametrize(("rate_hz", "most_ms"), [(16_000, 80), (24_000, 80)])
async def test_an_append_longer_than_the_model_takes_is_refused(
    detectors: Detectors, rate_hz: int, most_ms: int
) -> None:
    intake = Intake(msgspec.structs.replace(INFO, longest_append_samples=1_280), detectors)
    fits = AppendAudio(audio=pcm16(most_ms, rate_hz=rate_hz), sample_rate_hz=rate_hz)
    (part,) = await intake.take(PLAIN, AudioArrived(command=fits))
    assert isinstance(part.said, AudioArrived)
    long = AppendAudio(audio=pcm16(most_ms + 1, rate_hz=rate_hz), sample_rate_hz=rate_hz, event_id="e1")
    (part,) = await intake.take(PLAIN, AudioArrived(command=long))
    assert isinstance(part.said, RefuseCommand)
    assert (part.said.code, part.said.param, part.said.event_id) == ("bad_event", "audio", "e1")


async def test_the_sound_of_an_item_is_found_by_the_number_of_its_part(detectors: Detectors) -> None:
    content = [
        ContentPart(type="input_text", text="look"),
        ContentPart(type="input_audio", audio=pcm16(100)),
        ContentPart(type="input_audio", audio=b"odd"),
        ContentPart(type="input_audio", audio=b"\xff" * 80, format="g711_ulaw"),
    ]
    (part,) = await Intake(INFO, detectors).take(PLAIN, CreateItem(item=Item(type="message", content=content)))
    sizes = [
        None if heard is None else (heard.samples.size, heard.rate_hz)
        for heard in (part.sound(FeedAppended(epoch=0, end_ms=0, part=number)) for number in range(4))
    ]
    assert sizes == [None, (1_600, 16_000), None, (80, 8_000)]
    assert part.sound(FeedAppended(epoch=0, end_ms=0)) is None
    (bare,) = await Intake(INFO, detectors).take(PLAIN, CreateItem(item=Item(type="message")))
    assert bare.parts == {}


async def test_after_a_takeover_times_are_the_sessions(detectors: Detectors) -> None:
    intake = Intake(INFO, detectors)
    left = Input(clock=Clock(16_000, 160_000), item_id="item_1", speech_started=True)
    session = msgspec.structs.replace(DETECTING, input=left)
    await intake.hear_again(session, Heard(LOUD.astype(np.float32), 16_000, None))
    parts = await intake.take(session, append(QUIET))
    ends = [part.said.vad.end_ms for part in parts if part.said.vad.speech_stopped]  # type: ignore[union-attr]
    assert ends == [pytest.approx(10_500, abs=40)]


async def test_signals_pass_through_the_voice_and_commands_through_nothing(detectors: Detectors) -> None:
    intake = Intake(INFO, detectors)
    signal = ModelProducedAudio(epoch=0, turn=0, pcm=b"\0\0")
    assert await intake.take(PLAIN, signal) == [Part(signal)]
    assert await intake.take(PLAIN, Heartbeat()) == [Part(Heartbeat())]
