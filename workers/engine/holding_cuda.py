"""Memory on a GPU that several processes see: the few calls of the driver that it takes.

The driver's own interface and not a library's allocator: what is taken here is one allocation each, never a part of
one, and nothing but this process decides when it goes.
"""

from __future__ import annotations

import ctypes
from typing import Any

DRIVER = "libcuda.so.1"
TICKET_BYTES = 64
WHOLE_BYTES = 2 << 20
"""The driver puts smaller pieces into one page of this size, and another process would be given all of that."""
_LAZY_PEERS = 1


class DeviceFailed(RuntimeError):
    """The driver would not; the message says what it was asked and its own name for why."""


class Ticket(ctypes.Structure):
    """What the driver gives for one allocation, and takes in another process."""

    _fields_ = (("bytes", ctypes.c_ubyte * TICKET_BYTES),)


class Driver:
    """One device in this process, in the context that every library here shares. Raises: DeviceFailed."""

    def __init__(self, ordinal: int, library: Any = None) -> None:
        try:
            self._library = library or ctypes.CDLL(DRIVER)
        except OSError as error:
            raise DeviceFailed(f"{DRIVER} cannot be loaded: {error}") from error
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def take(self, size: int) -> int:
        """The address of ``size`` bytes of zeros, to be given to others."""
        address = ctypes.c_uint64()
        whole = -(-size // WHOLE_BYTES) * WHOLE_BYTES
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(whole))
        self._call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(whole))
        # The next process must not see what was there before.
        self._call("cuCtxSynchronize")
        return address.value

    def ticket(self, address: int) -> bytes:
        """What another process needs to ``open`` it. Nobody keeps count: it goes when it is given back here."""
        found = Ticket()
        self._call("cuIpcGetMemHandle", ctypes.byref(found), ctypes.c_uint64(address))
        return bytes(found.bytes)

    def open(self, ticket: bytes) -> int:
        """The address here of what another process took. It stays until this process ends."""
        address = ctypes.c_uint64()
        given = Ticket.from_buffer_copy(ticket)
        self._call("cuIpcOpenMemHandle_v2", ctypes.byref(address), given, ctypes.c_uint(_LAZY_PEERS))
        return address.value

    def give_back(self, address: int) -> None:
        """Free what ``take`` gave; whoever has it open must be gone."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            said = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(said))
            raise DeviceFailed(f"{name}: {(said.value or b'an error without a name').decode()} ({status})")
