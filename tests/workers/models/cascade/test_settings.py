"""The client's turn detection, and what holds where it says nothing."""

from __future__ import annotations

import pytest

from workers.models.cascade.options import CascadeOptions
from workers.models.cascade.settings import hearing_settings

pytestmark = pytest.mark.unit

OPTIONS = CascadeOptions(silence_ms=420, barge_in_ms=700)


def test_the_operators_values_hold_where_the_client_sets_none() -> None:
    settings = hearing_settings(OPTIONS, None, ends_turns=True)
    assert (settings.endpoint.silence_ms, settings.endpoint.threshold) == (420, 0.5)
    assert (settings.barge_in_ms, settings.ends_turns) == (700, True)


def test_the_clients_values_go_first() -> None:
    wish = {
        "type": "server_vad",
        "threshold": 0.7,
        "silence_duration_ms": 900,
        "prefix_padding_ms": 100,
        "min_speech_duration_ms": 200,
    }
    settings = hearing_settings(OPTIONS, wish, ends_turns=False)
    endpoint = settings.endpoint
    assert (endpoint.threshold, endpoint.silence_ms, endpoint.min_speech_ms) == (0.7, 900, 200)
    assert (settings.prefix_ms, settings.ends_turns) == (100, False)


def test_nonsense_is_taken_as_not_set() -> None:
    settings = hearing_settings(OPTIONS, {"threshold": True, "silence_duration_ms": "long"}, ends_turns=True)
    assert (settings.endpoint.threshold, settings.endpoint.silence_ms) == (0.5, 420)
