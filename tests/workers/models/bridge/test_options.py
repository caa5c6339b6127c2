"""Options that cannot work are refused by name."""

from __future__ import annotations

import pytest

from workers.models.bridge.options import BridgeOptions

pytestmark = pytest.mark.unit


def test_addresses_are_separated_by_commas() -> None:
    assert BridgeOptions(url="ws://a/v1/realtime, wss://b,").urls == ("ws://a/v1/realtime", "wss://b")
    assert BridgeOptions().urls == ()


@pytest.mark.parametrize(
    ("options", "part"), [({"preset": "gpt"}, "preset"), ({"url": "ws://a,http://b"}, "http://b")], ids=str
)
def test_what_cannot_work_is_said(options: dict[str, str], part: str) -> None:
    complaint = BridgeOptions(**options).complaint()
    assert complaint is not None
    assert part in complaint


def test_what_can_work_is_not_complained_of() -> None:
    assert BridgeOptions(url="ws://a", preset="personaplex").complaint() is None
