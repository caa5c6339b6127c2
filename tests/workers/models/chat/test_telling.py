"""Parts of an answer as signals; test_session.py has the whole way."""

from __future__ import annotations

import pytest

from duplex_es.model import ModelProducedText
from duplex_es.testing.model_suite import Ear
from workers.models.chat.answering import Called, Used, Written
from workers.models.chat.options import ChatOptions
from workers.models.chat.senses import Senses
from workers.models.chat.telling import Telling
from workers.models.floor import Floor

pytestmark = pytest.mark.unit


async def test_what_was_said_is_remembered_words_first_then_calls() -> None:
    ear = Ear()
    floor = Floor(ear, output_rate_hz=24_000, lead_ms=None)
    telling = Telling(floor.begin(), floor, ChatOptions(), Senses(None, None), aloud=True)
    assert not telling.has_begun
    for part in (Written("Let me see."), Called("c", "look", "{}"), Used(3, 4)):
        await telling.tell(part)
    assert telling.has_begun
    await telling.finish()
    assert [signal.text for signal in ear.of(ModelProducedText)] == ["Let me see."]
    assert [(item.text, item.call_id) for item in telling.said()] == [("Let me see.", None), ("{}", "c")]
