"""The gateway's own size limit, in bytes of UTF-8."""

from __future__ import annotations

import json

import pytest

from duplex_es.protocol import Heartbeat, ProtocolError
from gateway.reading import read_event

pytestmark = pytest.mark.unit


def test_an_event_within_the_limit_is_read() -> None:
    text = json.dumps({"type": "session.heartbeat"})
    assert read_event(text, len(text)) == Heartbeat()


@pytest.mark.parametrize("letter", ["x", "é", "語", "🙂"])
def test_the_limit_counts_bytes_and_not_letters(letter: str) -> None:
    text = json.dumps({"type": "session.heartbeat", "note": letter * 50}, ensure_ascii=False)
    size = len(text.encode())
    assert read_event(text, size) == Heartbeat()
    with pytest.raises(ProtocolError) as refused:
        read_event(text, size - 1)
    assert refused.value.code == "event_too_large"
