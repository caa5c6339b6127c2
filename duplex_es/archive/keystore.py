"""Where the sessions' keys are, apart from what they seal: in a folder or bucket of their own, or in a store.

Each session has a key, and after part of it was erased another: the generations 1, 2, 3. A key that was destroyed
leaves a mark, so that it is never made again.
"""

from __future__ import annotations

from typing import Protocol

from ..log import keys
from ..log.api import SessionLog
from ..log.memory import MemoryLog
from ..log.nodes import ask
from ..log.redis import RedisLog
from ..reading.errors import ReadingError
from .files import Files
from .sealing import OperatorKeys, new_key

DESTROYED = b"destroyed"


class KeyDestroyed(ReadingError):
    """This key was destroyed: what it sealed cannot be read by anybody any more."""


class Drawer(Protocol):
    """Where wrapped keys lie by name."""

    async def read(self, session_id: str, name: str) -> bytes | None:
        """What lies there."""

    async def put_new(self, session_id: str, name: str, data: bytes) -> bool:
        """Put it there unless something is there; whether this call did."""

    async def put(self, session_id: str, name: str, data: bytes) -> None:
        """Put it there in the place of what is there."""


class FileDrawer:
    """Keys as files, one each, spread over the log's partitions."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @staticmethod
    def _path(session_id: str, name: str) -> str:
        return f"{keys.partition_of(session_id):02x}/{name}.key"

    async def read(self, session_id: str, name: str) -> bytes | None:
        """See ``Drawer``."""
        return await self._files.aside(self._files.read, self._path(session_id, name))

    async def put_new(self, session_id: str, name: str, data: bytes) -> bool:
        """See ``Drawer``."""
        return await self._files.aside(self._files.put_new, self._path(session_id, name), data)

    async def put(self, session_id: str, name: str, data: bytes) -> None:
        """See ``Drawer``."""
        await self._files.aside(self._files.put, self._path(session_id, name), data)


class StoreDrawer:
    """Keys in the store of a log, without an end. They last as long as what the store writes to its disk does."""

    def __init__(self, log: RedisLog) -> None:
        self._nodes = log.nodes

    @staticmethod
    def _key(session_id: str, name: str) -> str:
        return keys.sealing_key(session_id, name)

    async def read(self, session_id: str, name: str) -> bytes | None:
        """See ``Drawer``."""
        (found,) = await ask(self._nodes, ("GET", self._key(session_id, name)))
        return None if found is None else bytes(found)

    async def put_new(self, session_id: str, name: str, data: bytes) -> bool:
        """See ``Drawer``."""
        (done,) = await ask(self._nodes, ("SET", self._key(session_id, name), data, "NX"))
        return done is not None

    async def put(self, session_id: str, name: str, data: bytes) -> None:
        """See ``Drawer``."""
        await ask(self._nodes, ("SET", self._key(session_id, name), data))


class KeyStore:
    """The keys of sessions, made when they are first asked for."""

    def __init__(self, drawer: Drawer, operator: OperatorKeys) -> None:
        self._drawer = drawer
        self.operator = operator

    async def obtain(self, session_id: str, life: str, generation: int) -> bytes:
        """The key of a generation, made if there is none; of several makers all get the same. Raises: KeyDestroyed."""
        name = _name(life, generation)
        wrapped = self.operator.wrap(new_key(), name)
        if not await self._drawer.put_new(session_id, name, wrapped):
            return await self.read(session_id, life, generation)
        return self.operator.unwrap(wrapped, name)

    async def read(self, session_id: str, life: str, generation: int) -> bytes:
        """The key of a generation. Raises: KeyDestroyed; ReadingError when it is not there."""
        name = _name(life, generation)
        wrapped = await self._drawer.read(session_id, name)
        if wrapped == DESTROYED:
            raise KeyDestroyed(f"the key of {life}, generation {generation}, was destroyed")
        if wrapped is None:
            raise ReadingError(f"there is no key for {life}, generation {generation}: are these its keys?")
        return self.operator.unwrap(wrapped, name)

    async def is_made(self, session_id: str, life: str, generation: int) -> bool:
        """Whether there is, or was, this key."""
        return await self._drawer.read(session_id, _name(life, generation)) is not None

    async def is_destroyed(self, session_id: str, life: str, generation: int) -> bool:
        """Whether this key was destroyed."""
        return await self._drawer.read(session_id, _name(life, generation)) == DESTROYED

    async def destroy(self, session_id: str, life: str, generation: int) -> None:
        """Destroy a key, also one that was never made, for good."""
        await self._drawer.put(session_id, _name(life, generation), DESTROYED)


def _name(life: str, generation: int) -> str:
    return f"{life}.{generation}"


def key_store(
    where: str, operator: OperatorKeys, log: SessionLog | None = None, *, patience_s: float | None = None
) -> KeyStore:
    """The keys in the folder or bucket ``where``, or with ``redis`` in the store of ``log``. Raises: ReadingError.

    ``patience_s`` is that of ``Files``.
    """
    if where != "redis":
        return KeyStore(FileDrawer(Files(where, patience_s=patience_s)), operator)
    if isinstance(log, RedisLog):
        return KeyStore(StoreDrawer(log), operator)
    kind = "a store in memory" if isinstance(log, MemoryLog) else "no store"
    raise ReadingError(f"--keys redis: {kind} cannot keep keys; name a folder")
