"""Messages between a worker and its engine: a JSON object, and raw bytes beside it.

The standard library only: the engine's interpreter may have none of our packages.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

_SIZES = struct.Struct("<II")
LARGEST_BYTES = 256 * 1024 * 1024
DEAD = 70
"""The exit status of an engine's process whose device is beyond repair."""

Message = dict[str, Any]


class WireBroken(Exception):
    """What arrived is no message: the other side is not who it should be."""


def pack(message: Message, blob: bytes = b"") -> bytes:
    """One message: the sizes of both parts, the object, the bytes."""
    text = json.dumps(message, separators=(",", ":")).encode()
    return b"".join((_SIZES.pack(len(text), len(blob)), text, blob))


class Unpacker:
    """Takes bytes as they come and gives whole messages back, in order."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Message, bytes]]:
        """The messages that ``data`` completes. Raises: WireBroken."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _SIZES.size:
            text_bytes, blob_bytes = _SIZES.unpack_from(self._buffer, start)
            if text_bytes + blob_bytes > LARGEST_BYTES:
                raise WireBroken(f"a message of {text_bytes + blob_bytes} bytes is announced")
            middle = start + _SIZES.size + text_bytes
            end = middle + blob_bytes
            if len(self._buffer) < end:
                break
            try:
                message = json.loads(self._buffer[start + _SIZES.size : middle])
            except ValueError as error:
                raise WireBroken(str(error)) from error
            yield message, bytes(self._buffer[middle:end])
            start = end
        del self._buffer[:start]
