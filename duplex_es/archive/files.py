"""Files at a URL of fsspec: a folder, S3, GCS, memory. Each is written whole or not at all.

Paths are relative to the URL. A folder is written through temporary names and synced; an object store puts an object at
once anyway.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from ..reading.errors import ReadingError

TEMPORARY = ".part-"
_MARKS = ("size", "ino", "mtime", "ETag", "etag", "LastModified", "updated", "created")
"""By which of these a file's version is known depends on the place."""


class Files:
    """The files under ``url``. Raises: ReadingError when fsspec, or what it needs for this URL, is not installed."""

    def __init__(self, url: str) -> None:
        self.url = url
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

    def read(self, path: str) -> bytes | None:
        """What is in a file; ``None`` when there is none. Raises: ReadingError when the place does not answer."""
        try:
            found: bytes = self._fs.cat_file(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ReadingError(f"cannot read {self.url}/{path}: {error}") from error
        return found

    def put(self, path: str, data: bytes) -> None:
        """Write a file, in the place of one that is there. Raises: ReadingError."""
        try:
            if self._is_local:
                part = self._part(path, data)
                os.replace(part, self._full(path))
                _sync_folder(Path(self._full(path)).parent)
            else:
                self._fs.pipe_file(self._full(path), data)
        except OSError as error:
            raise ReadingError(f"cannot write {self.url}/{path}: {error}") from error

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file unless there is one; whether this call wrote it. Of several at once, one does where the place
        can tell (a folder, memory, S3, GCS). Raises: ReadingError."""
        try:
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
        except OSError as error:
            raise ReadingError(f"cannot write {self.url}/{path}: {error}") from error
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
        try:
            self._fs.invalidate_cache()
            found = self._fs.find(self._full(folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ReadingError(f"cannot list {self.url}/{folder}: {error}") from error
        start = len(self._root) + 1
        return sorted(str(path)[start:] for path in found if TEMPORARY not in str(path))

    def stamps(self, folder: str) -> dict[str, str]:
        """All files in and below a folder, each with a mark that is another once the file was replaced, as far as the
        place tells. Raises: ReadingError."""
        try:
            self._fs.invalidate_cache()
            found = self._fs.find(self._full(folder), detail=True)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ReadingError(f"cannot list {self.url}/{folder}: {error}") from error
        start = len(self._root) + 1
        return {str(path)[start:]: _mark(said) for path, said in found.items() if TEMPORARY not in str(path)}

    def remove(self, *paths: str) -> None:
        """Remove files; those that are not there are no trouble. Raises: ReadingError."""
        for path in paths:
            try:
                self._fs.rm_file(self._full(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ReadingError(f"cannot remove {self.url}/{path}: {error}") from error


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
