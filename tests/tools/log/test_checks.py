"""Planted corruptions: each is found, and named by its rule and its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from duplex_es.log.api import Entry, EntryId, Head
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.notes import Note
from duplex_es.reading.source import LiveSource
from duplex_es.tools.log.checks import RULES, Violated, check_session
from tests.support.call_files import RECORDING
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit

Streams = dict[str, Any]


class Tampered:
    """The recording with its entries in lists that a test may change."""

    name = "a tampered log"

    def __init__(self) -> None:
        with FileSource(RECORDING) as source:
            self.head: Head = source.head
            self.streams: dict[str, list[Entry]] = {name: list(source.entries(name)) for name in ("input", "output")}
            (note,) = (one for one in source.notes if one.kind == "snapshots")
            self.kept = [tuple(one) for one in source._block(0, note.offset, "snapshots")]

    async def sessions(self) -> list[Head]:
        return [self.head]

    async def find(self, session: str | None) -> Head:
        return self.head

    async def input(self, head: Head, after: object = None, *, audio: bool = False) -> Any:
        for entry in self.streams["input"]:
            yield entry

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> Any:
        for entry in self.streams["output"]:
            yield entry

    async def snapshots(self, head: Head) -> Any:
        return self.kept

    async def notes_on(self, session_id: str) -> list[Note]:
        return []

    async def broken(self, head: Head) -> str | None:
        return None

    def seq_of(self, kind: str) -> int:
        """The first seq that shows a frame of this type."""
        bodies = [msgpack.unpackb(entry.body) for entry in self.streams["output"]]
        return next(at for at, body in enumerate(bodies) if body["frame"]["type"] == kind) + 1

    def rewrite(self, stream: str, at: int, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the body of entry ``at`` (from 0)."""
        entry = self.streams[stream][at]
        body = msgpack.unpackb(entry.body)
        change(body)
        self.streams[stream][at] = Entry(entry.id, msgpack.packb(body), entry.audio)


def lose_a_record(log: Tampered) -> None:
    del log.streams["output"][9]


def write_as_an_old_claim(log: Tampered) -> None:
    entry = log.streams["output"][-1]
    log.streams["output"][-1] = Entry(EntryId(1, entry.id.number), entry.body, entry.audio)


def skip_an_input(log: Tampered) -> None:
    del log.streams["input"][3]


def scramble_a_record(log: Tampered) -> None:
    entry = log.streams["output"][4]
    log.streams["output"][4] = Entry(entry.id, entry.body[:-3])


def count_a_decision_wrong(log: Tampered) -> None:
    log.rewrite("output", 4, lambda body: body.update(more=body["more"] + 1))


def go_back_in_the_input(log: Tampered) -> None:
    log.rewrite("output", -1, lambda body: body.update(consumed="1-1"))


def consume_what_is_not_there(log: Tampered) -> None:
    log.rewrite("output", -1, lambda body: body.update(consumed="2-900"))


def change_a_word(log: Tampered) -> None:
    at = log.seq_of("conversation.item.input_audio_transcription.completed") - 1
    log.rewrite("output", at, lambda body: body["frame"].update(transcript="How is the leather?"))


def change_a_fact(log: Tampered) -> None:
    log.rewrite("output", 6, lambda body: body["facts"][0].update(transcript="How is the leather?"))


def cut_some_sound(log: Tampered) -> None:
    at = log.seq_of("response.output_audio.delta") - 1
    entry = log.streams["output"][at]
    assert entry.audio
    log.streams["output"][at] = Entry(entry.id, entry.body, entry.audio[:-2])


def put_sound_beside_a_commit(log: Tampered) -> None:
    entry = next(e for e in log.streams["input"] if b"input_audio_buffer.commit" in e.body)
    at = log.streams["input"].index(entry)
    log.streams["input"][at] = Entry(entry.id, entry.body, b"\0\0")


def keep_another_snapshot(log: Tampered) -> None:
    seq, packed = log.kept[-1]
    plain = msgpack.unpackb(packed)
    plain["session"]["session"]["epoch"] = 77
    log.kept[-1] = (seq, msgpack.packb(plain))


def cut_the_end(log: Tampered) -> None:
    del log.streams["output"][-4:]


CORRUPTIONS: list[tuple[Callable[[Tampered], None], str, str]] = [
    (lose_a_record, "seqs", "output 1-11"),
    (write_as_an_old_claim, "claims", "output 1-174"),
    (skip_an_input, "input-ids", "input 1-4"),
    (scramble_a_record, "output-record", "output 1-5"),
    (count_a_decision_wrong, "decisions", "output 1-5"),
    (go_back_in_the_input, "consumed", "output 2-174"),
    (consume_what_is_not_there, "consumed", "output 2-174"),
    (change_a_word, "projection", "output 1-7"),
    (change_a_fact, "projection", "output 1-7"),
    (cut_some_sound, "audio", "output 1-15"),
    (put_sound_beside_a_commit, "input-record", "input 1-12"),
    (keep_another_snapshot, "snapshots", "the snapshot after seq"),
    (cut_the_end, "seqs", "output 2-170"),
]


async def test_an_untouched_recording_holds() -> None:
    log = Tampered()
    findings = await check_session(log, log.head)
    assert (findings.input_records, findings.output_records, findings.answers) == (32, 174, 3)
    assert findings.snapshots and not findings.notes and not findings.expired_audio


@pytest.mark.parametrize(("corrupt", "rule", "where"), CORRUPTIONS, ids=lambda one: getattr(one, "__name__", None))
async def test_a_planted_corruption_is_found_and_named(
    corrupt: Callable[[Tampered], None], rule: str, where: str
) -> None:
    log = Tampered()
    corrupt(log)
    with pytest.raises(Violated) as found:
        await check_session(log, log.head)
    assert found.value.rule in RULES
    assert (found.value.rule, found.value.where[: len(where)]) == (rule, where)


async def test_a_store_that_still_has_the_call_holds_too() -> None:
    log = MemoryLog()
    await record_call(log)
    source = LiveSource(log, "memory://")
    findings = await check_session(source, await source.find("call-1"))
    assert findings.answers == 3
