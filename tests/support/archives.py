"""What tests of the archive share: calls with words and samples that were planted in them, and a place to keep them."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from duplex_es.archive.files import Files
from duplex_es.archive.keystore import KeyStore, key_store
from duplex_es.archive.sealing import OperatorKeys
from duplex_es.archive.source import ArchiveSource
from duplex_es.archive.writing import Archiver
from duplex_es.log.api import START, Entry, Head, Life, SessionLog
from duplex_es.log.keeping import keeping_of
from duplex_es.protocol import CloseSession
from duplex_es.reading.notes import Note
from duplex_es.reading.source import LiveSource
from tests.support.recorded_call import RecordedCall

OPERATOR_KEY = OperatorKeys([bytes(range(32))])
ASKED, ANSWERED = "zirkonfarben", "quetzalfedern"
"""Words that nobody says by chance: the caller's, and the answer's."""
CALLER = "anna-livia-plurabelle"


def script(turns: int, asked: str = ASKED, answered: str = ANSWERED) -> str:
    """Each turn says its own number."""
    return json.dumps(
        [
            {
                "on": "end_turn",
                "transcript": f"tell me about {asked}{turn} please",
                "do": [
                    {"audio_ms": 600, "pace": "fast", "text": f"they are {answered}{turn} of course"},
                    {"finish": True},
                ],
            }
            for turn in range(turns)
        ]
    )


def noise(seed: int, ms: int = 200) -> bytes:
    """Sound that no other seed gives."""
    return np.random.default_rng(seed).integers(-20_000, 20_000, 16 * ms, dtype=np.int16).tobytes()


@dataclass
class Planted:
    """A call whose traces can be looked for. ``samples`` are pieces of what the caller and the assistant said."""

    session_id: str
    words: list[bytes] = field(default_factory=lambda: [ASKED.encode(), ANSWERED.encode(), CALLER.encode()])
    caller_samples: list[bytes] = field(default_factory=list)
    assistant_samples: list[bytes] = field(default_factory=list)

    @property
    def said(self) -> list[bytes]:
        """Those of what was said; who called is not."""
        return [*self.words[:2], *self.caller_samples, *self.assistant_samples]

    @property
    def traces(self) -> list[bytes]:
        """All of them."""
        return [*self.words, *self.caller_samples, *self.assistant_samples]


async def planted_call(
    log: SessionLog,
    session_id: str = "call-1",
    *,
    turns: int = 2,
    closes: bool = True,
    words: tuple[str, str] = (ASKED, ANSWERED),
    **session: Any,
) -> Planted:
    """A call of some turns. Each turn takes three seconds of the record's clock; ``words`` are asked and answered."""
    settings = {"metadata": {"caller_id": CALLER}} | session
    call = await RecordedCall.begin(log, session_id, script(turns, *words), **settings)
    planted = Planted(session_id)
    for turn in range(turns):
        for piece in range(3):
            sound = noise(hash_of(session_id) + 10 * turn + piece)
            call.clock.now_ms += 200
            await call.caller.append(sound, is_speech=True)
            planted.caller_samples.append(sound[100:132])
        await call.turn()
        call.wait(2_400)
    if closes:
        await call.caller.say(CloseSession())
        await call.caller.ends()
    await call.end()
    async for entry in LiveSource(log, "").output(await log.head(session_id), audio=True):
        if entry.audio is not None and len(set(entry.audio[1000:1032])) > 16:
            planted.assistant_samples.append(entry.audio[1000:1032])
    assert planted.assistant_samples
    return planted


def hash_of(text: str) -> int:
    """The same number for the same text in every process."""
    return int.from_bytes(text.encode()[-4:], "big")


@dataclass
class Shelf:
    """An archive in folders, with its keys."""

    folder: Path
    _source: ArchiveSource | None = None

    @property
    def url(self) -> str:
        """Where the archive is."""
        return str(self.folder / "archive")

    @property
    def files(self) -> Files:
        """Its files."""
        return Files(self.url)

    @property
    def keys(self) -> KeyStore:
        """Its keys."""
        return key_store(str(self.folder / "keys"), OPERATOR_KEY)

    @property
    def key_files(self) -> Files:
        """The files of its keys."""
        return Files(str(self.folder / "keys"))

    def source_of(self, head: Head) -> ArchiveSource:
        """The source that gave ``head`` last."""
        assert self._source is not None and self._source.manifest_of(head)
        return self._source

    @property
    def archiver(self) -> Archiver:
        """Who writes it."""
        return Archiver(self.files, self.keys)

    @property
    def source(self) -> ArchiveSource:
        """Who reads it."""
        self._source = ArchiveSource(self.files, self.keys)
        return self._source


async def only_life(log: SessionLog, session_id: str = "call-1") -> Life:
    """The one life there is of this id."""
    (life,) = await keeping_of(log).lives(session_id)
    return life


async def archived(log: SessionLog, shelf: Shelf, session_id: str = "call-1") -> Head:
    """The session, archived; where the archive says that it stood."""
    await shelf.archiver.archive(await only_life(log, session_id), LiveSource(log, "the store"))
    return await shelf.source.find(session_id)


class Cut(BaseException):
    """The process is gone."""


class CutFiles(Files):
    """Files whose process is gone at the ``at``-th change: before it is made, or right after."""

    def __init__(self, url: str, at: int, *, after: bool) -> None:
        super().__init__(url)
        self.changes, self._at, self._after = 0, at, after

    def _cut(self, *, after: bool) -> None:
        if self.changes == self._at and after == self._after:
            raise Cut

    def put(self, path: str, data: bytes) -> None:
        """See ``Files``."""
        self._cut(after=False)
        super().put(path, data)
        self._cut(after=True)
        self.changes += 1

    def put_new(self, path: str, data: bytes) -> bool:
        """See ``Files``."""
        self._cut(after=False)
        written = super().put_new(path, data)
        self._cut(after=True)
        self.changes += 1
        return written

    def remove(self, *paths: str) -> None:
        """See ``Files``."""
        for path in paths:
            self._cut(after=False)
            super().remove(path)
            self._cut(after=True)
            self.changes += 1


@dataclass
class Listed:
    """A source that gives lists away."""

    head: Head
    said: Sequence[Entry]
    shown: Sequence[Entry]
    kept: list[tuple[int, bytes]]
    name: str = "lists"

    async def sessions(self) -> list[Head]:
        """See ``Source``."""
        return [self.head]

    async def find(self, session: str | None) -> Head:
        """See ``Source``."""
        return self.head

    async def input(self, head: Head, after: Any = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        for entry in self.said:
            if entry.id > after:
                yield entry

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        for entry in self.shown:
            if entry.id.number > after_seq:
                yield entry

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """See ``Source``."""
        return self.kept

    async def notes_on(self, session_id: str) -> list[Note]:
        """See ``Source``."""
        return []

    async def note(self, note: Note) -> None:
        """See ``Source``."""

    async def broken(self, head: Head) -> str | None:
        """See ``Source``."""
        return None


def at_ms(entry: Entry) -> int:
    """When a record was written."""
    found: int = msgpack.unpackb(entry.body)["at_ms"]
    return found


def traces_in(folder: Path, traces: Sequence[bytes]) -> dict[bytes, str]:
    """Which traces are found in which file of a folder; compressed Parquet is opened."""
    found: dict[bytes, str] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root) / name
            data = path.read_bytes()
            if name.endswith(".parquet"):
                data += parquet_text(path)
            found |= {trace: str(path) for trace in traces if trace in data}
    return found


def parquet_text(path: Path) -> bytes:
    """All that can be read in a Parquet file."""
    from pyarrow import parquet

    return repr(parquet.read_table(path).to_pylist()).encode()
