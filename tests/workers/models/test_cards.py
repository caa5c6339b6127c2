"""The published models' cards against the table of the contract, and that the plug-ins show the same."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from duplex_es.model import ModelInfo
from workers.models import cards
from workers.models.minicpmo import PLUGIN as MINICPM
from workers.models.scripted import PLUGIN as SCRIPTED

pytestmark = pytest.mark.unit

CHAT: Mapping[str, object] = {
    "implementation_level": "serving_session_adapter",
    "supports_input_append": False,
    "supports_barge_in": True,
    "supports_session_resume": False,
    "supports_turn_commit_only": True,
    "signal_sources": ["client_event", "server_policy", "model_native"],
    "chunk_period_ms": 1000,
    "target_barge_in_latency_ms": 1000,
}
NATIVE: Mapping[str, object] = {
    "implementation_level": "model_native_duplex",
    "supports_session_adapter": True,
    "supports_model_native_turn_policy": True,
    "supports_input_append": True,
    "supports_playback_ack": True,
    "supports_replace_latest_chunk": False,
    "supports_turn_commit_only": False,
    "supports_session_lease": True,
    "session_admission_mode": "engine_managed",
    "adapter_patterns": ["scheduler_data_plane"],
    "input_modes": ["append_audio_chunk"],
    "stage_handoff_transport": "scheduler_data_plane",
    "target_barge_in_latency_ms": None,
}
DIFFER: Mapping[str, tuple[object, object, object]] = {
    # flag: MiniCPM-o 4.5, PersonaPlex, Nemotron VoiceChat
    "supports_external_turn_signal": (True, False, False),
    "supports_client_commit": (True, False, True),
    "supports_barge_in": (True, False, False),
    "supports_multi_session": (True, True, False),
    "supports_multi_session_same_replica": (True, True, False),
    "supports_session_resume": (True, False, True),
    "supports_audio_truncate": (True, False, False),
    "signal_sources": (
        ["model_native", "client_event", "server_policy"],
        ["model_native", "client_event"],
        ["model_native", "client_event"],
    ),
    "chunk_period_ms": (1000, 80, 80),
}
MODELS = {"minicpmo_4_5": cards.MINICPM, "personaplex": cards.PERSONAPLEX, "nemotron_voicechat": cards.NEMOTRON}


@pytest.mark.parametrize("profile", MODELS)
def test_the_native_cards_are_as_the_contract_has_them(profile: str) -> None:
    place = list(MODELS).index(profile)
    expected = {**NATIVE, **{flag: values[place] for flag, values in DIFFER.items()}}
    shown = msgspec.to_builtins(MODELS[profile].info.capabilities)
    assert {flag: shown[flag] for flag in expected} == expected


def test_the_chat_card_is_as_the_contract_has_it() -> None:
    for info in (cards.QWEN3_OMNI.info, cards.MINICPM.info.without_opt_in):
        assert isinstance(info, ModelInfo)
        shown = msgspec.to_builtins(info.capabilities)
        assert {flag: shown[flag] for flag in CHAT} == CHAT


def test_rates_and_units_are_as_published() -> None:
    rates = {name: (one.info.input_rate_hz, one.info.output_rate_hz) for name, one in MODELS.items()}
    assert rates == {
        "minicpmo_4_5": (16_000, 24_000),
        "personaplex": (24_000, 24_000),
        "nemotron_voicechat": (16_000, 22_050),
    }
    units = cards.MINICPM.units
    assert units is not None and (units.first_ms, units.period_ms) == (1030, 1000)


def test_a_plug_in_promises_what_its_stand_in_does() -> None:
    real, played = MINICPM({"fake": "yes"}).info, SCRIPTED({"profile": "minicpmo_4_5"}).info
    assert real == msgspec.structs.replace(played, takes_frames=True)
