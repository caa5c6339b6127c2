"""Which card a session gets, and where the client's voice is found again."""

from __future__ import annotations

import msgspec
import pytest

from duplex_es.log.api import EntryId
from duplex_es.log.memory import MemoryLog
from duplex_es.model import ModelInfo
from duplex_es.protocol.objects import Capabilities
from tests.support.calls import Caller
from workers.opening import card_for, find_opening, opening_voice, reference_voice

pytestmark = pytest.mark.unit

CHAT = ModelInfo(name="m", capabilities=Capabilities(implementation_level="serving_session_adapter"))
NATIVE = msgspec.structs.replace(CHAT, capabilities=Capabilities(), without_opt_in=CHAT)


@pytest.mark.parametrize(
    ("settings", "card"),
    [
        ({}, CHAT),
        ({"extra_body": {"native_duplex": True}}, NATIVE),
        ({"extra_body": {"minicpmo45_native_duplex": True}}, NATIVE),
        ({"extra_body": {"native_duplex": False}}, CHAT),
        ({"extra_body": {"native_duplex": "yes"}}, CHAT),
        ({"input_audio_format": "opus"}, NATIVE),
    ],
)
def test_only_a_literal_true_opts_in_to_the_native_lane(settings: dict[str, object], card: ModelInfo) -> None:
    assert card_for(NATIVE, settings) is card


def test_a_model_without_such_a_choice_has_one_card() -> None:
    assert card_for(CHAT, {"extra_body": {"native_duplex": True}}) is CHAT


async def test_the_opening_is_found_again_with_its_voice() -> None:
    log = MemoryLog()
    caller = await Caller.open(log, "m", ref_audio="data:audio/wav;base64,AAAA")
    opening = await find_opening(log, caller.ref)
    assert opening is not None
    assert reference_voice(opening.session) == "data:audio/wav;base64,AAAA"


async def test_an_opening_without_a_voice_has_none() -> None:
    assert reference_voice({}) is None
    assert reference_voice({"ref_audio": ""}) is None
    assert reference_voice({"ref_audio": 5}) is None


async def test_where_there_is_no_opening_none_is_found() -> None:
    log = MemoryLog()
    ref = await log.next_incarnation("s")
    await log.create(ref, model="m", token_digest=b"1", gateway="g", record=b"junk")
    assert await find_opening(log, ref) is None


async def test_the_voice_of_an_opening_is_found_for_as_long_as_the_opening_is_there() -> None:
    log = MemoryLog()
    caller = await Caller.open(log, "m", ref_audio="data:audio/wav;base64,AAAA")
    bare = await Caller.open(log, "m", "bare")
    assert await opening_voice(log, caller.ref) == "data:audio/wav;base64,AAAA"
    assert await opening_voice(log, bare.ref) is None
    claimed = await log.claim("w", ["m"])
    assert claimed is not None and claimed[0].ref == caller.ref
    await log.trim_history(claimed[0], input_before=EntryId(1, 1), output_before=0)
    assert await opening_voice(log, caller.ref) is None
