"""Settings are replaced as a whole or not at all, and every refusal names its field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duplex_es.model import ReconfigureModel
from duplex_es.protocol import ProtocolError, UpdateSession
from duplex_es.protocol.dialects import KEPT_AS
from duplex_es.session.configuring import opening_settings
from duplex_es.session.effects import AskModel
from duplex_es.session.events import SessionReconfigured
from duplex_es.testing.scenario import opened
from tests.session.cast import EAGER, PATIENT, TURN_BASED, answer, detected, eager, native, patient, plain, said, spoke

pytestmark = pytest.mark.unit

VAD = {"type": "server_vad"}


def update(**session: Any) -> UpdateSession:
    return UpdateSession(session=session, event_id="evt_update")


def test_an_update_is_echoed_whole_and_told_to_the_model() -> None:
    scenario = patient(instructions="old", temperature=0.5).when(update(instructions="new"))
    scenario.then(SessionReconfigured).shows("session.updated")
    (ask,) = scenario.effects
    assert isinstance(ask, AskModel)
    assert isinstance(ask.request, ReconfigureModel)
    assert (ask.request.instructions, ask.request.temperature) == ("new", 0.5)


def test_the_model_is_told_what_only_it_knows_when_that_changes() -> None:
    scenario = patient(extra_body={"x": 1}).when(update(extra_body={"return_stage_metrics": True}))
    (ask,) = scenario.effects
    assert isinstance(ask, AskModel) and isinstance(ask.request, ReconfigureModel)
    assert ask.request.extra_body == {"x": 1, "return_stage_metrics": True}


def test_a_setting_that_is_not_named_stays_and_null_takes_one_away() -> None:
    settings = patient(instructions="old", temperature=0.5).when(update(temperature=None)).session.settings
    assert (settings.instructions, settings.temperature) == ("old", None)


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({"turn_detection": {"type": "model_native"}}, "unsupported_turn_detection", "turn_detection"),
        ({"turn_detection": {"threshold": 0.9}}, "unsupported_turn_detection", "turn_detection"),
        ({"turn_detection": {**VAD, "interrupt_response": False}}, "unsupported_turn_detection", "turn_detection"),
        ({"turn_detection": {**VAD, "create_response": False}}, "unsupported_turn_detection", "turn_detection"),
        ({"turn_detection": {**VAD, "threshold": 0.1}}, "unsupported_turn_detection", "turn_detection"),
        ({"overlap_policy": "barge_in_on_speech"}, "unsupported_turn_detection", "turn_detection"),
        ({"input_audio_format": "mp3"}, "unsupported_audio_format", "audio.input.format"),
        ({"sample_rate_hz": 7_999}, "unsupported_audio_format", "audio.input.format"),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "channels": 2}}}},
            "unsupported_audio_format",
            "audio.input.format",
        ),
        ({"output_audio_format": "pcm_f32le"}, "unsupported_audio_format", "audio.output.format"),
        ({"model": "another"}, "model_update_unsupported", "session.model"),
        ({"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio_update_unsupported", "session.ref_audio"),
        (
            {"extra_body": {"ref_audio_path": "/etc/passwd"}},
            "unsupported_ref_audio_path",
            "session.extra_body.ref_audio_path",
        ),
        (
            {"extra_body": {"tts_ref_audio_path": "x.wav"}},
            "unsupported_ref_audio_path",
            "session.extra_body.tts_ref_audio_path",
        ),
        ({"extra_body": {"native_duplex": "yes"}}, "invalid_request_error", "session.extra_body.native_duplex"),
        (
            {"extra_body": {"native_duplex": False}},
            "native_duplex_mode_update_unsupported",
            "session.extra_body.native_duplex",
        ),
    ],
)
def test_a_refused_update_names_its_field_and_leaves_every_setting_alone(
    session: dict[str, object], code: str, param: str
) -> None:
    before = patient(extra_body={"native_duplex": True}, temperature=0.5)
    scenario = before.when(update(temperature=0.9, instructions="new", **session)).refuses(code, param=param)
    assert scenario.session == before.session
    assert scenario.decision.facts[0].event_id == "evt_update"  # type: ignore[attr-defined]


def test_the_same_things_are_refused_when_the_session_opens() -> None:
    for session, code in (
        ({"turn_detection": {"type": "model_native"}}, "unsupported_turn_detection"),
        ({"output_audio_format": "mp3"}, "unsupported_audio_format"),
        ({"extra_body": {"ref_audio_path": "x"}}, "unsupported_ref_audio_path"),
    ):
        with pytest.raises(ProtocolError) as refused:
            opening_settings(session, PATIENT, "patient")
        assert refused.value.code == code


def test_a_model_that_does_not_listen_while_it_speaks_cannot_be_told_to_interrupt() -> None:
    with pytest.raises(ProtocolError) as refused:
        opening_settings({"turn_detection": {**VAD, "interrupt_response": True}}, TURN_BASED, "turns")
    assert refused.value.code == "server_vad_requires_native_duplex"


def test_a_detector_of_such_a_model_survives_every_later_update() -> None:
    scenario = opened(TURN_BASED, {"turn_detection": VAD})
    assert scenario.session.settings.overlap_policy == "listen_only"
    after = scenario.given(update(instructions="new"), update(overlap_policy="listen_only")).session.settings
    assert (after.instructions, after.turn_detection) == ("new", scenario.session.settings.turn_detection)


def test_a_model_is_named_again_without_harm() -> None:
    patient().when(update(model="patient", temperature=1)).then(SessionReconfigured)


def test_the_voice_may_change_until_it_was_heard() -> None:
    scenario = patient(voice="anna").given(spoke())
    scenario.when(update(voice="ben")).then(SessionReconfigured)
    heard = scenario.given(said("Hello"))
    heard.when(update(voice="ben")).refuses("voice_update_after_audio_unsupported", param="session.voice")
    heard.when(update(voice="anna", temperature=1)).then(SessionReconfigured)
    patient(voice="anna").given(*answer("Hello")).when(update(voice="ben")).refuses(
        "voice_update_after_audio_unsupported"
    )


def test_a_detector_sets_the_overlap_policy_and_taking_it_away_takes_the_policy_too() -> None:
    scenario = patient(turn_detection=VAD)
    assert scenario.session.settings.overlap_policy == "barge_in_on_speech"
    assert scenario.session.settings.turn_detection is not None
    off = scenario.given(update(turn_detection=None)).session.settings
    assert (off.turn_detection, off.overlap_policy) == (None, "listen_only")


def test_a_model_that_interrupts_itself_keeps_its_policy_without_a_detector() -> None:
    assert eager().session.settings.overlap_policy == "barge_in_on_speech"
    assert eager(overlap_policy="listen_only").session.settings.overlap_policy == "listen_only"
    assert eager(turn_detection=None).session.settings.overlap_policy == "barge_in_on_speech"


def test_the_model_says_whether_it_answers_by_itself_and_the_client_may_overrule_it() -> None:
    assert eager().session.settings.auto_response
    assert not patient().session.settings.auto_response
    assert not eager(extra_body={"auto_response": False}).session.settings.auto_response
    assert patient(extra_body={"auto_response": True}).session.settings.auto_response
    assert not patient(extra_body={"auto_response": "true"}).session.settings.auto_response


def test_what_only_the_client_understands_is_kept_and_null_removes_it() -> None:
    scenario = patient(metadata={"a": 1}, prompt={"id": "p"})
    assert scenario.session.settings.extra == {"metadata": {"a": 1}, "prompt": {"id": "p"}}
    after = scenario.given(update(metadata=None, include=["x"])).session.settings
    assert after.extra == {"prompt": {"id": "p"}, "include": ["x"]}


def test_formats_and_rates_go_together() -> None:
    settings = patient(input_audio_format="g711_ulaw", output_audio_format="g711_alaw").session.settings
    assert (settings.input_format, settings.input_rate_hz, settings.output_format) == ("g711_ulaw", 8_000, "g711_alaw")
    later = patient(sample_rate_hz=24_000).session.settings
    assert (later.input_format, later.input_rate_hz) == ("pcm16", 24_000)


def test_extra_body_is_added_to_and_the_playback_policy_may_stand_in_it() -> None:
    scenario = plain(extra_body={"playback_commit_policy": "ack_only", "a": 1}).given(update(extra_body={"b": 2}))
    assert scenario.session.settings.extra_body == {"playback_commit_policy": "ack_only", "a": 1, "b": 2}
    assert scenario.session.settings.playback_commit_policy == "ack_only"


def test_the_model_of_a_session_is_what_the_gateway_chose() -> None:
    assert opening_settings({"model": "whatever"}, EAGER, "eager").model == "eager"


# -- what a model or a detector fixes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eagerness", "silence_ms"), [({}, 500), ({"eagerness": "low"}, 800), ({"eagerness": "high"}, 300)]
)
def test_a_semantic_detector_is_one_that_waits_for_a_longer_or_shorter_silence(
    eagerness: dict[str, str], silence_ms: int
) -> None:
    scenario = patient().when(update(turn_detection={"type": "semantic_vad", **eagerness}))
    detector = scenario.session.settings.turn_detection or {}
    assert (detector["type"], detector["silence_duration_ms"]) == ("server_vad", silence_ms)
    assert scenario.session.settings.overlap_policy == "barge_in_on_speech"


def test_what_a_model_keeps_for_itself_is_not_the_clients_to_set() -> None:
    guarded = msgspec.structs.replace(PATIENT, private_keys=("secret", "nvc_*"))
    for key in ("secret", "nvc_depth"):
        param = f"session.extra_body.{key}"
        opened(guarded).when(update(extra_body={key: 1})).refuses("invalid_duplex_runtime_config", param=param)
        with pytest.raises(ProtocolError, match=key):
            opening_settings({"extra_body": {key: 1}}, guarded, "patient")
    opened(guarded).when(update(extra_body={"nvc": 1})).then(SessionReconfigured)


def test_what_a_model_fixes_when_it_opens_stays() -> None:
    fixed = msgspec.structs.replace(PATIENT, fixed_settings=("instructions", "tools"))
    scenario = opened(fixed, {"instructions": "Be kind."})
    scenario.when(update(instructions="Be brief.")).refuses(
        "instructions_update_unsupported", param="session.instructions"
    )
    scenario.when(update(tools=[{"name": "f"}])).refuses("invalid_duplex_runtime_config", param="session.tools")
    scenario.when(update(instructions="Be kind.", voice="anna")).then(SessionReconfigured)


def test_a_turn_based_detector_hears_one_kind_of_sound_for_good() -> None:
    for said_so in ({"input_audio_format": "g711_ulaw"}, {"sample_rate_hz": 48_000}):
        with pytest.raises(ProtocolError, match="pcm16") as refused:
            opening_settings({"turn_detection": VAD, **said_so}, TURN_BASED, "turns")
        assert (refused.value.code, refused.value.param) == ("unsupported_turn_detection", "audio.input.format")
    quiet = opened(TURN_BASED, {"turn_detection": VAD})
    quiet.when(update(sample_rate_hz=24_000)).then(SessionReconfigured)
    heard = quiet.given(detected(started=True))
    heard.when(update(sample_rate_hz=24_000)).refuses("unsupported_audio_format", param="audio.input.format")
    heard.when(update(turn_detection=None)).refuses("unsupported_turn_detection", param="turn_detection")
    heard.when(update(sample_rate_hz=16_000, voice="anna")).then(SessionReconfigured)


def test_a_model_that_listens_all_the_time_may_change_its_detector() -> None:
    native(turn_detection=VAD).given(detected(started=True)).when(update(turn_detection=None)).then(SessionReconfigured)


def test_a_rate_belongs_to_its_format() -> None:
    wide = {"audio": {"output": {"format": {"type": "audio/pcm", "rate": 24_000}}}}
    scenario = opened(PATIENT, wide).when(update(output_audio_format="g711_ulaw"))
    assert scenario.session.settings.output_rate_hz is None
    updated = scenario.frames[0]
    assert updated.session["audio"]["output"]["format"] == {"type": "audio/pcmu", "rate": 8_000}  # type: ignore[union-attr,index]
    same = opened(PATIENT, wide).when(update(output_audio_format="pcm16"))
    assert same.session.settings.output_rate_hz == 24_000


def test_a_turn_based_detector_is_what_a_stock_client_asked_for_not_what_it_was_rewritten_to() -> None:
    asked = {"type": "server_vad", "silence_duration_ms": 700, "create_response": False, "interrupt_response": False}
    rewritten = {"turn_detection": None, "overlap_policy": "listen_only", KEPT_AS: asked}
    settings = opening_settings(rewritten, TURN_BASED, "turns")
    assert settings.turn_detection is not None
    assert (settings.turn_detection["silence_duration_ms"], settings.turn_detection["create_response"]) == (700, False)
    assert settings.overlap_policy == "listen_only"
    assert opening_settings(rewritten, PATIENT, "patient").turn_detection is None
    manual = opening_settings({"turn_detection": None, KEPT_AS: None}, TURN_BASED, "turns")
    assert manual.turn_detection is None


def test_a_stock_clients_later_update_changes_only_the_fields_that_it_names() -> None:
    first = {"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 900}
    scenario = opened(PATIENT, {"turn_detection": first, KEPT_AS: first})
    then = {"type": "server_vad", "threshold": 0.7}
    settings = scenario.when(update(turn_detection=then, **{KEPT_AS: then})).session.settings
    assert settings.turn_detection is not None
    assert (settings.turn_detection["threshold"], settings.turn_detection["silence_duration_ms"]) == (0.7, 900)
