"""What travels on a session's channels: one line of text, then raw bytes. Lua writes the same by concatenation.

    r <id> <body bytes> <audio bytes or ->\\n<body><audio>    a record
    p <id>\\n                                                 a record too large to carry: read it from the log
    o \\n<opening>                                            the session was opened
    a <generation>\\n                                         a socket attached
    z \\n<reason>                                             the session is closed
"""

from __future__ import annotations

from .api import AttachmentRaised, Ended, Entry, EntryId, Notice, Opened, Record


def encode_record(entry_id: str, record: Record, pointer_above_bytes: int) -> bytes:
    """The notification of one record."""
    body, audio = record.body, record.audio
    if audio is None:
        if len(body) > pointer_above_bytes:
            return b"p %b\n" % entry_id.encode()
        return b"r %b %d -\n%b" % (entry_id.encode(), len(body), body)
    if len(body) + len(audio) > pointer_above_bytes:
        return b"p %b\n" % entry_id.encode()
    return b"r %b %d %d\n%b%b" % (entry_id.encode(), len(body), len(audio), body, audio)


def decode(data: bytes) -> Entry | EntryId | Notice:
    """An entry, the id of one to read, or a notice. Raises: ValueError for anything else."""
    end = data.index(b"\n")
    kind, *fields = data[:end].split(b" ")
    rest = end + 1
    if kind == b"r":
        split = rest + int(fields[1])
        audio = None if fields[2] == b"-" else data[split:]
        return Entry(EntryId.parse(fields[0]), data[rest:split], audio)
    if kind == b"p":
        return EntryId.parse(fields[0])
    if kind == b"o":
        return Opened(data[rest:])
    if kind == b"a":
        return AttachmentRaised(int(fields[0]))
    if kind == b"z":
        return Ended(data[rest:].decode())
    raise ValueError(f"unknown notification {data[:40]!r}")
