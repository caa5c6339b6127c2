"""The card comes from the server at load, and opening failures have the wire's codes."""

from __future__ import annotations

import pytest

from duplex_es.model import CloseModel, ModelRefused, OpenModel
from tests.support.realtime_backend import realtime_backend
from workers.models.bridge import BridgeModel
from workers.models.echo import EchoModel

pytestmark = pytest.mark.unit

OPEN = OpenModel(session_id="s", incarnation=0, epoch=0)


@pytest.mark.parametrize("options", [{"preset": "x"}, {"url": "http://a"}, {"urls": "ws://a"}], ids=str)
def test_impossible_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="model vllm-omni"):
        BridgeModel(options)


async def test_an_address_is_needed() -> None:
    with pytest.raises(RuntimeError, match="option url is missing"):
        await BridgeModel({}).load()


async def test_the_card_is_what_the_server_says() -> None:
    async with realtime_backend(EchoModel({})) as there:
        model = BridgeModel({"url": there.url(), "name": "far"})
        await model.load()
    assert (model.info.name, model.info.capabilities.chunk_period_ms) == ("far", 20)
    assert model.info.capabilities.supports_audio_truncate is True


async def test_a_server_that_is_away_at_load_leaves_the_row_and_refuses_sessions() -> None:
    model = BridgeModel({"url": "ws://127.0.0.1:9", "preset": "minicpmo_4_5"})
    await model.load()
    assert model.info.capabilities.chunk_period_ms == 1000
    with pytest.raises(ModelRefused) as refused:
        await model.open(OPEN, lambda signal: None)
    assert refused.value.code == "runtime_open_failed"


async def test_busy_servers_are_an_admission_error() -> None:
    async with realtime_backend(EchoModel({})) as there:
        model = BridgeModel({"url": there.url(), "sessions": "1"})
        await model.load()
        session = await model.open(OPEN, lambda signal: None)
        with pytest.raises(ModelRefused) as refused:
            await model.open(OPEN, lambda signal: None)
        await session.perform(CloseModel())
        assert refused.value.code == "resource_exhausted"
        again = await model.open(OPEN, lambda signal: None)
        await again.perform(CloseModel())


async def test_settings_that_the_server_refuses_are_refused_with_its_code() -> None:
    async with realtime_backend(EchoModel({})) as there:
        model = BridgeModel({"url": there.url()})
        await model.load()
        wrong = OpenModel(session_id="s", incarnation=0, epoch=0, turn_detection={"type": "guess"})
        with pytest.raises(ModelRefused) as refused:
            await model.open(wrong, lambda signal: None)
    assert (refused.value.code, refused.value.param) == ("unsupported_turn_detection", "turn_detection")
