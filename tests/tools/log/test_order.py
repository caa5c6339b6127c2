"""The order of an answer's frames."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from duplex_es.protocol import Frame, wire_name
from duplex_es.protocol.records import unpack_output
from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.log.order import OrderBroken, OrderChecker
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


def frames() -> list[Frame]:
    with FileSource(RECORDING) as source:
        return [unpack_output(entry.body).frame for entry in source.entries("output")]  # type: ignore[misc]


def at(kind: str, shown: list[Frame]) -> int:
    return next(place for place, frame in enumerate(shown) if wire_name(frame) == kind)


def without(kind: str) -> Callable[[list[Frame]], None]:
    def change(shown: list[Frame]) -> None:
        del shown[at(kind, shown)]

    return change


def twice(kind: str) -> Callable[[list[Frame]], None]:
    def change(shown: list[Frame]) -> None:
        place = at(kind, shown)
        shown.insert(place, shown[place])

    return change


def late(kind: str) -> Callable[[list[Frame]], None]:
    def change(shown: list[Frame]) -> None:
        place = at(kind, shown)
        shown[place], shown[place + 1] = shown[place + 1], shown[place]

    return change


def test_a_recorded_call_is_in_order() -> None:
    checker = OrderChecker()
    for frame in frames():
        checker.take(frame)
    assert len(checker.done) == 3 and not checker.open


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (without("response.created"), "comes before all else"),
        (twice("response.created"), "comes once"),
        (without("response.output_item.added"), "is announced before"),
        (without("response.output_audio_transcript.delta"), "follows each audio delta"),
        (late("response.output_audio.done"), "too late or twice"),
        (twice("response.output_item.done"), "too late or twice"),
        (twice("response.done"), "comes right after response.done"),
        (without("rate_limits.updated"), "comes right after response.done|comes once"),
    ],
)
def test_what_is_out_of_order_is_found(change: Callable[[list[Frame]], None], rule: str) -> None:
    shown = frames()
    change(shown)
    checker = OrderChecker()
    with pytest.raises(OrderBroken, match=rule):
        for frame in shown:
            checker.take(frame)
