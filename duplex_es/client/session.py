"""The client of one duplex session: opens it, feeds it, hears it, and brings it back when a connection breaks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import pybase64

from .audio import AudioFormat
from .config import SessionConfig
from .connection import Connection
from .errors import DuplexClientError, DuplexConnectionError, DuplexSessionClosedError
from .events import DuplexEvent, ErrorEvent, SessionClosed, view
from .machine import ClientMachine, Phase
from .reconnect import ReconnectPolicy
from .responses import ResponseStream
from .subscriptions import Subscription
from .ticket import ResumeTicket
from .transport import Connect, session_url, websocket_connector
from .units import Chunk, chunks

DATA_URL_PREFIX = "data:"
GOODBYE_S = 2.0
PROGRESS_S = 1.0


class DuplexClient:
    """One session as an async context manager: entering opens it, leaving closes it.

    ``url`` may be several gateways of the same deployment; they are tried in order, and a session lost on one is
    resumed on the next. What was said and had not arrived is then said again, exactly once, where the server tells
    (``session.resumed.last_client_event_id``). ``reconnect=None`` turns resuming off, ``heartbeat_interval_s=None`` the
    heartbeat. ``auto_acknowledge=False`` leaves it to ``acknowledge`` what the server may forget: for programs that
    take a session up elsewhere from a ticket. ``connect`` replaces the WebSocket, for tests. For one event loop.

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
        auto_acknowledge: bool = True,
    ) -> None:
        self.model = model
        self.config = config or SessionConfig()
        machine = ClientMachine(model=model, config=self.config, session_id=session_id)
        self._set_up(
            url,
            machine,
            heartbeat_interval_s,
            reconnect=reconnect,
            handshake_timeout_s=handshake_timeout_s,
            connect=connect or websocket_connector(open_timeout_s=handshake_timeout_s),
            auto_acknowledge=auto_acknowledge,
        )

    @classmethod
    def resume(
        cls,
        url: str | Sequence[str],
        ticket: str,
        *,
        reconnect: ReconnectPolicy | None = ReconnectPolicy(),  # noqa: B008  # frozen
        heartbeat_interval_s: float | None = 30.0,
        handshake_timeout_s: float = 30.0,
        connect: Connect | None = None,
        auto_acknowledge: bool = True,
    ) -> Self:
        """A client that, when entered, takes up the session of a ticket, in this process or any other.

        Every event after the ticket's position comes again; the first consumer made gets all of them. A client that
        still holds the session is put out. Entering raises DuplexProtocolError when the session is over, the ticket was
        used before, or the server no longer has the events. Raises: ValueError for what is no ticket.
        """
        known = ResumeTicket.from_text(ticket)
        client = cls.__new__(cls)
        client.model = known.model
        client.config = SessionConfig(
            input_audio=AudioFormat(*known.input_audio), output_audio=AudioFormat(*known.output_audio)
        )
        client._set_up(
            url,
            ClientMachine(model=known.model, config=client.config, ticket=known),
            heartbeat_interval_s,
            reconnect=reconnect,
            handshake_timeout_s=handshake_timeout_s,
            connect=connect or websocket_connector(open_timeout_s=handshake_timeout_s),
            auto_acknowledge=auto_acknowledge,
        )
        client._appended_bytes = known.appended_bytes
        return client

    def _set_up(
        self, url: str | Sequence[str], machine: ClientMachine, heartbeat_interval_s: float | None, **options: Any
    ) -> None:
        urls = [url] if isinstance(url, str) else list(url)
        if not urls:
            raise ValueError("a client needs at least one URL")
        self._heartbeat_interval_s = heartbeat_interval_s
        self._heartbeat: asyncio.Task[None] | None = None
        self._appended_bytes = 0
        self._responses: ResponseStream | None = None
        self._connection = Connection([session_url(each, self.model) for each in urls], machine, **options)

    # -- what is known of the session ------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL in use."""
        return self._connection.url

    @property
    def session_id(self) -> str | None:
        """The session's id: the server's word, or before that the wanted one."""
        return self._connection.machine.session_id

    @property
    def session_info(self) -> dict[str, Any]:
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

    def export_resume_ticket(self, *, after_seq: int | None = None) -> str:
        """All that ``resume`` needs, as one line of text that must be kept secret. Good until the next resume.

        ``after_seq`` is the ``server_event_seq`` of the last event that was dealt with; later ones come again. Without
        it, all that this client has received counts. Raises: ValueError for a number not received yet or acknowledged
        already, DuplexSessionClosedError when the session is over or cannot be resumed.
        """
        machine = self._connection.machine
        if machine.session_id is None or machine.resume_token is None or machine.phase is Phase.ENDED:
            raise DuplexSessionClosedError(machine.end_reason or "it cannot be resumed")
        after_seq = machine.last_seq if after_seq is None else after_seq
        if not self._connection.acknowledged_seq <= after_seq <= machine.last_seq:
            raise ValueError(
                f"after_seq is {after_seq}; the server keeps what comes after {self._connection.acknowledged_seq}, "
                f"and {machine.last_seq} was the last event received"
            )
        heard, said = self.config.output_audio, self.config.input_audio
        ticket = ResumeTicket(
            session_id=machine.session_id,
            resume_token=machine.resume_token,
            incarnation=machine.incarnation,
            after_seq=after_seq,
            model=self.model,
            input_audio=(said.encoding, said.sample_rate_hz),
            output_audio=(heard.encoding, heard.sample_rate_hz),
            appended_bytes=self._appended_bytes,
            session_info=machine.session_info,
        )
        return ticket.to_text()

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
                with suppress(TimeoutError):
                    async with asyncio.timeout(GOODBYE_S):
                        await self._say_goodbye()
        finally:
            if self._heartbeat is not None:
                self._heartbeat.cancel()
                with suppress(asyncio.CancelledError):
                    await self._heartbeat
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

    async def leave(self) -> None:
        """Hang up without ending the session: for its grace period it waits on the server to be resumed."""
        self._connection.machine.hang_up()
        await self._connection.shut()

    async def _say_goodbye(self) -> None:
        try:
            await self._connection.send(self._connection.machine.close_command())
        except DuplexClientError:
            # Nobody is there to hear it.
            return

    # -- say -------------------------------------------------------------------------------------------------------

    async def send(self, event: Mapping[str, Any]) -> str:
        """Send any client event, with an ``event_id`` if it has none; returns that id. Ids must differ.

        Waits its turn, while a resume is under way, and while the server is behind. Raises: DuplexSessionClosedError
        when the session is over; DuplexConnectionError when the connection broke under it and the server cannot tell
        whether it arrived.
        """
        stamped = dict(event)
        event_id = str(stamped.setdefault("event_id", f"evt_{os.urandom(16).hex()}"))
        await self._connection.send(stamped, event_id)
        return event_id

    async def append_audio(
        self, pcm: bytes, *, is_speech: bool | None = None, video_frames: Sequence[str] | None = None
    ) -> None:
        """Append caller audio in the configured input format, and pictures (base64 or data URLs, JPEG or PNG) with it.

        A chunk the connection broke under is sent again. Raises: as ``send``.
        """
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
                # A server that cannot tell: sound once too often is heard less than a hole.
                continue

    async def stream_pcm(
        self,
        pcm: bytes,
        *,
        chunk_ms: float = 200,
        realtime: bool = True,
        is_speech: bool | None = None,
        video_frames: Sequence[str] | None = None,
        stacked_video_frames: Sequence[str | None] | None = None,
        progress: bool = False,
    ) -> int:
        """Append ``pcm`` in chunks, each when a microphone would have filled it; at once if not ``realtime``.

        Frame k of ``video_frames`` rides the append that completes model unit k, followed by the composite k of
        ``stacked_video_frames`` unless that is ``None``; the last frame repeats. With ``progress``, ``events()`` gets
        an ``UploadProgress`` every second and at the end. Returns how many appends carried frames. Raises: as ``send``.
        """
        audio = self.config.input_audio
        clock = asyncio.get_running_loop().time
        started_s = reported_s = clock()
        carried = 0
        for chunk in chunks(
            pcm, audio, chunk_ms=chunk_ms, video_frames=video_frames, stacked_video_frames=stacked_video_frames
        ):
            if realtime:
                await asyncio.sleep(max(0.0, started_s + chunk.end_ms / 1000 - clock()))
            await self.append_audio(chunk.pcm, is_speech=is_speech, video_frames=chunk.frames)
            carried += bool(chunk.frames)
            if progress and clock() - reported_s >= PROGRESS_S:
                reported_s = clock()
                self._report(chunk, pcm)
        if progress:
            self._report(Chunk(b"", audio.duration_ms(len(pcm))), pcm)
        return carried

    def _report(self, chunk: Chunk, pcm: bytes) -> None:
        total_ms = self.config.input_audio.duration_ms(len(pcm))
        self._connection.subscriptions.put(
            view({"type": "upload.progress", "sent_ms": chunk.end_ms, "total_ms": total_ms})
        )

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

    def acknowledge(self, server_event_seq: int) -> None:
        """Let the server forget every event up to this number; for ``auto_acknowledge=False``.

        Raises: ValueError for an event that was not received yet.
        """
        if server_event_seq > self._connection.machine.last_seq:
            raise ValueError(f"event {server_event_seq} was not received yet")
        self._connection.acknowledge(server_event_seq)

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
