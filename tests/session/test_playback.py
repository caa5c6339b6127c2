"""How far the caller heard each answer, and what of it stays: ledger, acknowledgements, truncation, the cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_es.model import ModelFailed, ModelInterrupted
from duplex_es.protocol import (
    AcknowledgePlayback,
    CancelResponse,
    CreateResponse,
    PlaybackLedger,
    RetrieveItem,
    TruncateItem,
    frames,
)
from duplex_es.session.events import ItemTruncated, PlaybackAcknowledged
from duplex_es.session.history import history
from duplex_es.session.playback import heard_text, kept_characters, remembered_text
from duplex_es.session.state import Item
from duplex_es.testing.scenario import Scenario
from tests.session.cast import (
    answer,
    answer_id,
    append,
    eager,
    item_id,
    patient,
    plain,
    response_id,
    said,
    spoke,
    typed,
)

pytestmark = pytest.mark.unit

WORDS = ("It is sunny, ", "twenty four ", "degrees.")


def ack(played_ms: int | None = None, **fields: Any) -> AcknowledgePlayback:
    if played_ms is not None:
        fields["played_ms"] = played_ms
    return AcknowledgePlayback(event_id="evt_ack", **fields)


def spoken(**session: Any) -> Scenario:
    """A complete answer of three seconds."""
    return patient(**session).given(*answer(*WORDS))


def remembered(scenario: Scenario) -> list[str]:
    return [entry.text for entry in history(scenario.session)]


def shown(scenario: Scenario) -> str:
    """The transcript that a retrieve shows."""
    (frame,) = scenario.when(RetrieveItem(item_id=answer_id())).frames
    assert isinstance(frame, frames.ConversationItemRetrieved)
    return frame.item.content[0].transcript  # type: ignore[index,union-attr,return-value]


def cut() -> TruncateItem:
    """One second was heard."""
    return TruncateItem(item_id=answer_id(), content_index=0, audio_end_ms=1_000)


# -- acknowledgements ----------------------------------------------------------------------------------------------


def test_an_acknowledgement_is_answered_with_the_ledger() -> None:
    scenario = spoken().when(ack(1_000, response_id=response_id(), item_id=answer_id())).then(PlaybackAcknowledged)
    ledger = PlaybackLedger(generated_ms=3_000, sent_ms=3_000, played_ms=1_000, committed_ms=1_000)
    scenario.shows(
        frames.PlaybackAcknowledged(
            event=frames.PlaybackAck(
                session_id="s1",
                epoch=0,
                item_id=answer_id(),
                played_ms=1_000,
                committed_ms=1_000,
                truncate=False,
                playback=ledger,
                history_committed=False,
            )
        )
    ).asks_for()


def test_positions_only_grow_and_the_report_is_echoed_as_it_was() -> None:
    scenario = spoken().given(ack(2_000)).when(ack(500, committed_ms=-7))
    (frame,) = scenario.frames
    assert isinstance(frame, frames.PlaybackAcknowledged)
    assert (frame.event.played_ms, frame.event.committed_ms) == (500, 0)
    assert (frame.event.playback.played_ms, frame.event.playback.committed_ms) == (2_000, 2_000)


def test_an_acknowledgement_of_nothing_is_one_of_zero() -> None:
    spoken().when(ack()).then(PlaybackAcknowledged)


def test_a_report_beyond_the_audio_is_taken_as_it_is() -> None:
    ledger = spoken().given(ack(57_340)).session.items[-1].ledger
    assert (ledger.sent_ms, ledger.played_ms, ledger.committed_ms) == (3_000, 57_340, 57_340)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"response_id": "resp_other"}, "playback_item_not_found"),
        ({"item_id": "item_other"}, "playback_item_not_found"),
        ({"response_id": "resp_other", "item_id": "item_other"}, "playback_item_not_found"),
        ({"response_id": "resp_other", "item_id": answer_id()}, "playback_item_mismatch"),
        ({"item_id": item_id(1)}, "playback_item_not_found"),
    ],
)
def test_an_acknowledgement_of_something_else_is_refused_and_harmless(fields: dict[str, str], code: str) -> None:
    before = patient().given(typed("hi"), *answer(*WORDS))
    after = before.when(ack(100, **fields)).refuses(code)
    assert after.session == before.session
    patient().when(ack(100)).refuses("playback_item_not_found")


def test_without_an_id_the_live_answer_is_meant_else_the_newest() -> None:
    two = patient().given(*answer("One."), spoke(1), said("Two.", turn=1))
    assert two.given(ack(400)).session.item(answer_id(2)).ledger.played_ms == 400  # type: ignore[union-attr]
    one = patient().given(*answer("One."), typed("I said", role="assistant"))
    one.when(ack(400)).then(PlaybackAcknowledged)


def test_a_late_acknowledgement_is_taken_even_after_the_next_turn() -> None:
    scenario = spoken(playback_commit_policy="ack_only").given(append())
    scenario.when(ack(3_000, response_id=response_id())).then(PlaybackAcknowledged)


# -- what the history holds ----------------------------------------------------------------------------------------


def test_a_client_that_never_reports_playback_has_heard_every_complete_answer() -> None:
    assert remembered(spoken()) == ["It is sunny, twenty four degrees."]


def test_an_answer_that_was_confirmed_in_part_when_it_ended_is_remembered_in_part() -> None:
    scenario = patient().given(*answer(*WORDS)[:-1], ack(1_000), answer(*WORDS)[-1])
    assert remembered(scenario) == ["It is sunny,"]
    assert remembered(scenario.given(ack(2_000))) == ["It is sunny, twenty four"]
    assert remembered(scenario.given(ack(3_000))) == ["It is sunny, twenty four degrees."]


def test_under_ack_only_nothing_is_remembered_before_it_was_heard() -> None:
    scenario = spoken(playback_commit_policy="ack_only")
    assert remembered(scenario) == []
    first = scenario.when(ack(1_000))
    assert remembered(first) == ["It is sunny,"]
    assert first.frames[0].event.history_committed is True  # type: ignore[union-attr]
    again = first.when(ack(1_000))
    assert again.frames[0].event.history_committed is False  # type: ignore[union-attr]
    assert scenario.session.in_progress
    assert not scenario.given(ack(3_000)).session.in_progress


def test_a_late_acknowledgement_finds_the_place_the_answer_had() -> None:
    scenario = spoken(playback_commit_policy="ack_only").given(typed("and tomorrow?"), ack(3_000))
    assert remembered(scenario) == ["It is sunny, twenty four degrees.", "and tomorrow?"]


def test_a_cancelled_answer_is_remembered_as_far_as_it_was_heard() -> None:
    speaking = patient().given(*answer(*WORDS)[:-1])
    assert remembered(speaking.given(ack(1_500), CancelResponse())) == ["It is sunny, twenty"]
    assert remembered(speaking.given(CancelResponse())) == ["It is sunny, twenty four degrees."], "never reports"
    reports = patient().given(*answer("Hi."), ack(1_000), *answer(*WORDS, turn=1)[:-1], CancelResponse())
    assert remembered(reports) == ["Hi."], "reports, but heard nothing of this one"


def test_what_one_answer_is_remembered_as_does_not_change_with_the_reports_on_another() -> None:
    scenario = patient().given(*answer(*WORDS)[:-1], CancelResponse(), *answer("Next.", turn=1, epoch=1))
    before = remembered(scenario)
    assert remembered(scenario.given(ack(1_000, response_id=response_id(2)))) == before
    assert remembered(scenario.given(ack(1_000, response_id=response_id(1)))) == ["It is sunny,", "Next."]


def test_an_answer_of_a_model_that_cut_itself_shows_only_what_was_heard() -> None:
    scenario = eager().given(*answer(*WORDS)[:-1], ack(300), ModelInterrupted(epoch=0, turn=0))
    assert shown(scenario) == "It"
    assert remembered(scenario) == ["It"]


def test_an_answer_that_was_played_to_its_end_stays_whole_when_the_caller_speaks() -> None:
    scenario = spoken().given(ack(3_000), append(), CancelResponse())
    assert shown(scenario) == "It is sunny, twenty four degrees."


def test_nothing_is_confirmed_into_the_history_that_was_given_apart_or_failed() -> None:
    apart = patient(playback_commit_policy="ack_only").given(
        CreateResponse(response={"conversation": "none"}), *answer(*WORDS), ack(2_000)
    )
    assert remembered(apart) == []
    failed = patient().given(*answer(*WORDS)[:-1], ModelFailed(epoch=0, code="response_error", message="x"), ack(2_000))
    assert remembered(failed) == []


# -- truncation ----------------------------------------------------------------------------------------------------


def test_a_truncation_is_shown_with_its_acknowledgement() -> None:
    scenario = spoken().when(cut()).then(ItemTruncated)
    truncated, acknowledged = scenario.frames
    assert isinstance(truncated, frames.ConversationItemTruncated)
    assert (truncated.item_id, truncated.content_index, truncated.audio_end_ms) == (answer_id(), 0, 1_000)
    assert isinstance(acknowledged, frames.PlaybackAcknowledged)
    assert acknowledged.event.truncate is True
    assert acknowledged.event.playback.committed_ms == 1_000
    assert (shown(scenario), remembered(scenario)) == ("It is sunny,", ["It is sunny,"])


@pytest.mark.parametrize("audio_end_ms", [3_000, 3_085, 57_340])
def test_a_truncation_beyond_the_audio_means_its_end(audio_end_ms: int) -> None:
    scenario = spoken().when(TruncateItem(item_id=answer_id(), audio_end_ms=audio_end_ms))
    assert scenario.frames[0].audio_end_ms == 3_000  # type: ignore[union-attr]
    assert shown(scenario) == "It is sunny, twenty four degrees."


def test_a_truncation_to_nothing_takes_the_answer_out_of_the_history() -> None:
    scenario = spoken().given(TruncateItem(item_id=answer_id(), audio_end_ms=0))
    assert (shown(scenario), remembered(scenario)) == ("", [])


def test_a_truncation_before_the_first_sound_is_fine() -> None:
    scenario = patient().given(typed("hi"), CreateResponse(), spoke())
    scenario = scenario.when(TruncateItem(item_id=answer_id(), audio_end_ms=0)).then(ItemTruncated)
    scenario.when(said("Hello.")).shows("response.speak")
    assert remembered(scenario.given(said("Hello."), CancelResponse())) == ["hi"]


def test_a_cap_never_rises_whatever_is_reported_later() -> None:
    scenario = spoken().given(cut())
    for later in (
        ack(3_000),
        ack(3_000, truncate=True),
        TruncateItem(item_id=answer_id(), audio_end_ms=2_500),
    ):
        after = scenario.given(later)
        assert after.session.item(answer_id()).cap_ms == 1_000  # type: ignore[union-attr]
        assert remembered(after) == ["It is sunny,"]
    assert remembered(scenario.given(TruncateItem(item_id=answer_id(), audio_end_ms=500))) == ["It is"]


def test_a_truncating_acknowledgement_may_take_back_what_was_confirmed() -> None:
    scenario = spoken().given(ack(2_500)).when(ack(1_000, truncate=True))
    (frame,) = scenario.frames
    assert isinstance(frame, frames.PlaybackAcknowledged)
    assert (frame.event.truncate, frame.event.history_committed) == (True, True)
    assert (frame.event.playback.played_ms, frame.event.playback.committed_ms) == (2_500, 1_000)


def test_a_truncating_acknowledgement_is_clamped_to_the_audio() -> None:
    item = spoken().given(ack(57_340, truncate=True)).session.items[-1]
    assert (item.ledger.committed_ms, item.cap_ms) == (3_000, 3_000)


def test_an_answer_may_be_cut_while_it_is_spoken() -> None:
    scenario = patient().given(*answer(*WORDS)[:-1], cut(), answer(*WORDS)[-1])
    assert remembered(scenario) == ["It is sunny,"]


@pytest.mark.parametrize(
    ("command", "code", "param"),
    [
        (TruncateItem(audio_end_ms=5), "missing_item_id", "item_id"),
        (TruncateItem(item_id="", audio_end_ms=5), "missing_item_id", "item_id"),
        (TruncateItem(item_id=answer_id()), "bad_event", "audio_end_ms"),
        (TruncateItem(item_id="item_other", audio_end_ms=-1), "item_not_found", "item_id"),
        (TruncateItem(item_id=answer_id(), audio_end_ms=-1), "bad_event", "audio_end_ms"),
        (TruncateItem(item_id=answer_id(), audio_end_ms=5, content_index=1), "bad_event", "content_index"),
        (TruncateItem(item_id=item_id(1), audio_end_ms=5), "bad_event", "item_id"),
    ],
)
def test_a_truncation_that_cannot_be_names_its_field(command: TruncateItem, code: str, param: str) -> None:
    before = patient().given(typed("hi"), *answer(*WORDS))
    after = before.when(command).refuses(code, param=param)
    assert after.session == before.session


def test_a_model_that_cannot_truncate_refuses_both_ways_without_a_trace() -> None:
    before = plain().given(*answer(*WORDS))
    assert before.when(cut()).refuses("bad_event").session == before.session
    assert before.when(ack(5, truncate=True)).refuses("bad_event", param="truncate").session == before.session
    before.when(ack(5)).then(PlaybackAcknowledged)


def test_a_written_answer_has_no_audio_to_truncate() -> None:
    scenario = patient(modalities=["text"]).given(*answer(*WORDS))
    scenario.when(cut()).refuses("bad_event", param="item_id")


# -- the cut itself ------------------------------------------------------------------------------------------------


def item(transcript: str, end_ms: int, *marks: tuple[int, int]) -> Item:
    return Item(
        id="i",
        transcript=transcript,
        part="audio",
        marks=marks,
        ledger=PlaybackLedger(generated_ms=end_ms, sent_ms=end_ms),
    )


@pytest.mark.parametrize(
    ("position_ms", "kept"),
    [(-5, 0), (0, 0), (500, 5), (1_000, 10), (1_500, 15), (2_000, 20), (2_001, 20), (9_999, 20)],
)
def test_without_marks_the_cut_is_proportional(position_ms: int, kept: int) -> None:
    assert kept_characters(item("x" * 20, 2_000), position_ms) == kept


@pytest.mark.parametrize(
    ("position_ms", "kept"),
    [(0, 0), (250, 4), (500, 8), (1_000, 16), (1_500, 18), (2_000, 20), (2_500, 25), (3_000, 30)],
)
def test_between_marks_and_past_the_last_the_cut_is_interpolated(position_ms: int, kept: int) -> None:
    assert kept_characters(item("x" * 30, 3_000, (16, 1_000), (20, 2_000)), position_ms) == kept


def test_marks_that_lie_are_made_to_agree() -> None:
    lying = item("x" * 10, 1_000, (8, 400), (5, 600), (99, 700))
    assert [kept_characters(lying, at) for at in (0, 200, 400, 600, 700, 1_000)] == [0, 4, 8, 8, 10, 10]


def test_a_cut_text_ends_with_a_word_not_with_a_space() -> None:
    assert heard_text(item("One. Two. ", 1_000, (5, 500), (10, 1_000)), 500) == "One."
    assert remembered_text(Item(id="i", part="text", text="as it is ")) == "as it is "


marks = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5_000)), max_size=6)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=50), st.integers(0, 5_000), marks, st.lists(st.integers(-100, 6_000), min_size=2, max_size=8))
def test_the_cut_never_loses_what_an_earlier_position_had(
    transcript: str, end_ms: int, points: list[tuple[int, int]], positions: list[int]
) -> None:
    one = item(transcript, end_ms, *points)
    kept = [kept_characters(one, position) for position in sorted(positions)]
    assert kept == sorted(kept)
    assert all(0 <= count <= len(transcript) for count in kept)
    last_ms = max([end_ms, *(ms for _, ms in points)])
    assert kept_characters(one, last_ms) == (len(transcript) if last_ms > 0 else 0)
    assert kept_characters(one, 0) == 0
