"""Files at a URL of fsspec: a folder, S3, GCS, memory. Each is written whole or not at all.

Paths are relative to the URL. A folder is written through temporary names and synced; an object store puts an object at
once anyway.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ..reading.errors import ReadingError

T = TypeVar("T")
TEMPORARY = ".part-"
THREADS = 8
_MARKS = ("size", "ino", "mtime", "ETag", "etag", "LastModified", "updated", "created")
"""By which of these a file's version is known depends on the place."""


class Files:
    """The files under ``url``. Raises: ReadingError when fsspec, or what it needs for this URL, is not installed.

    ``patience_s`` is how long ``aside`` waits; without one it waits until there is an answer.
    """

    def __init__(self, url: str, *, patience_s: float | None = None) -> None:
        self.url = url
        self._patience_s = patience_s
        # Of its own: where the place hangs, so do these, and nobody else's.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="archive")
        try:
            import fsspec
        except ImportError as error:
            raise ReadingError("an archive needs fsspec: install duplex-es[archive]") from error
        try:
            self._fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ReadingError(f"{url} cannot be opened: {error}") from error
        self._root = str(root).rstrip("/")
        self._is_local = "file" in _protocols(self._fs)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    async def aside(self, work: Callable[..., T], *given: object) -> T:
        """Do ``work`` in a thread of this place's. Raises: ReadingError when it takes longer than ``patience_s``."""
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)
        except TimeoutError as error:
            raise ReadingError(f"{self.url} does not answer within {self._patience_s:g} s") from error

    @contextmanager
    def _asking(self, to_do: str, path: str, *answers: type[OSError]) -> Iterator[None]:
        """Whatever goes wrong is a ReadingError, but for what is an answer.

        The clients of object stores raise errors of their own, of no kind that they share.
        """
        try:
            yield
        except answers:
            raise
        except Exception as error:
            raise ReadingError(f"cannot {to_do} {self.url}/{path}: {error or type(error).__name__}") from error

    def read(self, path: str) -> bytes | None:
        """What is in a file; ``None`` when there is none. Raises: ReadingError when the place does not answer."""
        try:
            with self._asking("read", path, FileNotFoundError, NotADirectoryError):
                found: bytes = self._fs.cat_file(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found

    def put(self, path: str, data: bytes) -> None:
        """Write a file, in the place of one that is there. Raises: ReadingError."""
        with self._asking("write", path):
            if self._is_local:
                part = self._part(path, data)
                os.replace(part, self._full(path))
                _sync_folder(Path(self._full(path)).parent)
            else:
                self._fs.pipe_file(self._full(path), data)

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file unless there is one; whether this call wrote it. Of several at once, one does where the place
        can tell (a folder, memory, S3, GCS). Raises: ReadingError."""
        try:
            with self._asking("write", path, FileExistsError):
                if not self._is_local:
                    self._fs.pipe_file(self._full(path), data, mode="create")
                    return True
                part = self._part(path, data)
                try:
                    os.link(part, self._full(path))
                finally:
                    os.unlink(part)
                _sync_folder(Path(self._full(path)).parent)
        except FileExistsError:
            return False
        return True

    def _part(self, path: str, data: bytes) -> str:
        """The data under a name that nobody reads, synced."""
        full = Path(self._full(path))
        full.parent.mkdir(parents=True, exist_ok=True)
        part = full.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return str(part)

    def names(self, folder: str) -> list[str]:
        """All files in and below a folder, as paths, sorted. Raises: ReadingError."""
        return sorted(self._listed(folder))

    def stamps(self, folder: str) -> dict[str, str]:
        """All files in and below a folder, each with a mark that is another once the file was replaced, as far as the
        place tells. Raises: ReadingError."""
        return {path: _mark(said) for path, said in self._listed(folder).items()}

    def _listed(self, folder: str) -> dict[str, dict[str, Any]]:
        try:
            with self._asking("list", folder, FileNotFoundError):
                self._fs.invalidate_cache()
                found = self._fs.find(self._full(folder), detail=True)
        except FileNotFoundError:
            return {}
        start = len(self._root) + 1
        return {str(path)[start:]: said for path, said in found.items() if TEMPORARY not in str(path)}

    def remove(self, *paths: str) -> None:
        """Remove files; those that are not there are no trouble. Raises: ReadingError."""
        for path in paths:
            with suppress(FileNotFoundError), self._asking("remove", path, FileNotFoundError):
                self._fs.rm_file(self._full(path))


def _mark(said: dict[str, Any]) -> str:
    """Which version of a file a place shows, in its own words."""
    return repr([said.get(name) for name in _MARKS])


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
