"""The worker's end of the process that owns memory for its engines."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping

from .booting import start_module

MODULE = "workers.engine.holding_process"

_log = logging.getLogger(__name__)


class HolderProcess:
    """One such process, from ``start`` to ``stop``. ``lost`` is called if it ends by itself.

    It ends with this process, too, however that ends: its memory is nobody's then.
    """

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, lost: Callable[[], None]) -> None:
        self._process, self._control, self._lost = process, control, lost
        self._watching = asyncio.create_task(self._watch(), name="duplex-es-holder")

    @classmethod
    async def start(cls, python: str, environment: Mapping[str, str], lost: Callable[[], None]) -> HolderProcess:
        """Start it with the engine's interpreter, which sees the engine's devices. Raises: OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = await start_module(
                python, MODULE, [str(theirs.fileno())], descriptors=[theirs.fileno()], environment=environment
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours, lost)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether its memory is still there."""
        return self._process.returncode is None

    def lend(self) -> socket.socket:
        """A line to it, for an engine's process to inherit; close it here afterwards. Raises: OSError."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with one:
                socket.send_fds(self._control, [b"+"], [one.fileno()])
        except OSError:
            other.close()
            raise
        return other

    async def stop(self) -> None:
        """Let all of its memory go. Whoever works in it on a GPU must be gone. Idempotent."""
        self._lost = lambda: None
        self._control.close()
        await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        status = await self._process.wait()
        _log.debug("the process that holds memory ended with status %s", status)
        self._lost()
