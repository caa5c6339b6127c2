"""Keys, tags and slots."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from pathlib import Path

import pytest

from duplex_es.log import keys
from duplex_es.log.api import SessionRef
from duplex_es.log.keys import SessionKeys
from duplex_es.log.scripts import load_scripts

pytestmark = pytest.mark.unit

REF = SessionRef("sess_demo_01", 2)


def test_slots_are_those_of_redis() -> None:
    # From the cluster specification: CRC16 of "123456789" is 0x31C3; only the tag counts where there is one.
    assert keys.slot("123456789") == 0x31C3
    assert keys.slot("{user1000}.following") == keys.slot("user1000") == keys.slot("x{user1000}{y}")
    assert keys.slot("foo{}{bar}") != keys.slot("bar")


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 6, 8, 12, 16])
def test_partitions_are_spread_evenly_over_any_number_of_nodes(nodes: int) -> None:
    # Redis splits the slots into ranges of equal size, up to one.
    share = [keys.slot(tag) * nodes // keys.SLOTS for tag in keys.TAGS]
    counts = Counter(share)
    assert len(counts) == nodes
    assert max(counts.values()) - min(counts.values()) <= 1


def test_each_partition_lies_in_its_own_64_slots() -> None:
    assert [keys.slot(tag) // 64 for tag in keys.TAGS] == list(range(keys.PARTITIONS))


def test_sessions_are_spread_over_partitions() -> None:
    counts = Counter(keys.partition_of(uuid.UUID(int=n).hex) for n in range(25_600))
    assert len(counts) == keys.PARTITIONS
    assert max(counts.values()) < 160


def test_the_partition_of_a_session_never_changes() -> None:
    # Part of the format: another answer here loses every stored session.
    assert [keys.partition_of(name) for name in ("", "s", "sess_demo_01", "ümlaut")] == [46, 197, 23, 137]
    assert keys.TAGS[0] == "{p0008d}"
    assert keys.TAGS[255] == "{p255gv}"


def test_everything_of_a_session_shares_a_slot() -> None:
    session = SessionKeys.of(REF)
    everything = [
        session.head,
        session.input.records,
        session.input.audio,
        session.input.channel,
        session.output.records,
        session.output.audio,
        session.output.channel,
        session.snap,
        session.sessions,
        session.ready("a model {with} braces"),
    ]
    assert len({keys.slot(key) for key in everything}) == 1
    assert session.head == keys.head(REF.session_id)


def test_no_two_sessions_share_a_key() -> None:
    refs = [SessionRef(name, inc) for name in ("a", "a:1", "a:1:1", "{a}", "") for inc in (0, 1, 11)]
    named = [key for ref in refs for key in (SessionKeys.of(ref).input.records, SessionKeys.of(ref).snap)]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("name", ["s", "a:1", "", "ümlaut", "{x}"])
def test_a_member_reads_back(name: str) -> None:
    ref = SessionRef(name, 12)
    assert keys.parse_member(keys.member(ref)) == ref


def test_the_fleet_shares_a_slot() -> None:
    assert len({keys.slot(key) for key in (keys.WORKERS, keys.PING, keys.card("worker-1"))}) == 1


def test_the_reference_page_names_every_key() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "redis-keys.md").read_text()
    session = SessionKeys.of(SessionRef("<id>", 0))
    tag = keys.TAGS[session.partition]
    named = [
        keys.READY_CHANNEL,
        keys.WORKERS,
        keys.PING,
        keys.card("<worker>"),
        keys.probe_channel("<random>"),
        session.head,
        session.input.records,
        session.input.audio,
        session.output.records,
        session.output.audio,
        session.snap,
        session.sessions,
        session.ready("<model>"),
        keys.marker(session.partition),
    ]
    assert f"`{keys.TAGS[17]}`" in page
    for key in named:
        written = key.replace(tag, "{tag}")
        written = written.removesuffix(":0") + ":<n>" if written.endswith("<id>:0") else written
        assert f"`{written}`" in page, written


def test_the_reference_page_names_every_field_of_the_head() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "redis-keys.md").read_text()
    texts = "".join(script.text for script in load_scripts().values())
    fields: dict[str, set[str]] = {}
    for kept in ("head", "snap"):
        written = " ".join(re.findall(rf"'HSET', {kept},(.*?)\)(?: end)?\n", texts, re.DOTALL))
        fields[kept] = set(re.findall(r"'([a-z_]+)',", written))
    assert {"incarnation", "claims", "nonce", "doubt_seq", "silenced", "left_ms"} <= fields["head"]
    assert {"current", "snapshot", "older", "trimmed"} <= fields["snap"]
    for name in fields["head"] | fields["snap"]:
        assert f"`{name}`" in page, name
