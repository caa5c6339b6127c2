"""The chat model's card and its connection."""

from __future__ import annotations

import pytest

from duplex_es.model import OpenModel
from duplex_es.testing.model_suite import Ear
from tests.support.chat_server import chat_server
from tests.workers.models.chat.test_session import Asked
from workers.models.chat import PLUGIN
from workers.models.lanes import CHAT

pytestmark = pytest.mark.unit


def test_the_card_is_the_chat_lanes_but_for_what_the_log_adds() -> None:
    info = PLUGIN({"name": "Qwen/Qwen3-Omni-30B-A3B-Instruct", "output_rate_hz": "16000"}).info
    assert info.name == "Qwen/Qwen3-Omni-30B-A3B-Instruct"
    assert info.output_rate_hz == 16_000
    assert info.is_chat_lane
    assert info.keeps_audio
    differing = {name for name in CHAT.__struct_fields__ if getattr(info.capabilities, name) != getattr(CHAT, name)}
    assert differing == {"supports_session_resume", "supports_session_lease", "supports_multi_session"}


async def test_without_an_address_it_does_not_load() -> None:
    with pytest.raises(RuntimeError, match="chat_url"):
        await PLUGIN({}).load()


async def test_nothing_is_opened_before_it_is_loaded() -> None:
    with pytest.raises(RuntimeError, match="not loaded"):
        await PLUGIN({"chat_url": "http://x"}).open(OpenModel(session_id="s", incarnation=0, epoch=0), Ear())


@pytest.mark.parametrize(("option", "variable", "sent"), [("k1", None, "Bearer k1"), (None, "k2", "Bearer k2")])
async def test_the_key_comes_from_the_option_or_the_environment(
    option: str | None, variable: str | None, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv("DUPLEX_ES_CHAT_KEY", variable)
    async with chat_server() as server, Asked.of(server, **({"chat_key": option} if option else {})) as asked:
        await asked.caller.ask("Hello?", "text")
        await asked.caller.ear.answered(0)
        assert server.keys == [sent]


@pytest.mark.parametrize("suffix", ["", "/", "/chat/completions"])
async def test_the_address_may_be_the_root_or_the_whole(suffix: str) -> None:
    async with chat_server() as server:
        server.url += suffix
        async with Asked.of(server) as asked:
            await asked.caller.ask("Hello?", "text")
            await asked.caller.ear.answered(0)
            assert server.asked[0]["model"] == "default"
