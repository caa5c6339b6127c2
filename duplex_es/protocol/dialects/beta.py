"""The canonical stream under the names of the OpenAI Realtime beta: the rows of ``ga``, but for what was renamed.

Source: docs/reference/dialects.md, "beta".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import frames
from ..objects import Plain
from . import ga
from .items import begun_item, place_of, stock_item
from .responses import stock_response
from .sessions import beta_session

RENAMED: Mapping[str, str] = {
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
}
"""Name today → name in the beta."""


def _renamed(row: ga.Row) -> ga.Row:
    def rename(frame: Any) -> list[Plain]:
        return [{**made, "type": RENAMED[str(made["type"])]} for made in row(frame)]

    return rename


def _session_created(frame: frames.SessionCreated) -> list[Plain]:
    return [ga.event(frame, session=beta_session(frame.session)) | ga.resume_fields(frame)]


def _session_updated(frame: frames.SessionUpdated) -> list[Plain]:
    return [ga.event(frame, session=beta_session(frame.session))]


def _item_created(frame: frames.ConversationItemCreated) -> list[Plain]:
    item = begun_item(frame.item, beta=True)
    return [ga.event(frame, previous_item_id=place_of(frame.previous_item_id), item=item)]


def _item_retrieved(frame: frames.ConversationItemRetrieved) -> list[Plain]:
    return [ga.event(frame, item=stock_item(frame.item, beta=True))]


def _response_created(frame: frames.ResponseCreated) -> list[Plain]:
    return [ga.event(frame, response=stock_response(frame.response, beta=True))]


def _response_done(frame: frames.ResponseDone) -> list[Plain]:
    return [ga.event(frame, response=stock_response(frame.response, beta=True, ended=True))]


def _output_item_added(frame: frames.ResponseOutputItemAdded) -> list[Plain]:
    place = {"response_id": frame.response_id, "output_index": frame.output_index}
    return [ga.event(frame, **place, item=begun_item(frame.item, beta=True))]


def _output_item_done(frame: frames.ResponseOutputItemDone) -> list[Plain]:
    place = {"response_id": frame.response_id, "output_index": frame.output_index}
    return [ga.event(frame, **place, item=stock_item(frame.item, beta=True))]


ROWS: Mapping[type[frames.Frame], ga.Row] = {
    **ga.ROWS,
    frames.SessionCreated: _session_created,
    frames.SessionUpdated: _session_updated,
    frames.ConversationItemAdded: ga.silent,
    frames.ConversationItemCreated: _item_created,
    frames.ConversationItemDone: ga.silent,
    frames.ConversationItemRetrieved: _item_retrieved,
    frames.ResponseCreated: _response_created,
    frames.ResponseDone: _response_done,
    frames.ResponseOutputItemAdded: _output_item_added,
    frames.ResponseOutputItemDone: _output_item_done,
    frames.ResponseOutputAudioDelta: _renamed(ga.audio_delta),
    frames.ResponseOutputAudioDone: _renamed(ga.audio_done),
    frames.ResponseOutputAudioTranscriptDelta: _renamed(ga.text_delta),
    frames.ResponseOutputAudioTranscriptDone: _renamed(ga.transcript_done),
    frames.ResponseOutputTextDelta: _renamed(ga.text_delta),
    frames.ResponseOutputTextDone: _renamed(ga.text_done),
    frames.OutputAudioBufferCleared: ga.silent,
}
"""Every frame, extensions included → its row."""
