"""The shapes of published models: their flags as published, and the openings they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from duplex_es.model import (
    CloseModel,
    Interrupt,
    ModelFinished,
    ModelHeardTurn,
    ModelInfo,
    ModelListened,
    ModelProducedAudio,
    ModelRefused,
    ModelSpoke,
    OpenModel,
)
from duplex_es.testing.model_suite import Caller, Ear, ModelSuite, check_order
from tests.support.published_flags import COLUMNS, FLAGS
from workers.models.scripted import PLUGIN

pytestmark = pytest.mark.unit

VOICE = "data:audio/wav;base64,AAAA"
OPT_IN: dict[str, object] = {"native_duplex": True}
AUTO: dict[str, object] = {"auto_response": True}

Opening = Callable[..., Awaitable[Caller]]


def card(profile: str) -> ModelInfo:
    return PLUGIN({"profile": profile}).info


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_is_as_published(flag: str) -> None:
    assert tuple(getattr(card(name).capabilities, flag) for name in COLUMNS) == FLAGS[flag]


def test_without_the_opt_in_minicpm_is_a_chat_model_of_the_same_name() -> None:
    info = PLUGIN({"profile": "minicpmo_4_5", "name": "mini"}).info
    assert info.without_opt_in is not None
    assert (info.name, info.without_opt_in.name) == ("mini", "mini")
    assert (info.is_chat_lane, info.without_opt_in.is_chat_lane) == (False, True)
    assert [card(name).without_opt_in for name in COLUMNS if name != "minicpmo_4_5"] == [None] * 3


@pytest.mark.parametrize(
    ("profile", "name", "input_hz", "output_hz"),
    [
        ("minicpmo_4_5", "openbmb/MiniCPM-o-4_5", 16_000, 24_000),
        ("personaplex", "nvidia/personaplex-7b-v1", 24_000, 24_000),
        ("nemotron_voicechat", "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B", 16_000, 22_050),
        ("qwen3_omni", "Qwen/Qwen3-Omni-30B-A3B-Instruct", 16_000, 24_000),
    ],
)
def test_a_profile_answers_to_the_models_name_and_has_its_rates(
    profile: str, name: str, input_hz: int, output_hz: int
) -> None:
    info = card(profile)
    assert (info.name, info.input_rate_hz, info.output_rate_hz) == (name, input_hz, output_hz)
    assert PLUGIN({"profile": profile, "name": "other"}).info.name == "other"


def test_a_profile_that_there_is_none_of_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="personaplex"):
        PLUGIN({"profile": "gpt"})


# -- openings ------------------------------------------------------------------------------------------------------


async def refusal(profile: str, **request: Any) -> tuple[str, str | None]:
    with pytest.raises(ModelRefused) as refused:
        await PLUGIN({"profile": profile}).open(OpenModel(session_id="s", incarnation=0, epoch=0, **request), Ear())
    return refused.value.code, refused.value.param


RUNTIME = "invalid_duplex_runtime_config"


@pytest.mark.parametrize(
    ("profile", "request_", "code", "param"),
    [
        ("minicpmo_4_5", {"extra_body": OPT_IN}, "ref_audio_required", "session.ref_audio"),
        (
            "minicpmo_4_5",
            {"extra_body": {**OPT_IN, "ref_audio_path": "/etc/passwd"}, "ref_audio": VOICE},
            "unsupported_ref_audio_path",
            "session.extra_body.ref_audio_path",
        ),
        (
            "minicpmo_4_5",
            {"extra_body": {**OPT_IN, "duplex_stage_max_tokens": 9}, "ref_audio": VOICE},
            RUNTIME,
            "session.extra_body.duplex_stage_max_tokens",
        ),
        ("personaplex", {"voice": "alloy"}, RUNTIME, "session.voice"),
        ("personaplex", {"voice": "../NATF2.pt"}, RUNTIME, "session.voice"),
        (
            "personaplex",
            {"extra_body": {"personaplex_model_path": "/m"}},
            RUNTIME,
            "session.extra_body.personaplex_model_path",
        ),
        ("nemotron_voicechat", {}, "unsupported_nemotron_duplex_mode", "session.extra_body.auto_response"),
        (
            "nemotron_voicechat",
            {"extra_body": {"auto_response": "yes"}},
            "unsupported_nemotron_duplex_mode",
            "session.extra_body.auto_response",
        ),
        (
            "nemotron_voicechat",
            {"extra_body": {**AUTO, "nvc_anything": 1}},
            RUNTIME,
            "session.extra_body.nvc_anything",
        ),
        (
            "nemotron_voicechat",
            {"extra_body": AUTO, "tools": tuple({"name": f"t{number}"} for number in range(6))},
            RUNTIME,
            "session.tools",
        ),
        (
            "nemotron_voicechat",
            {"extra_body": AUTO, "tools": ({"name": "a"}, {"type": "function"})},
            RUNTIME,
            "session.tools[1].name",
        ),
    ],
)
async def test_an_opening_the_model_cannot_serve_is_refused_with_its_field(
    profile: str, request_: dict[str, Any], code: str, param: str
) -> None:
    assert await refusal(profile, **request_) == (code, param)


@pytest.mark.parametrize(
    ("profile", "request_"),
    [
        ("minicpmo_4_5", {}),
        ("minicpmo_4_5", {"extra_body": {"duplex_stage_max_tokens": 9}}),
        ("minicpmo_4_5", {"extra_body": OPT_IN, "modalities": ("text",)}),
        ("minicpmo_4_5", {"extra_body": OPT_IN, "ref_audio": VOICE}),
        ("minicpmo_4_5", {"extra_body": {**OPT_IN, "tts_ref_audio": VOICE}}),
        ("personaplex", {}),
        ("personaplex", {"voice": "VARM4.pt", "instructions": ""}),
        ("nemotron_voicechat", {"extra_body": {"full_duplex": True}}),
        (
            "nemotron_voicechat",
            {"extra_body": AUTO, "tools": tuple({"type": "function", "function": {"name": "t"}} for _ in range(5))},
        ),
        ("qwen3_omni", {"extra_body": {"nvc_x": 1}}),
    ],
)
async def test_an_opening_the_model_can_serve_is_not_refused(profile: str, request_: dict[str, Any]) -> None:
    model = PLUGIN({"profile": profile})
    session = await model.open(OpenModel(session_id="s", incarnation=0, epoch=0, **request_), Ear())
    await session.perform(CloseModel())


def test_what_the_host_and_the_session_check_is_on_the_card() -> None:
    nemotron = card("nemotron_voicechat")
    assert nemotron.longest_append_samples == 1_280
    assert nemotron.fixed_settings == ("instructions", "tools")
    assert nemotron.private_keys == ("nvc_*",)
    assert card("qwen3_omni").keeps_audio


# -- units ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def opening() -> AsyncIterator[Opening]:
    """Opens sessions of a profile that play as fast as they can."""
    callers: list[Caller] = []

    async def opened(profile: str, lead_ms: str = "none", **request: Any) -> Caller:
        model = PLUGIN({"profile": profile, "lead_ms": lead_ms})
        callers.append(await ModelSuite().opened(model, **request))
        return callers[-1]

    yield opened
    for caller in callers:
        await caller.perform(CloseModel())
        check_order(caller.ear.signals)


MINICPM: dict[str, Any] = {"ref_audio": VOICE, "extra_body": {**OPT_IN, **AUTO}}


async def test_there_is_one_listen_decision_per_unit_and_none_between(opening: Opening) -> None:
    caller = await opening("minicpmo_4_5", **MINICPM)
    await caller.be_silent(1_000)
    assert caller.ear.signals == []
    await caller.be_silent(100)
    assert [listened.reason for listened in caller.ear.of(ModelListened)] == ["model_listen"]
    await caller.be_silent(5_000)
    assert len(caller.ear.of(ModelListened)) == 6
    frames = await opening("nemotron_voicechat", extra_body=AUTO)
    await frames.be_silent(800)
    assert len(frames.ear.of(ModelListened)) == 10


async def test_while_the_model_speaks_it_does_not_say_that_it_listens(opening: Opening) -> None:
    caller = await opening("minicpmo_4_5", lead_ms="600", **MINICPM)
    await caller.be_silent(500)
    await caller.commit()
    await caller.ear.first(ModelProducedAudio)
    await caller.be_silent(1_100)
    await caller.ear.answered(0)
    assert caller.ear.of(ModelListened) == []
    audio = [len(signal.pcm) // 48 for signal in caller.ear.of(ModelProducedAudio)]
    assert audio == [1_000, 1_000], "one unit of answer per unit of sound"


async def test_an_answer_goes_on_through_the_callers_silence(opening: Opening) -> None:
    caller = await opening("nemotron_voicechat", extra_body=AUTO)
    await caller.commit()
    answer = await caller.ear.answered(0)
    assert sum(len(signal.pcm) // 2 for signal in answer if isinstance(signal, ModelProducedAudio)) == 2 * 22_050


async def test_an_answer_that_was_asked_for_ends_after_eight_silent_units(opening: Opening) -> None:
    manual: dict[str, object] = {"auto_response": False, **OPT_IN}
    endless = [{"on": "end_turn", "do": [{"audio_ms": 60_000}, {"finish": True}]}]
    caller = await opening("minicpmo_4_5", ref_audio=VOICE, extra_body={**manual, "script": endless})
    await caller.commit()
    answer = await caller.ear.answered(0)
    assert len([signal for signal in answer if isinstance(signal, ModelProducedAudio)]) == 9
    await caller.commit()
    assert (await caller.ear.first(ModelListened)).reason == "model_listen"
    assert len(caller.ear.of(ModelSpoke)) == 1


async def test_where_the_client_asks_for_answers_no_unit_is_decided_on(opening: Opening) -> None:
    caller = await opening("minicpmo_4_5", ref_audio=VOICE, extra_body={"auto_response": False, **OPT_IN})
    await caller.be_silent(5_000)
    assert caller.ear.signals == []


async def test_a_profile_does_not_transcribe(opening: Opening) -> None:
    caller = await opening("nemotron_voicechat", extra_body=AUTO)
    await caller.be_silent(200)
    await caller.commit()
    await caller.ear.answered(0)
    assert caller.ear.of(ModelHeardTurn) == []


async def test_personaplex_speaks_from_the_first_frame_on_and_starts_over_when_it_is_cut(opening: Opening) -> None:
    caller = await opening("personaplex")
    assert caller.ear.signals == []
    await caller.be_silent(200)
    await caller.ear.first(ModelProducedAudio)
    await caller.be_silent(2_000)
    await caller.ear.first(ModelProducedAudio, lambda _: len(caller.ear.of(ModelProducedAudio)) > 20)
    caller.epoch += 1
    await caller.perform(Interrupt(epoch=caller.epoch))
    again = await caller.ear.first(ModelSpoke, lambda spoke: spoke.epoch == caller.epoch)
    assert again.turn == 1
    assert caller.ear.of(ModelFinished) == []


async def test_the_chat_lane_knows_no_units(opening: Opening) -> None:
    caller = await opening("qwen3_omni")
    await caller.be_silent(5_000)
    assert caller.ear.signals == []
    await caller.ask("Hello.")
    await caller.ear.answered(0)
