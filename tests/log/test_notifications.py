"""What travels on channels reads back, whoever wrote it."""

from __future__ import annotations

import pytest

from duplex_es.log.api import AttachmentRaised, Ended, Entry, EntryId, Opened, Record
from duplex_es.log.notifications import decode, encode_record

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "record",
    [
        Record(b""),
        Record(b"body"),
        Record(b"line\nbreaks \n\n", b"\n\x00\xff pcm\n"),
        Record(b"", b""),
        Record(b"x" * 1000, b"y" * 1000),
    ],
)
def test_a_record_reads_back(record: Record) -> None:
    found = decode(encode_record("7-41", record, 32_768))
    assert found == Entry(EntryId(7, 41), record.body, record.audio)


@pytest.mark.parametrize("record", [Record(b"x" * 101), Record(b"x" * 51, b"y" * 50), Record(b"", b"y" * 101)])
def test_a_large_record_is_only_pointed_at(record: Record) -> None:
    assert decode(encode_record("7-41", record, 100)) == EntryId(7, 41)
    assert isinstance(decode(encode_record("7-41", record, 101)), Entry)


def test_notices_as_the_scripts_write_them() -> None:
    assert decode(b"o \n\x00opening\n") == Opened(b"\x00opening\n")
    assert decode(b"o \n") == Opened(b"")
    assert decode(b"a 12\n") == AttachmentRaised(12)
    assert decode(b"z \nidle\n timeout") == Ended("idle\n timeout")
    assert decode(b"r 2-0 5 -\nclaim") == Entry(EntryId(2, 0), b"claim")


@pytest.mark.parametrize("data", [b"", b"x 1\n", b"hello", b"r 1-1\n", b"r a-b 1 -\nx", b"a x\n", b"\n"])
def test_what_nobody_of_ours_wrote_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        decode(data)
