"""Effects carried out: the model asked, the ear emptied, the log told; and what a broken plug-in cannot do."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from duplex_es.log.api import START, Claim
from duplex_es.log.memory import MemoryLog
from duplex_es.model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Interrupt,
    ModelRefused,
    OpenModel,
    ResetInput,
    Signal,
)
from duplex_es.protocol import RefuseCommand
from duplex_es.protocol.records import unpack_opening
from duplex_es.session.effects import AnswerOpening, AskModel, Effect, EndSession, FeedAppended
from duplex_es.session.state import Clock, Input, Session, Settings
from tests.support.calls import Caller, SpiedModel
from workers.detector import Detectors
from workers.journal import Journal
from workers.listener import Heard
from workers.models.scripted import ScriptedModel
from workers.performer import OpeningFailed, Performer

pytestmark = pytest.mark.unit

OPEN = OpenModel(session_id="call", incarnation=0, epoch=0)
OPENED = Session(id="call", state="open", settings=Settings(auto_response=True), input=Input(clock=Clock(8_000, 8_000)))
SECOND_OF_8KHZ = Heard(np.full(8_000, 0.5, np.float32), 8_000, None)
FEED = FeedAppended(epoch=3, end_ms=1_000, is_speech=True, force_listen=True)


class Scene:
    """A performer with its log, its model, and what it emitted."""

    def __init__(self, log: MemoryLog, claim: Claim) -> None:
        self.log = log
        self.model = SpiedModel(ScriptedModel({"lead_ms": "none"}))
        self.emitted: list[Signal] = []
        self.performer = Performer(log, claim, self.model, self.emitted.append, Detectors())
        self.journal = Journal(0, START)

    @classmethod
    async def new(cls, *, opened: bool = True) -> Scene:
        log = MemoryLog()
        await Caller.open(log, "scripted")
        claimed = await log.claim("w1", ["scripted"])
        assert claimed is not None
        scene = cls(log, claimed[0])
        if opened:
            await scene.performer.open_model(OPEN)
            scene.model.asked.clear()
        return scene

    async def perform(self, effect: Effect, heard: Heard | None = None) -> None:
        await self.performer.perform(effect, OPENED, self.journal, heard)


async def test_a_request_is_handed_to_the_model_as_it_is() -> None:
    scene = await Scene.new()
    request = Interrupt(epoch=2, response_id="r", heard_text="so far")
    await scene.perform(AskModel(request))
    assert scene.model.asked == [request]


async def test_an_append_is_fed_at_the_models_rate_with_what_the_session_says_of_it() -> None:
    scene = await Scene.new()
    await scene.perform(FEED, SECOND_OF_8KHZ)
    (fed,) = scene.model.asked
    assert isinstance(fed, FeedAudio)
    assert (fed.epoch, fed.end_ms, fed.is_speech, fed.force_listen) == (3, 1_000, True, True)
    assert 15_400 <= len(fed.pcm) // 4 <= 16_000
    assert np.frombuffer(fed.pcm, "<f4")[8_000] == pytest.approx(0.5, abs=1e-3)


async def test_a_turn_that_the_client_ends_is_fed_to_its_last_sample_first() -> None:
    scene = await Scene.new()
    await scene.perform(FEED, SECOND_OF_8KHZ)
    end = EndTurn(epoch=3, item_id="i", respond=True)
    await scene.perform(AskModel(end))
    first, rest, asked = scene.model.asked
    assert isinstance(first, FeedAudio) and isinstance(rest, FeedAudio)
    assert (len(first.pcm) + len(rest.pcm)) // 4 == 16_000
    assert (rest.epoch, rest.end_ms, rest.force_listen) == (3, 1_000, False)
    assert asked == end


async def test_a_cleared_input_takes_what_the_ear_holds_along() -> None:
    scene = await Scene.new()
    await scene.perform(FEED, SECOND_OF_8KHZ)
    await scene.perform(AskModel(ResetInput(epoch=3)))
    await scene.perform(AskModel(EndTurn(epoch=3, item_id="i", respond=True)))
    assert [type(request) for request in scene.model.asked] == [FeedAudio, ResetInput, EndTurn]


async def test_an_append_too_short_to_come_through_yet_is_not_fed_empty() -> None:
    scene = await Scene.new()
    await scene.perform(FEED, Heard(np.zeros(8, np.float32), 8_000, None))
    assert scene.model.asked == []


@pytest.mark.parametrize("takes", [True, False])
async def test_pictures_go_to_the_models_that_take_them(takes: bool) -> None:
    scene = await Scene.new()
    scene.model.info = msgspec.structs.replace(scene.model.info, takes_frames=takes)
    await scene.perform(FEED, replace(SECOND_OF_8KHZ, frames=("/9j/4AAQ", "no base64!")))
    (fed,) = scene.model.asked
    assert isinstance(fed, FeedAudio)
    assert fed.frames == ((b"\xff\xd8\xff\xe0\x00\x10",) if takes else ())


async def test_nothing_is_asked_of_a_model_that_is_not_there() -> None:
    scene = await Scene.new(opened=False)
    await scene.perform(FEED, SECOND_OF_8KHZ)
    await scene.perform(AskModel(EndTurn(epoch=0, item_id="i", respond=True)))
    assert scene.model.asked == []


async def test_a_refusal_of_the_model_keeps_its_code_and_field() -> None:
    scene = await Scene.new(opened=False)
    scene.model.opens = ModelRefused("ref_audio_required", "Give a voice.", "ref_audio")
    with pytest.raises(OpeningFailed) as caught:
        await scene.perform(AskModel(OPEN))
    assert (caught.value.code, str(caught.value), caught.value.param) == (
        "ref_audio_required",
        "Give a voice.",
        "ref_audio",
    )


async def test_any_other_failure_to_open_is_logged_and_told_without_its_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = await Scene.new(opened=False)
    scene.model.opens = KeyError("weights.bin")
    with pytest.raises(OpeningFailed) as caught:
        await scene.perform(AskModel(OPEN))
    assert caught.value.code == "runtime_open_failed"
    assert "weights" not in str(caught.value)
    assert "weights.bin" in caplog.text


async def test_the_opening_is_answered_with_the_public_session_and_a_checkpoint_in_one_step() -> None:
    scene = await Scene.new()
    await scene.perform(AnswerOpening())
    head = await scene.log.head("call")
    assert head.opening is not None
    assert unpack_opening(head.opening).session["id"] == "call"
    assert head.checkpoint == scene.journal.checkpoint()


async def test_a_refused_opening_is_answered_with_its_error() -> None:
    scene = await Scene.new()
    refusal = RefuseCommand(code="unsupported", message="no", param="model", event_id="e1")
    await scene.perform(AnswerOpening(refusal=refusal))
    head = await scene.log.head("call")
    assert head.opening is not None
    assert unpack_opening(head.opening).error == refusal


async def test_the_end_closes_the_model_and_then_the_log() -> None:
    scene = await Scene.new()
    assert not scene.performer.ended
    await scene.perform(EndSession("session_close"))
    assert scene.performer.ended
    assert scene.model.asked == [CloseModel()]
    assert (await scene.log.head("call")).state == "closed"


async def test_closing_the_model_twice_closes_it_once() -> None:
    scene = await Scene.new()
    await scene.performer.close_model()
    await scene.performer.close_model()
    assert scene.model.asked == [CloseModel()]


async def test_a_model_that_fails_to_close_is_logged_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    scene = await Scene.new()
    scene.model.breaks_at = CloseModel
    await scene.performer.close_model()
    assert "the model broke" in caplog.text


async def test_a_session_that_goes_on_elsewhere_is_left_and_not_ended() -> None:
    scene = await Scene.new()
    await scene.performer.close_model(goes_on=True)
    assert scene.model.asked == [CloseModel(goes_on=True)]
