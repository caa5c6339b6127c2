"""The card is the server's own, as far as the bridge can keep it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from workers.models.bridge.card import capabilities_of, card
from workers.models.bridge.presets import PRESETS
from workers.models.lanes import CHAT, native

pytestmark = pytest.mark.unit


def said(capabilities: Any, **fields: Any) -> dict[str, Any]:
    return {"capabilities": msgspec.to_builtins(capabilities), **fields}


def test_the_server_s_flags_hold_but_for_what_this_service_does_itself() -> None:
    there = native(supports_barge_in=True, supports_session_resume=False, chunk_period_ms=160)
    info = card("b", PRESETS["any"], said(there, overlap_policy="barge_in_on_speech"), keeps_token=True)
    assert (info.capabilities.supports_barge_in, info.capabilities.chunk_period_ms) == (True, 160)
    assert info.capabilities.supports_session_resume is True
    assert (info.overlap_policy, info.ends_turns, info.memory_bytes) == ("barge_in_on_speech", True, 0)


def test_a_server_that_can_be_resumed_is_if_its_token_can_be_kept() -> None:
    there = said(native(supports_session_resume=True))
    assert card("b", PRESETS["any"], there, keeps_token=True).memory_bytes > 0
    assert card("b", PRESETS["any"], there, keeps_token=False).memory_bytes == 0


def test_without_a_server_the_row_holds() -> None:
    info = card("b", PRESETS["nemotron_voicechat"], None, keeps_token=True)
    assert (info.longest_append_samples, info.takes_text_turns) == (1_280, False)
    assert info.capabilities.supports_barge_in is False


def test_a_chat_lane_stays_one() -> None:
    info = card("b", PRESETS["qwen3_omni"], said(CHAT), keeps_token=True)
    assert (info.is_chat_lane, info.ends_turns, info.auto_response) == (True, False, False)


@pytest.mark.parametrize("session", [None, {}, {"capabilities": 3}, {"capabilities": {"chunk_period_ms": "x"}}])
def test_flags_that_cannot_be_read_are_none(session: dict[str, Any] | None) -> None:
    assert capabilities_of(session) is None
