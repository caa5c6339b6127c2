"""The client without ``await``: an event loop in a thread of its own, and calls that wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from .events import DuplexEvent
from .responses import ResponseHandle
from .session import DuplexClient

T = TypeVar("T")


class Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="duplex-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns or raises; an interrupted wait, as by Ctrl-C, cancels it. Works after ``stop`` too."""
        if self._loop.is_closed():
            # What was received before the end can still be read.
            return asyncio.run(work)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking(Iterator[T]):
    """An async iterator, one element at a time."""

    def __init__(self, loop: Loop, source: AsyncIterator[T]) -> None:
        self._loop = loop
        self._source = source

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._loop.run(_next(self._source))
        except StopAsyncIteration:
            raise StopIteration from None


class SyncResponse:
    """``ResponseHandle`` for threads: the same attributes by the same names, ``audio`` and ``wait`` that block."""

    def __init__(self, loop: Loop, handle: ResponseHandle) -> None:
        self._loop = loop
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def audio(self) -> Iterator[bytes]:
        """The pieces of sound in order, until the response is over."""
        return Blocking(self._loop, self._handle.audio())

    def wait(self, timeout_s: float | None = None) -> None:
        """Return once the response is over. Raises: TimeoutError."""
        self._loop.run(self._handle.wait(timeout_s))


class SyncDuplexClient:
    """``DuplexClient`` as an ordinary context manager, with the same options; see there for what each call promises.

    Every call waits until it is done and may come from any thread, so one thread can speak while another listens. To
    miss nothing, make ``events()`` or ``responses()`` before what they are to show.
    """

    def __init__(self, url: str | Sequence[str], **options: Any) -> None:
        self._begin(DuplexClient(url, **options))

    @classmethod
    def resume(cls, url: str | Sequence[str], ticket: str, **options: Any) -> Self:
        """A client that takes up the session of a ticket when entered."""
        client = cls.__new__(cls)
        client._begin(DuplexClient.resume(url, ticket, **options))
        return client

    def _begin(self, client: DuplexClient) -> None:
        self._client = client
        self._loop: Loop | None = None

    def __getattr__(self, name: str) -> Any:
        # What is known of the session: url, model, config, session_id, session_info, incarnation, resume_token.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._client, name)

    def __enter__(self) -> Self:
        self._loop = Loop()
        try:
            self._loop.run(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._client.__aexit__(kind, error, trace))
        finally:
            self._stop()

    def close(self, *, timeout_s: float = 20.0) -> None:
        """Close the session and wait until the server says so."""
        self._run(self._client.close(timeout_s=timeout_s))

    def leave(self) -> None:
        """Hang up without ending the session."""
        self._run(self._client.leave())

    def send(self, event: Mapping[str, Any]) -> str:
        """Send any client event; returns its id."""
        return self._run(self._client.send(event))

    def append_audio(self, pcm: bytes, **options: Any) -> None:
        """Append caller audio."""
        self._run(self._client.append_audio(pcm, **options))

    def stream_pcm(self, pcm: bytes, **options: Any) -> int:
        """Append audio in paced chunks; returns how many carried frames."""
        return self._run(self._client.stream_pcm(pcm, **options))

    def commit(self, **options: Any) -> None:
        """End the turn."""
        self._run(self._client.commit(**options))

    def cancel_response(self, response_id: str | None = None) -> None:
        """Cancel the named response, or the active one."""
        self._run(self._client.cancel_response(response_id))

    def clear_input(self) -> None:
        """Drop audio that no turn holds yet."""
        self._run(self._client.clear_input())

    def ack_playback(self, played_ms: float, **options: Any) -> None:
        """Report how much of an answer was played."""
        self._run(self._client.ack_playback(played_ms, **options))

    def acknowledge(self, server_event_seq: int) -> None:
        """Let the server forget every event up to this number."""
        self._run(_called(self._client.acknowledge, server_event_seq))

    def events(self) -> Iterator[DuplexEvent]:
        """All events from now on."""
        return Blocking(self._entered(), self._run(_called(self._client.events)))

    def __iter__(self) -> Iterator[DuplexEvent]:
        return self.events()

    def responses(self) -> Iterator[SyncResponse]:
        """The answers from the first call on."""
        loop = self._entered()
        handles = Blocking(loop, self._run(_called(self._client.responses)))
        # Not a generator: that would be over after the first error it passes on.
        return map(partial(SyncResponse, loop), handles)

    def wait_for(self, *types: str, timeout_s: float | None = None) -> DuplexEvent:
        """The next event of one of ``types``."""
        return self._run(self._client.wait_for(*types, timeout_s=timeout_s))

    def _entered(self) -> Loop:
        if self._loop is None:
            raise RuntimeError("use the client as a context manager: `with SyncDuplexClient(...) as client`")
        return self._loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
        return self._entered().run(work)

    def _stop(self) -> None:
        if self._loop is not None:
            self._loop.stop()
            self._loop = None


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source)


async def _called(function: Any, *arguments: Any) -> Any:
    return function(*arguments)
