"""Requests in the words of the wire."""

from __future__ import annotations

import json

import numpy as np
import pytest

from duplex_es.model import Generate, HistoryItem, OpenModel, ReconfigureModel
from duplex_es.protocol import decode_command, encode_command, read_config
from workers.models.bridge.options import BridgeOptions
from workers.models.bridge.presets import PRESETS
from workers.models.bridge.wording import append, asking, changed, opening, untold

pytestmark = pytest.mark.unit

FLOATS = np.array([0.5, -0.5], np.float32).tobytes()


def opened(preset: str = "any", *, ends_turns: bool = True, **fields: object) -> dict[str, object]:
    request = OpenModel(session_id="s", incarnation=0, epoch=0, **fields)
    return opening(request, BridgeOptions(model="m"), PRESETS[preset], ends_turns=ends_turns).session


@pytest.mark.parametrize("preset", PRESETS)
def test_the_opening_names_formats_that_the_wire_knows(preset: str) -> None:
    config = read_config(opened(preset))
    assert config.input_encoding == PRESETS[preset].encoding
    assert config.input_rate_hz == PRESETS[preset].input_rate_hz
    assert (config.output_encoding, config.output_rate_hz) == ("pcm16", 24_000)


def test_the_client_s_settings_go_along_and_its_word_on_duplex_counts() -> None:
    session = opened(instructions="Be brief.", tools=({"name": "f"},), extra_body={"native_duplex": False, "x": 1})
    assert session["instructions"] == "Be brief."
    assert session["tools"] == [{"name": "f"}]
    assert session["extra_body"] == {"native_duplex": False, "x": 1}
    assert opened()["extra_body"] == {"native_duplex": True}


def test_turns_that_are_ended_here_are_not_ended_there() -> None:
    detection = {"type": "server_vad"}
    assert "turn_detection" not in opened(ends_turns=False, turn_detection=detection)
    assert opened(turn_detection=detection)["turn_detection"] == detection
    before, now = ReconfigureModel(), ReconfigureModel(turn_detection=detection)
    assert "turn_detection" not in changed(now, before, ends_turns=False, event_id="e").session


def test_what_only_the_model_knows_goes_along_when_it_is_another() -> None:
    before = ReconfigureModel(extra_body={"native_duplex": True, "x": 1})
    now = ReconfigureModel(extra_body={"native_duplex": True, "x": 1.5, "return_stage_metrics": True})
    update = changed(now, before, ends_turns=True, event_id="e")
    assert update.session["extra_body"] == {"x": 1.5, "return_stage_metrics": True}
    assert "extra_body" not in changed(now, now, ends_turns=True, event_id="e").session


def test_audio_goes_in_the_server_s_format_with_the_verdicts_there_are() -> None:
    command = append(FLOATS, "pcm16", is_speech=None, force_listen=False, event_id="e")
    assert np.frombuffer(command.audio, "<i2").tolist() == [16_384, -16_384]
    said = json.loads(encode_command(command))
    assert {"is_speech", "force_listen"}.isdisjoint(said)
    raw = append(FLOATS + b"x", "pcm_f32le", is_speech=True, force_listen=True, event_id="e")
    assert (raw.audio, raw.is_speech, raw.force_listen) == (FLOATS, True, True)


def test_an_answer_is_asked_for_with_what_it_overrides() -> None:
    request = Generate(epoch=0, response_id="r", history=(), modalities=("text",), temperature=0.5, tools=())
    command = asking(request, "e")
    assert command.response == {"modalities": ["text"], "temperature": 0.5, "tools": []}
    assert decode_command(encode_command(command)) == command


def typed(name: str, role: str = "user", *, spoken: bool = False) -> HistoryItem:
    return HistoryItem(item_id=name, role=role, text=name, spoken=spoken)


@pytest.mark.parametrize(
    ("told", "new"),
    [(None, ["a", "d", "e"]), ("c", ["d", "e"]), ("e", []), ("deleted", ["d", "e"])],
)
def test_only_what_was_typed_since_is_told(told: str | None, new: list[str]) -> None:
    history = [typed("a"), typed("b", spoken=True), typed("c", "assistant"), typed("d", "system"), typed("e")]
    assert [item.item.id for item in untold(history, told)] == new
