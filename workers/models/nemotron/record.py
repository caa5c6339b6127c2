"""What a session leaves in its log with every frame: what the engine remembers of it, and where this side stands.

Read from its end, as the log keeps the newest part of it only. Pure.
"""

from __future__ import annotations

import struct

import msgspec

from . import calls, mouth

ROOM_BYTES = 512
"""What a record has beside the engine's part, more or less: 80 bytes mostly, several hundred while much is to be said

or many calls are open. Longer ones, while a call is written, are few.
"""
_SIZES = struct.Struct("<II")


class Standing(msgspec.Struct, array_like=True):
    """Where a session stands after a frame. Other versions read it too: a new field goes to the end, with a default.

    ``turn`` is the number of the open or next answer, ``silent`` how long it has been silent. ``hushed``: what was cut
    is still being written. ``calling`` is the call being written, ``None`` between calls.
    """

    epoch: int = 0
    turn: int = 0
    silent: int = 0
    hushed: int = 0
    calling: str | None = None
    calls: calls.Standing = msgspec.field(default_factory=calls.Standing)
    mouth: mouth.Standing = mouth.Standing()


_PACK = msgspec.msgpack.Encoder()
_STANDING = msgspec.msgpack.Decoder(Standing)


def pack(frames: bytes, standing: Standing) -> bytes:
    """One record: the engine's memory of a frame, where the session stands after it, and the sizes of both."""
    packed = _PACK.encode(standing)
    return b"".join((frames, packed, _SIZES.pack(len(frames), len(packed))))


def unpack(memory: bytes) -> tuple[bytes, Standing | None]:
    """The engine's memory in the whole records of ``memory``, whose beginning may be torn, and the last standing."""
    parts, standing, end = [], None, len(memory)
    while end >= _SIZES.size:
        frames_bytes, standing_bytes = _SIZES.unpack_from(memory, end - _SIZES.size)
        middle = end - _SIZES.size - standing_bytes
        begin = middle - frames_bytes
        if begin < 0:
            break
        if standing is None:
            standing = _STANDING.decode(memory[middle : middle + standing_bytes])
        parts.append(memory[begin:middle])
        end = begin
    return b"".join(reversed(parts)), standing
