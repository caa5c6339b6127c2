"""Messages that hold sound: spoken into the session and committed under the client's own id."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.model import EndTurn
from duplex_es.protocol import ContentPart, CreateItem, Item, frames
from duplex_es.session.effects import AskModel, FeedAppended
from duplex_es.session.events import AudioAppended, InputCommitted, SpeechStopped
from tests.session.cast import FAN_OUT, append, chat, eager, heard, item_id, names, patient, typed

pytestmark = pytest.mark.unit


def spoken(*parts: ContentPart, **fields: Any) -> CreateItem:
    place = {"previous_item_id": fields.pop("previous_item_id")} if "previous_item_id" in fields else {}
    item = Item(type="message", role="user", content=list(parts), **fields)
    return CreateItem(item=item, event_id="evt_item", **place)


def sound(ms: int = 400, **fields: Any) -> ContentPart:
    fields.setdefault("audio", bytes(32 * ms))
    return ContentPart(type="input_audio", **fields)


def test_a_message_with_sound_is_spoken_into_the_session_and_committed() -> None:
    scenario = patient().given(typed("one")).when(spoken(sound(transcript="hello"), id="mine"))
    scenario.then(
        AudioAppended(samples=6_400, rate_hz=16_000, hinted=True, forced=True, part=0),
        InputCommitted,
    )
    assert names(scenario) == FAN_OUT
    scenario.asks_for(
        FeedAppended(epoch=0, end_ms=400, is_speech=True, force_listen=True, part=0),
        AskModel(EndTurn(epoch=0, item_id="mine", respond=False)),
    )
    added = scenario.frames[0]
    assert isinstance(added, frames.ConversationItemAdded)
    assert (added.previous_item_id, added.item.id) == (item_id(1), "mine")
    assert scenario.session.items[-1].audio_ms == 400
    assert scenario.session.response is None


def test_words_and_sound_are_one_item_and_silence_is_left_out() -> None:
    text = ContentPart(type="input_text", text="look:")
    scenario = eager().when(spoken(text, sound(is_speech=False), sound(200)))
    scenario.then(AudioAppended(samples=3_200, rate_hz=16_000, hinted=True, forced=True, part=2), InputCommitted)
    item = scenario.session.items[0]
    assert (item.text, item.part, item.transcribing) == ("look:", "audio", True)
    completed = scenario.when(heard("hi", item=item.id)).frames[0]
    assert isinstance(completed, frames.ConversationItemInputAudioTranscriptionCompleted)
    assert completed.content_index == 1


def test_only_silence_is_no_item() -> None:
    patient().when(spoken(sound(is_speech=False))).refuses("bad_event", param="item.content")


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"audio": b""}, "bad_audio"),
        ({"audio": b"\0\0\0"}, "bad_audio"),
        ({"format": "mp3"}, "unsupported_audio_format"),
    ],
)
def test_sound_that_cannot_be_understood_is_refused(part: dict[str, Any], code: str) -> None:
    scenario = patient().when(spoken(sound(**part))).refuses(code, param="item.content.audio").asks_for()
    assert scenario.session == patient().session


def test_with_a_turn_based_detector_it_must_be_of_the_detectors_kind() -> None:
    scenario = chat(turn_detection={"type": "server_vad"})
    scenario.when(spoken(sound(format="g711_ulaw"))).refuses("bad_audio", param="item.content.audio")
    scenario.when(spoken(sound())).then(AudioAppended, InputCommitted)


def test_it_may_be_put_at_the_very_beginning() -> None:
    scenario = patient().given(typed("one")).when(spoken(sound(), previous_item_id="root"))
    assert scenario.frames[0].previous_item_id is None  # type: ignore[union-attr]


def test_an_utterance_that_is_open_ends_with_it() -> None:
    scenario = patient().given(append(200)).when(spoken(sound(), id="mine"))
    scenario.then(SpeechStopped(item_id=item_id(), end_ms=200, kept=False), AudioAppended, InputCommitted)
    assert scenario.session.input.item_id is None


def test_a_formats_own_rate_holds_for_its_part() -> None:
    scenario = patient().when(spoken(sound(audio=bytes(800), format="g711_ulaw")))
    scenario.then(AudioAppended(samples=800, rate_hz=8_000, hinted=True, forced=True, part=0), InputCommitted)
