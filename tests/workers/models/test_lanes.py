"""The flags of the two lanes."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from duplex_es.protocol.objects import Capabilities
from workers.models.lanes import CHAT, NATIVE, native

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("lane", [CHAT, NATIVE])
def test_a_lane_has_an_opinion_on_every_flag(lane: Capabilities) -> None:
    assert [name for name in lane.__struct_fields__ if getattr(lane, name) is UNSET] == []
    assert set(msgspec.to_builtins(lane)) == set(Capabilities.__struct_fields__)


def test_a_native_model_differs_where_it_says_so() -> None:
    changed = native(supports_barge_in=True, chunk_period_ms=1000)
    assert (changed.supports_barge_in, changed.chunk_period_ms) == (True, 1000)
    assert msgspec.structs.replace(changed, supports_barge_in=False, chunk_period_ms=80) == NATIVE
