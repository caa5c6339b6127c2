"""A piece of memory that outlives the processes that work in it: on the host, or on a GPU.

Whoever owns it makes it, and hands out what another process needs to open it: a ticket, and descriptors that travel
beside it. Both kinds look alike.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any, Protocol

from .holding_cuda import DeviceFailed, Driver

HOST = "cpu"


class NoMemory(MemoryError):
    """It cannot be made, or opened, here; the message says why."""


class Memory(Protocol):
    """``size`` bytes, zeros at first."""

    size: int

    def ticket(self) -> tuple[str, list[int]]:
        """What ``open_memory`` needs in another process."""

    def view(self) -> Any:
        """For the processes that work in it: a buffer, or a ``DeviceView``."""

    def free(self) -> None:
        """Let it go. Nobody may look at it any more."""


class DeviceView:
    """Bytes on a GPU, for whatever understands ``__cuda_array_interface__``."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


class HostMemory:
    """Pages without a file. They are there for as long as anybody has them open."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.size = size
        self._descriptor = descriptor

    def ticket(self) -> tuple[str, list[int]]:
        """See ``Memory``."""
        return "", [self._descriptor]

    def view(self) -> mmap.mmap:
        """See ``Memory``. Takes the descriptor with it: what was seen stays seen."""
        with os.fdopen(self._descriptor, "rb") as file:
            return mmap.mmap(file.fileno(), self.size)

    def free(self) -> None:
        """See ``Memory``."""
        os.close(self._descriptor)


class DeviceMemory:
    """One allocation of a GPU. It is there for as long as the process that made it is, and no longer."""

    def __init__(self, driver: Driver, address: int, size: int) -> None:
        self.size = size
        self._driver, self._address = driver, address

    def ticket(self) -> tuple[str, list[int]]:
        """See ``Memory``."""
        return self._driver.ticket(self._address).hex(), []

    def view(self) -> DeviceView:
        """See ``Memory``."""
        return DeviceView(self._address, self.size)

    def free(self) -> None:
        """See ``Memory``."""
        self._driver.give_back(self._address)


class Places:
    """Where memory can be: ``cpu``, or ``cuda:N``. One for each process; drivers are loaded when first needed."""

    def __init__(self, drivers: dict[int, Driver] | None = None) -> None:
        self._drivers = {} if drivers is None else drivers

    def make(self, place: str, size: int, name: str = "held") -> Memory:
        """Memory that this process owns. Raises: NoMemory, ValueError for a place that is none."""
        ordinal = _ordinal(place)
        try:
            if ordinal is None:
                descriptor = os.memfd_create(name)
                os.ftruncate(descriptor, max(1, size))
                return HostMemory(descriptor, size)
            driver = self._driver(ordinal)
            return DeviceMemory(driver, driver.take(size), size)
        except (OSError, DeviceFailed) as error:
            raise NoMemory(f"{size / 1e6:.1f} MB on {place} for {name}: {error}") from error

    def open(self, place: str, size: int, ticket: str, descriptors: Sequence[int]) -> Memory:
        """Memory that another process owns. Raises: NoMemory."""
        ordinal = _ordinal(place)
        try:
            if ordinal is None:
                return HostMemory(descriptors[0], size)
            driver = self._driver(ordinal)
            return DeviceMemory(driver, driver.open(bytes.fromhex(ticket)), size)
        except (IndexError, DeviceFailed) as error:
            raise NoMemory(f"{size / 1e6:.1f} MB on {place} cannot be opened: {error}") from error

    def _driver(self, ordinal: int) -> Driver:
        if ordinal not in self._drivers:
            self._drivers[ordinal] = Driver(ordinal)
        return self._drivers[ordinal]


def _ordinal(place: str) -> int | None:
    """The number of a GPU; ``None`` for the host. Raises: ValueError."""
    if place == HOST:
        return None
    kind, _, number = place.partition(":")
    if kind != "cuda" or not (number or "0").isdecimal():
        raise ValueError(f"memory on {place!r}; it is {HOST}, or cuda:N")
    return int(number or "0")
