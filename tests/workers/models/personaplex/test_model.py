"""What the model says of itself and what it refuses; without weights and without torch."""

from __future__ import annotations

import json

import msgspec
import pytest

from duplex_es.model import ModelRefused, OpenModel
from workers.models.cards import PERSONAPLEX
from workers.models.personaplex import PLUGIN
from workers.models.personaplex.model import FACTORY
from workers.neural.personaplex.options import NAME

pytestmark = pytest.mark.unit

OPTIONS = {"weights": "random"}


def opening(**more: object) -> OpenModel:
    return msgspec.structs.replace(OpenModel(session_id="s", incarnation=0, epoch=0), **more)


def test_its_card_is_the_published_one_and_it_can_be_resumed() -> None:
    info = PLUGIN(OPTIONS).info
    published = PERSONAPLEX.info
    assert info.name == published.name == NAME
    resumable = msgspec.structs.replace(published.capabilities, supports_session_resume=True)
    assert info.capabilities == resumable
    assert (info.input_rate_hz, info.output_rate_hz) == (24_000, 24_000)
    assert (info.private_keys, info.fixed_settings) == (published.private_keys, published.fixed_settings)
    # Two windows of 3000 frames, 38 bytes each.
    assert info.memory_bytes == 228_000
    assert PLUGIN({**OPTIONS, "window_frames": "750"}).info.memory_bytes == 57_000


def test_it_has_the_voices_it_came_with_and_private_keys_are_private() -> None:
    refuse = PLUGIN(OPTIONS)._refuse
    for voice in (None, "NATF2.pt", "NATM3.pt", "VARF4.pt", "VARM0.pt"):
        refuse(opening(voice=voice))
    for bad in ("alloy", "NATF4.pt", "../NATF2.pt", ""):
        with pytest.raises(ModelRefused) as refused:
            refuse(opening(voice=bad))
        assert (refused.value.code, refused.value.param) == ("invalid_duplex_runtime_config", "session.voice")
    with pytest.raises(ModelRefused) as refused:
        refuse(opening(extra_body={"personaplex_model_path": "/etc"}))
    assert refused.value.param == "session.extra_body.personaplex_model_path"


@pytest.mark.parametrize(
    ("options", "fault"),
    [({}, "weights is missing"), ({"weights": "random", "voices": "x"}, "option voices is unknown; there are")],
)
def test_options_are_refused_before_a_process_is_started(options: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        PLUGIN(options)


def test_the_interpreter_is_the_workers_to_know_and_all_else_the_engines() -> None:
    model = PLUGIN({**OPTIONS, "python": "/opt/torch/bin/python", "kv": "int8"})
    assert model.engine._python == "/opt/torch/bin/python"
    factory, options = model.engine.starter._arguments
    assert (factory, json.loads(options)) == (FACTORY, {"weights": "random", "kv": "int8"})


def test_an_interruption_restarts_the_context_unless_told_to_rewind_it() -> None:
    assert PLUGIN(OPTIONS)._manner.silenced is None
    assert PLUGIN({**OPTIONS, "cancel": "rewind"})._manner.silenced is not None
    with pytest.raises(ValueError, match="option cancel is 'forget'; it is restart or rewind"):
        PLUGIN({**OPTIONS, "cancel": "forget"})
