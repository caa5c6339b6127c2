"""The driver's calls, against a driver that only takes notes: there is no device here."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.support.fake_driver import FakeDriver
from workers.engine.holding_cuda import WHOLE_BYTES, DeviceFailed, Driver

pytestmark = pytest.mark.unit


def test_memory_is_taken_whole_cleared_and_handed_on_by_its_ticket() -> None:
    library = FakeDriver()
    owner, other = Driver(1, library), Driver(1, library)
    address = owner.take(WHOLE_BYTES + 1)
    assert library.taken == {address: 2 * WHOLE_BYTES}
    assert [name for name, *_ in library.calls[-3:]] == ["cuMemAlloc_v2", "cuMemsetD8_v2", "cuCtxSynchronize"]
    ticket = owner.ticket(address)
    assert len(ticket) == 64
    assert other.open(ticket) == address + FakeDriver.ELSEWHERE
    owner.give_back(address)
    assert not library.taken


def test_it_works_in_the_context_that_the_libraries_of_its_process_share() -> None:
    library = FakeDriver()
    Driver(3, library)
    assert [name for name, *_ in library.calls] == [
        "cuInit",
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
    ]
    assert library.calls[1][2] == 3


def test_what_the_driver_will_not_do_is_told_in_its_own_words() -> None:
    library = FakeDriver(room=0)
    with pytest.raises(DeviceFailed, match=r"cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY \(2\)"):
        Driver(0, library).take(1)


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(DeviceFailed, match=r"libcuda\.so\.1 cannot be loaded"):
        Driver(0)
