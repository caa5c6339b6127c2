"""Items as the wire shows them: whole, unless they were cut short."""

from __future__ import annotations

import msgspec
import pytest

from duplex_es.protocol import ContentPart, PlaybackLedger
from duplex_es.session.projection.items import content, shown_transcript, wire_item
from duplex_es.session.state import Item

pytestmark = pytest.mark.unit

HEARD = PlaybackLedger(generated_ms=2_000, sent_ms=2_000, played_ms=500, committed_ms=500)
SPOKEN = Item(
    id="item_resp_1",
    role="assistant",
    part="audio",
    transcript="One. Two.",
    response_id="resp_1",
    marks=((5, 1_000), (9, 2_000)),
    ledger=HEARD,
)


def changed(**fields: object) -> Item:
    return msgspec.structs.replace(SPOKEN, **fields)


def test_a_users_items_are_what_they_wrote_or_said() -> None:
    written = Item(id="a", role="user", part="text", text="hi")
    assert content(written) == [ContentPart(type="input_text", text="hi")]
    assert content(Item(id="a", role="user", part="audio")) == [ContentPart(type="input_audio", transcript="")]
    assert content(Item(id="a", role="assistant", part="text", text="hi")) == [
        ContentPart(type="output_text", text="hi")
    ]


def test_an_answer_that_has_not_begun_is_empty() -> None:
    assert content(changed(transcript="", ledger=PlaybackLedger(), marks=())) == []


def test_an_answer_shows_its_sound_then_its_text() -> None:
    spoken, written = content(changed(text="x = 1"))
    assert (spoken.type, spoken.transcript, spoken.audio_duration_ms) == ("output_audio", "One. Two.", 2_000)
    assert written == ContentPart(type="output_text", text="x = 1")


def test_a_cancelled_answer_shows_what_was_heard_where_that_is_known() -> None:
    assert shown_transcript(changed(status="cancelled", acked=True)) == "On"
    assert shown_transcript(changed(status="cancelled")) == "One. Two."
    assert shown_transcript(changed(status="completed", acked=True)) == "One. Two."


def test_a_truncated_answer_shows_nothing_beyond_its_cap() -> None:
    assert shown_transcript(changed(cap_ms=1_000)) == "One."
    assert shown_transcript(changed(cap_ms=0)) == ""
    assert shown_transcript(changed(cap_ms=1_000, status="cancelled", acked=True)) == "On"


def test_calls_and_their_outputs_have_no_content() -> None:
    call = wire_item(Item(id="a", type="function_call", name="f", call_id="c", arguments="{}", role="assistant"))
    assert (call.type, call.name, call.call_id, call.arguments, call.status) == (
        "function_call",
        "f",
        "c",
        "{}",
        "completed",
    )
    output = wire_item(Item(id="b", type="function_call_output", call_id="c", output="1"))
    assert (output.type, output.call_id, output.output) == ("function_call_output", "c", "1")


def test_a_message_names_its_kind_role_and_state() -> None:
    item = wire_item(changed(status="in_progress"))
    assert (item.object, item.type, item.role, item.status) == ("realtime.item", "message", "assistant", "in_progress")
