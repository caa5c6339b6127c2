"""The client of one duplex session: opens it, feeds it, hears it, and brings it back when a connection breaks."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pybase64

from .config import SessionConfig
from .connection import Connection
from .errors import DuplexClientError, DuplexConnectionError, DuplexSessionClosedError
from .events import DuplexEvent, ErrorEvent, SessionClosed
from .machine import Phase
from .reconnect import ReconnectPolicy
from .responses import ResponseStream
from .subscriptions import Subscription
from .transport import Connect, build_realtime_url, websocket_connector

DATA_URL_PREFIX = "data:"


class DuplexClient:
    """One session as an async context manager: entering opens it, leaving closes it.

    ``url`` may be several gateways of the same deployment; they are tried in order, and a session lost on one is
    resumed on the next. ``reconnect=None`` turns resuming off, ``heartbeat_interval_s=None`` the heartbeat.
    ``connect`` replaces the WebSocket, for tests. Not for use from more than one event loop.

    Entering raises DuplexProtocolError when the server refuses the session, DuplexConnectionError when no URL answers.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        model: str,
        config: SessionConfig | None = None,
        session_id: str | None = None,
        reconnect: ReconnectPolicy | None = ReconnectPolicy(),  # noqa: B008  # frozen
        heartbeat_interval_s: float | None = 30.0,
        handshake_timeout_s: float = 30.0,
        connect: Connect | None = None,
    ) -> None:
        urls = [url] if isinstance(url, str) else list(url)
        if not urls:
            raise ValueError("a client needs at least one URL")
        self.model = model
        self.config = config or SessionConfig()
        self._heartbeat_interval_s = heartbeat_interval_s
        self._heartbeat: asyncio.Task[None] | None = None
        self._appended_bytes = 0
        self._responses: ResponseStream | None = None
        self._connection = Connection(
            [build_realtime_url(each, model) for each in urls],
            model=model,
            config=self.config,
            session_id=session_id,
            reconnect=reconnect,
            handshake_timeout_s=handshake_timeout_s,
            connect=connect or websocket_connector(open_timeout_s=handshake_timeout_s),
        )

    # -- what is known of the session ------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL of the current connection, or of the last one."""
        return self._connection.url

    @property
    def session_id(self) -> str | None:
        """The session's id; before it is open, the one asked for."""
        return self._connection.machine.session_id

    @property
    def session_info(self) -> Mapping[str, Any]:
        """The public session object as last received; ``capabilities`` are in it."""
        return self._connection.machine.session_info

    @property
    def incarnation(self) -> int | None:
        """How often this session id had been opened before."""
        return self._connection.machine.incarnation

    @property
    def resume_token(self) -> str | None:
        """The current resume token. Whoever has it can take the session over."""
        return self._connection.machine.resume_token

    # -- open and close --------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._connection.open()
        if self._heartbeat_interval_s is not None:
            self._heartbeat = asyncio.create_task(self._beat(self._heartbeat_interval_s))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.close()
            elif self._connection.machine.phase is Phase.OPEN:
                await self._say_goodbye()
        finally:
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            await self._connection.shut()

    async def close(self, *, timeout_s: float = 20.0) -> None:
        """Close the session and wait until the server says so, at most ``timeout_s``. Idempotent."""
        if self._connection.machine.phase in (Phase.OPEN, Phase.RESUMING):
            events = self._connection.subscriptions.add()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._say_goodbye()
                    await _first_of(events, SessionClosed)
            except (TimeoutError, DuplexSessionClosedError):
                # The session is over or as good as over for this client; the server's lease ends it in any case.
                return
            finally:
                self._connection.subscriptions.discard(events)

    async def _say_goodbye(self) -> None:
        try:
            await self._connection.send(self._connection.machine.close_command())
        except DuplexClientError:
            # Nobody is there to hear it.
            return

    # -- say -------------------------------------------------------------------------------------------------------

    async def send(self, event: Mapping[str, Any]) -> str:
        """Send any client event, with an ``event_id`` if it has none; returns that id.

        Waits while a resume is under way. Raises: DuplexConnectionError when the connection broke under it (the event
        may or may not have arrived), DuplexSessionClosedError when the session is over.
        """
        stamped = dict(event)
        event_id = stamped.setdefault("event_id", f"evt_{secrets.token_hex(16)}")
        await self._connection.send(stamped)
        return str(event_id)

    async def append_audio(
        self, pcm: bytes, *, is_speech: bool | None = None, video_frames: Sequence[str] | None = None
    ) -> None:
        """Append caller audio in the configured input format. A chunk the connection broke under is sent again."""
        audio = self.config.input_audio
        self._appended_bytes += len(pcm)
        event: dict[str, Any] = {
            "type": "input_audio_buffer.append",
            "audio": pybase64.b64encode(pcm).decode(),
            "format": audio.encoding,
            "sample_rate_hz": audio.sample_rate_hz,
            "duration_ms": round(audio.duration_ms(len(pcm))),
            "audio_end_ms": round(audio.duration_ms(self._appended_bytes)),
        }
        if is_speech is not None:
            event["is_speech"] = is_speech
        if video_frames:
            event["video_frames"] = [_without_data_url(frame) for frame in video_frames]
        while True:
            try:
                await self.send(event)
                return
            except DuplexConnectionError:
                # A broken connection never delivered the frame; ``send`` now waits for the resume, or says it is over.
                continue

    async def stream_pcm(
        self, pcm: bytes, *, chunk_ms: int = 200, realtime: bool = True, is_speech: bool | None = None
    ) -> None:
        """Append ``pcm`` in chunks, each when a microphone would have filled it; at once if not ``realtime``."""
        size = max(self.config.input_audio.bytes_per_sample, self.config.input_audio.byte_count(chunk_ms))
        clock = asyncio.get_running_loop().time
        started_s, sent_ms = clock(), 0.0
        for offset in range(0, len(pcm), size):
            chunk = pcm[offset : offset + size]
            sent_ms += self.config.input_audio.duration_ms(len(chunk))
            if realtime:
                await asyncio.sleep(max(0.0, started_s + sent_ms / 1000 - clock()))
            await self.append_audio(chunk, is_speech=is_speech)

    async def commit(self, *, final: bool = True, create_response: bool | None = None) -> None:
        """End the turn: what was appended becomes a user item."""
        event: dict[str, Any] = {"type": "input_audio_buffer.commit", "final": final}
        if create_response is not None:
            event["response_create"] = create_response
        await self.send(event)

    async def cancel_response(self, response_id: str | None = None) -> None:
        """Cancel the named response, or the active one."""
        named = {} if response_id is None else {"response_id": response_id}
        await self.send({"type": "response.cancel", **named})

    async def clear_input(self) -> None:
        """Drop audio that no turn holds yet."""
        await self.send({"type": "input_audio_buffer.clear"})

    async def ack_playback(
        self,
        played_ms: float,
        *,
        response_id: str | None = None,
        item_id: str | None = None,
        committed_ms: float | None = None,
    ) -> None:
        """Report how much of an answer was played, cumulative; ``committed_ms`` is the same unless given."""
        named = {"response_id": response_id, "item_id": item_id}
        await self.send(
            {
                "type": "playback.ack",
                "played_ms": int(played_ms),
                "committed_ms": int(played_ms if committed_ms is None else committed_ms),
                **{name: value for name, value in named.items() if value is not None},
            }
        )

    # -- hear ------------------------------------------------------------------------------------------------------

    def events(self) -> Subscription:
        """All events from now on; see ``Subscription`` for how it ends and what a slow reader misses."""
        return self._connection.subscriptions.add()

    def __aiter__(self) -> AsyncIterator[DuplexEvent]:
        return self.events()

    def responses(self) -> ResponseStream:
        """The answers from the first call on, one handle each; every call returns the same stream."""
        if self._responses is None:
            self._responses = ResponseStream()
            self._connection.subscriptions.feed(self._responses)
        return self._responses

    async def wait_for(self, *types: str, timeout_s: float | None = None) -> DuplexEvent:
        """The next event of one of ``types``.

        Raises: DuplexProtocolError when an error event comes first (unless ``error`` is awaited), TimeoutError,
        DuplexSessionClosedError when the session ends before.
        """
        events = self.events()
        try:
            async with asyncio.timeout(timeout_s):
                async for event in events:
                    if event.type in types:
                        return event
                    if isinstance(event, ErrorEvent):
                        raise event.to_exception()
        finally:
            self._connection.subscriptions.discard(events)
        raise DuplexSessionClosedError(self._connection.machine.end_reason or "closed")

    async def _beat(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.send({"type": "session.heartbeat"})
            except DuplexConnectionError:
                # The resume has its own patience; the lease is refreshed by the next beat.
                continue
            except DuplexSessionClosedError:
                return


async def _first_of(events: Subscription, *classes: type[DuplexEvent]) -> DuplexEvent:
    async for event in events:
        if isinstance(event, classes):
            return event
    raise DuplexSessionClosedError("closed")


def _without_data_url(frame: str) -> str:
    return frame.split(",", 1)[-1] if frame.startswith(DATA_URL_PREFIX) else frame
