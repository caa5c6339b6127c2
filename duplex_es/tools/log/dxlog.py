"""See ``duplex_es.reading.dxlog``."""

from ...reading.dxlog import (
    FORMAT,
    MAGIC,
    BlockNote,
    Damaged,
    FileSource,
    HeadRecord,
    Manifest,
    Writer,
    audio_digest,
    link,
)

__all__ = [
    "FORMAT",
    "MAGIC",
    "BlockNote",
    "Damaged",
    "FileSource",
    "HeadRecord",
    "Manifest",
    "Writer",
    "audio_digest",
    "link",
]
