"""The map of slots: read from one node's answers, put together from several that may contradict each other."""

from __future__ import annotations

import pytest

from duplex_es.log import keys
from duplex_es.log.slots import USED_SLOTS, SlotRange, key_of, merged, read_view

pytestmark = pytest.mark.unit

A, B, C = ("10.0.0.1", 7000), ("10.0.0.2", 7000), ("10.0.0.3", 7000)
NODES = b"""aaa 10.0.0.1:7000@17000,host-a myself,master - 0 0 5 connected 0-8191
bbb 10.0.0.2:7000@17000 master - 0 1 9 connected 8192-16383 [12->-aaa]
ccc 10.0.0.3:7000@17000 slave bbb 0 1 9 connected
"""


def test_a_view_is_read_with_its_epochs() -> None:
    slots = [
        [0, 8191, [b"10.0.0.1", 7000, b"aaa", [b"hostname", b"host-a"]]],
        [8192, 16383, [b"10.0.0.2", 7000, b"bbb", []], [b"10.0.0.3", 7000, b"ccc", []]],
    ]
    assert read_view(slots, NODES, A) == [SlotRange(0, 8191, A, (), 5), SlotRange(8192, 16383, B, (C,), 9)]


@pytest.mark.parametrize("unknown", [None, b"", b"?"])
def test_a_node_that_does_not_know_its_name_is_where_it_was_reached(unknown: bytes | None) -> None:
    assert read_view([[0, 16383, [unknown, 7001, b"aaa"]]], NODES, A) == [SlotRange(0, 16383, (A[0], 7001), (), 5)]


def test_where_cluster_nodes_is_refused_there_are_no_epochs() -> None:
    assert read_view([[0, 16383, [b"10.0.0.1", 7000, b"aaa"]]], Exception("no permission"), A)[0].epoch == 0


def test_the_map_covers_everything_of_ours() -> None:
    found = merged([[SlotRange(0, 8191, A), SlotRange(8192, 16383, B)]])
    assert found.keys() == USED_SLOTS
    assert all(found[slot] == (A if slot < 8192 else B) for slot in found)
    assert keys.FLEET_SLOT in found and set(keys.PARTITION_SLOTS) <= found.keys()
    assert merged([]) == {}


def test_of_contradicting_views_the_newer_epoch_counts_slot_by_slot() -> None:
    before = [SlotRange(0, 8191, A, epoch=1), SlotRange(8192, 16383, B, epoch=2)]
    after = [SlotRange(0, 4095, A, epoch=1), SlotRange(4096, 16383, C, epoch=3)]
    for views in ([before, after], [after, before], [before, after, before]):
        found = merged(views)
        assert all(found[slot] == (A if slot < 4096 else C) for slot in found)


def test_a_slot_that_nobody_serves_is_left_out() -> None:
    found = merged([[SlotRange(0, 99, A)]])
    assert found.keys() == {slot for slot in USED_SLOTS if slot < 100}


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("XADD", "dx:s", "1-1", "m", b""), "dx:s"),
        (("GET", b"dx:s"), "dx:s"),
        (("FCALL", "dx_look", 2, "dx:h", "dx:i"), "dx:h"),
        (("EVALSHA", "f00", 1, "dx:h"), "dx:h"),
        (("EVALSHA", "f00", 0, "not a key"), None),
        (("XINFO", "STREAM", "dx:s"), "dx:s"),
        (("TIME",), None),
        (("FUNCTION", "LOAD", "code"), None),
        (("PUBSUB", "NUMSUB", "c"), None),
    ],
)
def test_the_key_of_a_command_says_where_it_belongs(command: tuple[str | bytes | int, ...], key: str | None) -> None:
    assert key_of(command) == key
