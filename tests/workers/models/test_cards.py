"""Every card flag by flag against what is published of its model, and why this service says more where it does."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from duplex_es.model import ModelInfo
from duplex_es.protocol.objects import Capabilities
from tests.support.published_flags import COLUMNS, FLAGS, published
from workers.models import cards
from workers.models.bridge.card import card as bridge_card
from workers.models.bridge.presets import PRESETS
from workers.models.cascade import PLUGIN as CASCADE
from workers.models.chat import PLUGIN as CHAT
from workers.models.echo import PLUGIN as ECHO
from workers.models.minicpmo import PLUGIN as MINICPM
from workers.models.nemotron import PLUGIN as NEMOTRON
from workers.models.personaplex import PLUGIN as PERSONAPLEX
from workers.models.qwen3omni import PLUGIN as QWEN
from workers.models.scripted import PLUGIN as SCRIPTED

pytestmark = pytest.mark.unit

LOGGED = "what a session is lies in its log: it outlives its socket, its gateway and its worker"
FRAMES = "its frames lie in the log: whoever takes the session over puts them in again"
MANY = "one worker serves many sessions, whatever the model behind it"
OF_THE_SERVICE = {"supports_session_resume": LOGGED, "supports_session_lease": LOGGED, "supports_multi_session": MANY}


@dataclass(frozen=True)
class Row:
    """What a card shows: the published column, but ``True`` where this service can do more, each with its reason."""

    info: Callable[[], ModelInfo]
    column: str
    more: Mapping[str, str] = field(default_factory=dict)


def bridged(preset: str) -> Callable[[], ModelInfo]:
    """The card of a bridge to a server that has not said anything yet."""
    return lambda: bridge_card("vllm-omni", PRESETS[preset], None, keeps_token=True)


def chat_lane_of(info: ModelInfo) -> ModelInfo:
    """What a session without the opt-in gets."""
    assert info.without_opt_in is not None
    return info.without_opt_in


ROWS: dict[str, Row] = {
    # What stands in for a model shows what its own server would: clients are tested against it.
    "a stand-in for Qwen3-Omni": Row(lambda: cards.QWEN3_OMNI.info, "qwen3_omni"),
    "a stand-in for MiniCPM-o 4.5": Row(lambda: cards.MINICPM.info, "minicpmo_4_5"),
    "a stand-in for MiniCPM-o 4.5, not opted in": Row(lambda: chat_lane_of(cards.MINICPM.info), "qwen3_omni"),
    "a stand-in for PersonaPlex": Row(lambda: cards.PERSONAPLEX.info, "personaplex"),
    "a stand-in for Nemotron VoiceChat": Row(lambda: cards.NEMOTRON.info, "nemotron_voicechat"),
    # What serves a model.
    "openbmb/MiniCPM-o-4_5": Row(lambda: MINICPM({"fake": "yes"}).info, "minicpmo_4_5"),
    "nvidia/personaplex-7b-v1": Row(
        lambda: PERSONAPLEX({"weights": "random"}).info, "personaplex", {"supports_session_resume": FRAMES}
    ),
    "Qwen/Qwen3-Omni-30B-A3B-Instruct": Row(
        lambda: QWEN({"weights": "/models"}).info,
        "qwen3_omni",
        {**OF_THE_SERVICE, "supports_multi_session_same_replica": MANY},
    ),
    "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B": Row(
        lambda: NEMOTRON({"weights": "random"}).info,
        "nemotron_voicechat",
        {"supports_multi_session": MANY, "supports_multi_session_same_replica": MANY},
    ),
    "chat": Row(lambda: CHAT({"chat_url": "http://host/v1"}).info, "qwen3_omni", OF_THE_SERVICE),
    "vllm-omni before Qwen3-Omni": Row(bridged("qwen3_omni"), "qwen3_omni", OF_THE_SERVICE),
    "vllm-omni before MiniCPM-o 4.5": Row(bridged("minicpmo_4_5"), "minicpmo_4_5"),
    "vllm-omni before PersonaPlex": Row(bridged("personaplex"), "personaplex", {"supports_session_resume": LOGGED}),
    "vllm-omni before Nemotron VoiceChat": Row(
        bridged("nemotron_voicechat"), "nemotron_voicechat", {"supports_multi_session": MANY}
    ),
}

OUR_OWN = {"cascade": CASCADE, "echo": ECHO, "scripted": SCRIPTED}
"""Models that nobody published: no table holds them."""


def test_the_table_has_every_flag_there_is() -> None:
    assert set(FLAGS) == set(Capabilities.__struct_fields__)
    assert all(len(values) == len(COLUMNS) for values in FLAGS.values())


@pytest.mark.parametrize("name", ROWS)
def test_a_card_is_as_published_but_for_what_is_said_here(name: str) -> None:
    row = ROWS[name]
    expected = {**published(row.column), **dict.fromkeys(row.more, True)}
    assert msgspec.to_builtins(row.info().capabilities) == expected
    assert all(published(row.column)[flag] is False for flag in row.more), "a difference that is none"


@pytest.mark.parametrize("name", OUR_OWN)
def test_a_model_of_our_own_claims_nothing_of_other_servers_inner_life(name: str) -> None:
    shown = msgspec.to_builtins(OUR_OWN[name]({}).info.capabilities)
    inner = {"adapter_patterns", "session_admission_mode", "stage_handoff_transport", "supports_session_adapter"}
    assert not (inner | {flag for flag in shown if flag.startswith(("requires_", "supports_stage_"))}) & shown.keys()
    assert shown["supports_barge_in"] and shown["supports_session_resume"] and shown["supports_client_commit"]
    assert not shown["supports_external_turn_signal"]


def test_every_model_that_can_be_loaded_has_its_row() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
    offered = set(project["entry-points"]["duplex_es.models"])
    held = set(OUR_OWN) | {name.split(" before ")[0] for name in ROWS if not name.startswith("a stand-in")}
    assert offered == held


def test_rates_and_units_are_as_published() -> None:
    models = {"minicpmo_4_5": cards.MINICPM, "personaplex": cards.PERSONAPLEX, "nemotron_voicechat": cards.NEMOTRON}
    rates = {name: (one.info.input_rate_hz, one.info.output_rate_hz) for name, one in models.items()}
    assert rates == {
        "minicpmo_4_5": (16_000, 24_000),
        "personaplex": (24_000, 24_000),
        "nemotron_voicechat": (16_000, 22_050),
    }
    units = {name: (one.units.first_ms, one.units.period_ms) for name, one in models.items() if one.units is not None}
    assert units == {"minicpmo_4_5": (1030, 1000), "personaplex": (None, 80), "nemotron_voicechat": (None, 80)}


def test_the_first_unit_of_minicpm_is_what_is_left_of_its_nominal_length_on_the_grid_of_its_features() -> None:
    """1,035 ms are asked for by its authors' code, which then takes in whole hops of its spectrogram, 10 ms each."""
    nominal, hop = 1_035 * 16, 160
    assert cards.MINICPM.units is not None
    assert cards.MINICPM.units.first_ms == nominal // hop * hop // 16


def test_a_plug_in_promises_what_its_stand_in_does() -> None:
    real, played = MINICPM({"fake": "yes"}).info, SCRIPTED({"profile": "minicpmo_4_5"}).info
    assert real == msgspec.structs.replace(played, takes_frames=True)


def test_who_has_room_for_one_session_does_not_claim_several() -> None:
    flags = ("supports_multi_session", "supports_multi_session_same_replica")
    for model in (cards.MINICPM, cards.PERSONAPLEX):
        for sessions in (1, 2):
            capabilities = cards.with_room_for(model.info, sessions).capabilities
            assert {getattr(capabilities, flag) for flag in flags} == {sessions > 1}
    one = cards.NEMOTRON.info
    assert cards.with_room_for(one, 4) == one


def test_pictures_are_taken_by_the_one_model_that_sees() -> None:
    see = [name for name, row in ROWS.items() if row.info().takes_frames]
    assert see == ["openbmb/MiniCPM-o-4_5", "vllm-omni before MiniCPM-o 4.5"]
