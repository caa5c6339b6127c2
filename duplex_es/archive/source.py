"""An archive as a source of sessions: every command that reads a store or a file reads it, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from hashlib import sha256

from ..log.api import START, Entry, EntryId, Head
from ..reading.errors import ReadingError, SessionMissing
from ..reading.notes import Erased, Note, pack_note, unpack_notes
from .contents import Contents, read_manifest
from .files import Files
from .keystore import KeyStore
from .layout import MANIFESTS, OPEN, LifeName, Manifest, folder_of, quoted

EXPORTS = "exports"


class ArchiveSource:
    """The sessions of an archive, those that go on included as far as they are archived."""

    def __init__(self, files: Files, keys: KeyStore) -> None:
        self.files, self.keys = files, keys
        self.name = f"the archive at {files.url}"
        self._found: dict[Head, Manifest] = {}

    async def manifests(self, session_id: str | None = None) -> list[Manifest]:
        """Every life of one id or of all, erased ones included, oldest first."""
        return await self.files.aside(self._manifests, session_id)

    def _manifests(self, session_id: str | None) -> list[Manifest]:
        found: dict[LifeName, Manifest] = {}
        for root in (OPEN, MANIFESTS):  # what is whole stands in the place of what went on
            folder = root if session_id is None else f"{root}/{folder_of(session_id)}"
            for path in self.files.names(folder):
                if session_id is not None and not path.rpartition("/")[2].startswith(f"{quoted(session_id)}@"):
                    continue
                manifest = read_manifest(self.files, path)
                if manifest is not None and session_id in (None, manifest.session_id):
                    found[manifest.life] = manifest
        return sorted(found.values(), key=lambda one: (one.session_id, one.created_ms, one.incarnation))

    async def sessions(self) -> list[Head]:
        """See ``Source``; without what only a key can show."""
        heads = []
        for manifest in await self.manifests():
            if manifest.state != "erased":
                self._found[manifest.head()] = manifest
                heads.append(manifest.head())
        return heads

    async def find(self, session: str | None) -> Head:
        """See ``Source``; ``ID@INCARNATION-CREATED_MS`` names a life when there are several of a ref."""
        if session is None:
            heads = await self.sessions()
            if len(heads) != 1:
                raise ReadingError(f"{len(heads)} sessions in {self.name}: say which one")
            manifest = self._found[heads[0]]
        else:
            manifest = await self._named(session)
        return await self._opened(manifest)

    async def _named(self, session: str) -> Manifest:
        found = await self.manifests(session)
        for mark in "#@":
            session_id, marked, rest = session.rpartition(mark)
            if marked:
                lives = await self.manifests(session_id)
                found += [one for one in lives if rest in (str(one.incarnation), one.life.name.rpartition("@")[2])]
        if not found:
            raise SessionMissing(f"no session {session!r} in {self.name}")
        newest = max(found, key=lambda one: (one.created_ms, one.incarnation))
        if newest.state == "erased":
            raise Erased(session, list(newest.tombstones))
        return newest

    async def _opened(self, manifest: Manifest) -> Head:
        """Where the session stood, with what lies sealed."""
        head = manifest.head()
        standing = await (await self.contents(manifest)).standing()
        if standing is not None:
            kept = standing.head.head()
            head = replace(head, opening=kept.opening, checkpoint=kept.checkpoint)
        self._found[head] = manifest
        return head

    async def contents(self, manifest: Manifest) -> Contents:
        """What is archived of a life. Raises: ReadingError, KeyDestroyed."""
        name = manifest.life
        key = await self.keys.read(name.session_id, name.name, manifest.generation)
        return Contents(self.files, name, manifest.generation, key)

    def manifest_of(self, head: Head) -> Manifest:
        """The manifest behind a head that this source gave. Raises: ReadingError for any other."""
        if head not in self._found:
            raise ReadingError(f"{head.ref} is not of {self.name}")
        return self._found[head]

    async def input(self, head: Head, after: EntryId = START, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        manifest = self.manifest_of(head)
        async for entry in (await self.contents(manifest)).entries("input", manifest.segments, after):
            yield entry

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> AsyncIterator[Entry]:
        """See ``Source``."""
        manifest, after = self.manifest_of(head), EntryId(0, after_seq)
        async for entry in (await self.contents(manifest)).entries("output", manifest.segments, after):
            yield entry

    async def snapshots(self, head: Head) -> list[tuple[int, bytes]]:
        """See ``Source``."""
        standing = await (await self.contents(self.manifest_of(head))).standing()
        return [] if standing is None else [one for one in standing.snapshots if one[0] <= head.output.number]

    async def notes_on(self, session_id: str) -> list[Note]:
        """See ``Source``."""
        manifests = await self.manifests(session_id)
        tombstones: list[Note] = [note for manifest in manifests for note in manifest.tombstones]
        return tombstones + await self.exports(session_id)

    async def note(self, note: Note) -> None:
        """See ``Source``."""
        packed = pack_note(note)
        path = f"{exports_folder(note.session_id)}/{sha256(packed).hexdigest()[:24]}.json"
        await self.files.aside(self.files.put, path, packed)

    async def exports(self, session_id: str) -> list[Note]:
        """The copies that were written of the sessions of this id."""
        folder = exports_folder(session_id)
        paths: Sequence[str] = await self.files.aside(self.files.names, folder)
        packed = [await self.files.aside(self.files.read, path) for path in paths]
        return unpack_notes(one for one in packed if one is not None)

    async def broken(self, head: Head) -> str | None:
        """See ``Source``."""
        manifest = self.manifest_of(head)
        return await (await self.contents(manifest)).broken_chain(manifest.segments)


def exports_folder(session_id: str) -> str:
    """Where an archive keeps who has copies of the sessions of this id."""
    return f"{EXPORTS}/{folder_of(session_id)}/{quoted(session_id)}"
