"""A session as a ``.dxlog`` file over HTTP, made while it is sent."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

from duplex_es.log.api import Entry, Head
from duplex_es.reading.dxlog import Manifest, Writer
from duplex_es.reading.source import Source

BATCH_BYTES = 500_000


class _Sink(io.RawIOBase):
    """What is written is taken away, and how much that was in all is remembered."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._sent = 0

    def write(self, data: object) -> int:
        written = bytes(data)  # type: ignore[call-overload]
        self._held.append(written)
        self._sent += len(written)
        return len(written)

    def tell(self) -> int:
        return self._sent

    def taken(self) -> bytes:
        """What was written since the last time."""
        held, self._held = self._held, []
        return b"".join(held)


async def exported(source: Source, head: Head) -> AsyncIterator[bytes]:
    """The file of this session, part by part; packing is done in a thread."""
    sink = _Sink()
    writer = Writer(sink, Manifest.now(head))  # type: ignore[arg-type]
    writer.snapshots(await source.snapshots(head))
    for stream, entries in (("input", source.input(head, audio=True)), ("output", source.output(head, audio=True))):
        batch: list[Entry] = []
        size = 0
        async for entry in entries:
            batch.append(entry)
            size += len(entry.body) + len(entry.audio or b"")
            if size >= BATCH_BYTES:
                await asyncio.to_thread(_add, writer, stream, batch)
                batch, size = [], 0
                yield sink.taken()
        await asyncio.to_thread(_add, writer, stream, batch)
    await asyncio.to_thread(writer.finish)
    yield sink.taken()


def _add(writer: Writer, stream: str, batch: list[Entry]) -> None:
    for entry in batch:
        writer.add(stream, entry)
