"""Facts lie in the log as MessagePack maps and come back as they were."""

from __future__ import annotations

import msgpack
import msgspec
import pytest

from duplex_es.session.events import FACTS, AudioAppended, SessionOpened, SpeechStarted
from duplex_es.session.facts import LogCorrupt, pack_fact, unpack_facts
from tests.session.cast import eager

pytestmark = pytest.mark.unit


def test_a_fact_is_a_map_that_names_itself_and_leaves_out_what_is_usual() -> None:
    packed = pack_fact(AudioAppended(samples=320, rate_hz=16_000))
    assert msgpack.unpackb(bytes(packed)) == {"fact": "AudioAppended", "samples": 320, "rate_hz": 16_000}


def test_facts_come_back_in_order_and_equal() -> None:
    facts = [SpeechStarted(item_id="a", start_ms=5), AudioAppended(samples=1, rate_hz=8_000, hint="ünï")]
    assert list(unpack_facts(map(pack_fact, facts))) == facts


def test_the_settings_and_the_card_of_a_model_survive_the_log() -> None:
    session = eager(tools=[{"name": "f", "parameters": {"a": [1, None, 2.5]}}], metadata={"k": [True]}).session
    assert session.info is not None
    opened = SessionOpened(session_id="s1", incarnation=0, info=session.info, settings=session.settings)
    assert list(unpack_facts([pack_fact(opened)])) == [opened]


@pytest.mark.parametrize("packed", [{"fact": "FromTheFuture"}, {"fact": "AudioAppended"}, {}, [1], "x"])
def test_a_fact_this_build_does_not_know_is_an_error_never_a_guess(packed: object) -> None:
    with pytest.raises(LogCorrupt):
        list(unpack_facts([msgspec.Raw(msgspec.msgpack.encode(packed))]))


def test_a_damaged_fact_is_an_error() -> None:
    with pytest.raises(LogCorrupt):
        list(unpack_facts([msgspec.Raw(b"\xc1\xff")]))


def test_what_a_newer_build_added_to_a_fact_is_passed_over() -> None:
    newer = msgspec.msgpack.encode({"fact": "SpeechStarted", "item_id": "a", "start_ms": 5, "loudness": 0.5})
    assert list(unpack_facts([msgspec.Raw(newer)])) == [SpeechStarted(item_id="a", start_ms=5)]


def test_every_fact_has_a_name_of_its_own() -> None:
    assert len(FACTS) == len({kind.__struct_config__.tag for kind in FACTS.values()})
    assert all(name == kind.__struct_config__.tag for name, kind in FACTS.items())
