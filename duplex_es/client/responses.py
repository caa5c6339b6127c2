"""The event stream seen as answers: one handle per response, filled while it is being said."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from .audio import BYTES_PER_SAMPLE
from .errors import DuplexProtocolError, DuplexSessionClosedError
from .events import (
    AudioDelta,
    DuplexEvent,
    ErrorEvent,
    ListenDecision,
    ResponseCreated,
    ResponseDone,
    SpeakDecision,
    TextDelta,
    TranscriptDelta,
)

QUEUE_ENTRIES = 1024
DEFAULT_RATE_HZ = 24_000
DEFAULT_ENCODING = "pcm16"

# Others name a response without making one: a cleared output buffer, the parts of an item.
TELLING = (ResponseCreated, SpeakDecision, AudioDelta, TranscriptDelta, TextDelta, ListenDecision, ResponseDone)


class ResponseHandle:
    """One answer, or one decision to keep listening.

    ``decision`` is ``speak``, ``listen`` or not yet known. ``transcript`` and ``text`` grow while it is said.
    ``played_ms`` counts what ``audio`` has handed out. ``done_event`` stays ``None`` when the session ended first.
    """

    def __init__(self, response_id: str | None) -> None:
        self.response_id = response_id
        self.decision: str | None = None
        self.transcript = ""
        self.text = ""
        self.played_ms = 0.0
        self.created_event: DuplexEvent | None = None
        self.done_event: DuplexEvent | None = None
        self._chunks: deque[DuplexEvent] = deque(maxlen=QUEUE_ENTRIES)
        self._changed = asyncio.Event()
        self._over = asyncio.Event()

    @property
    def finished(self) -> bool:
        """Whether nothing will be added any more."""
        return self._over.is_set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return once the response is over. Raises: TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._over.wait()

    async def audio(self) -> AsyncIterator[bytes]:
        """The pieces of sound in order, until the response is over; one consumer."""
        while True:
            while self._chunks:
                event = self._chunks.popleft()
                pcm = event.audio
                rate_hz = event.sample_rate_hz or DEFAULT_RATE_HZ
                size = BYTES_PER_SAMPLE.get(str(event.raw.get("format")), BYTES_PER_SAMPLE[DEFAULT_ENCODING])
                self.played_ms += len(pcm) * 1000 / (size * rate_hz)
                yield pcm
            if self.finished:
                return
            self._changed.clear()
            await self._changed.wait()

    def _take(self, event: DuplexEvent) -> None:
        match event:
            case AudioDelta():
                self._chunks.append(event)
            case TranscriptDelta():
                self.transcript += event.text
            case TextDelta():
                self.text += event.text
        self._changed.set()

    def _finish(self) -> None:
        self._over.set()
        self._changed.set()


class ResponseStream:
    """Response handles in the order of their first output or, without any, of their end; one consumer.

    Iteration raises DuplexProtocolError for every server error, in its place among the handles; it may be iterated
    again afterwards. It ends with an expected end of the session and raises DuplexSessionClosedError at any other.
    """

    def __init__(self) -> None:
        self._handles: dict[str, ResponseHandle] = {}
        self._delivered: set[str] = set()
        self._queue: deque[ResponseHandle | DuplexProtocolError] = deque(maxlen=QUEUE_ENTRIES)
        self._changed = asyncio.Event()
        self._is_over = False
        self._failure: str | None = None

    def put(self, event: DuplexEvent) -> None:
        """Sort one event in; never waits."""
        match event:
            case ErrorEvent():
                self._enqueue(event.to_exception())
            case ListenDecision(response_id=None):
                handle = ResponseHandle(None)
                handle.decision = "listen"
                handle._finish()
                self._enqueue(handle)
            case DuplexEvent(response_id=str() as response_id):
                self._sort_in(event, response_id)

    def end(self, failure: str | None) -> None:
        """Say that nothing follows; answers that are still open are over."""
        for handle in self._handles.values():
            handle._finish()
        self._is_over, self._failure = True, failure
        self._changed.set()

    def __aiter__(self) -> ResponseStream:
        return self

    async def __anext__(self) -> ResponseHandle:
        while not self._queue:
            if self._is_over:
                if self._failure is not None:
                    raise DuplexSessionClosedError(self._failure)
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        found = self._queue.popleft()
        if isinstance(found, DuplexProtocolError):
            raise found
        return found

    def _sort_in(self, event: DuplexEvent, response_id: str) -> None:
        if not isinstance(event, TELLING):
            return
        handle = self._handles.setdefault(response_id, ResponseHandle(response_id))
        match event:
            case ResponseCreated():
                handle.created_event = event
            case SpeakDecision():
                handle.decision = "speak"
            case AudioDelta() | TranscriptDelta() | TextDelta():
                handle.decision = "speak"
                handle._take(event)
                self._deliver(handle, response_id)
            case ListenDecision():
                # Never takes back a word that was already said.
                handle.decision = handle.decision or "listen"
                self._deliver(handle, response_id)
                handle._finish()
            case ResponseDone():
                handle.decision = handle.decision or "speak"
                handle.done_event = event
                self._deliver(handle, response_id)
                handle._finish()
                # Ids are never reused; what comes after the end of a response belongs to nothing.
                self._handles.pop(response_id)
                self._delivered.discard(response_id)

    def _deliver(self, handle: ResponseHandle, response_id: str) -> None:
        if response_id not in self._delivered:
            self._delivered.add(response_id)
            self._enqueue(handle)

    def _enqueue(self, entry: ResponseHandle | DuplexProtocolError) -> None:
        self._queue.append(entry)
        self._changed.set()
