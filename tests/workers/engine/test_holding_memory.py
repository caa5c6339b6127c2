"""Memory that several processes see: on the host for real, on a GPU against a driver that takes notes."""

from __future__ import annotations

import os

import pytest

from tests.support.fake_driver import FakeDriver
from workers.engine.holding_cuda import WHOLE_BYTES, Driver
from workers.engine.holding_memory import NoMemory, Places

pytestmark = pytest.mark.unit


def on_a_gpu(library: FakeDriver) -> Places:
    return Places({0: Driver(0, library)})


def test_what_one_process_writes_on_the_host_another_reads_and_it_is_zero_before() -> None:
    owned = Places().make("cpu", 5000)
    ticket, descriptors = owned.ticket()
    copies = [os.dup(descriptors[0]) for _ in range(2)]
    one, other = (Places().open("cpu", 5000, ticket, [copy]).view() for copy in copies)
    assert one[:] == bytes(5000)
    one[17:20] = b"abc"
    assert other[17:20] == b"abc"
    owned.free()
    assert other[17:20] == b"abc"


def test_a_host_descriptor_is_not_left_open_by_whoever_looks_at_it() -> None:
    owned = Places().make("cpu", 100)
    copy = os.dup(owned.ticket()[1][0])
    Places().open("cpu", 100, "", [copy]).view()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(copy)
    owned.free()


def test_on_a_gpu_the_same_calls_give_an_address_of_the_other_process() -> None:
    library = FakeDriver()
    owned = on_a_gpu(library).make("cuda:0", 5000)
    ticket, descriptors = owned.ticket()
    assert descriptors == []
    seen = on_a_gpu(library).open("cuda:0", 5000, ticket, descriptors).view().__cuda_array_interface__
    (address,) = library.taken
    assert seen["data"] == (address + FakeDriver.ELSEWHERE, False)
    assert (seen["shape"], seen["typestr"], seen["strides"]) == ((5000,), "|u1", None)
    owned.free()
    assert not library.taken


def test_too_little_memory_names_how_much_of_what() -> None:
    with pytest.raises(NoMemory, match=r"6\.0 MB on cuda for windows: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"):
        on_a_gpu(FakeDriver(room=2 * WHOLE_BYTES)).make("cuda", 6_000_000, "windows")
    with pytest.raises(NoMemory, match="cannot be opened"):
        Places().open("cpu", 100, "", [])


@pytest.mark.parametrize("place", ["gpu", "cuda:x", "cuda:-1", ""])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="it is cpu, or cuda:N"):
        Places().make(place, 1)
