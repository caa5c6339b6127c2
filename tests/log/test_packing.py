"""What the log packs can be read with the plain msgpack package."""

from __future__ import annotations

import msgpack
import pytest

from duplex_es.log.api import WorkerCard
from duplex_es.log.packing import claim_record, pack_card, unpack_card

pytestmark = pytest.mark.unit

CARD = WorkerCard(worker="w-1", models={"echo": b"\x00\xff"}, slots=4, used=1)


def test_a_card_reads_back_and_is_a_plain_map() -> None:
    assert unpack_card(pack_card(CARD)) == CARD
    assert msgpack.unpackb(pack_card(CARD)) == {"worker": "w-1", "models": {"echo": b"\x00\xff"}, "slots": 4, "used": 1}


def test_fields_that_a_newer_worker_added_are_ignored() -> None:
    newer = msgpack.packb({**msgpack.unpackb(pack_card(CARD)), "region": "eu"})
    assert unpack_card(newer) == CARD


def test_a_claim_says_who_and_when() -> None:
    record = msgpack.unpackb(claim_record("w-1", "echo"))
    assert record["v"] == 1
    assert record["claimed"] == {"worker": "w-1", "model": "echo"}
    assert record["at_ms"] > 1_700_000_000_000
