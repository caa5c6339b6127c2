"""One caller of a server elsewhere: requests out, frames in, and a memory that a successor goes on from.

Order matters twice. What a frame comes to is said right after the place it is remembered at, so that both are in the
log or neither is; and the server forgets a frame only long after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec
from msgspec import UNSET, UnsetType

from duplex_es.model import (
    CloseModel,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    Interrupt,
    ModelDroppedInput,
    ModelFailed,
    ModelInfo,
    ModelRemembered,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
    Signal,
    ToolOutput,
)
from duplex_es.protocol import (
    AcknowledgeEvents,
    CancelResponse,
    ClearInput,
    InputAudioBufferCommitted,
    ResponseOutputAudioTranscriptDelta,
    ResumeSession,
    SessionClosed,
    SessionExpired,
    SessionHeartbeatAck,
    SessionReplaced,
    given,
)

from .hearing import Hearing
from .line import Heard, Line, LineLost
from .options import BridgeOptions
from .outbox import Outbox
from .past import Past, as_items
from .presets import Preset
from .seal import Seal
from .servers import Begun, NoServer, Refused, Servers, SessionGone, hang_up
from .standing import Standing
from .telling import Telling
from .wording import changed, opening

BEAT_S = 30.0
ACK_S = 10.0
"""Frames are acknowledged when they are at least so old: by then the log has what they came to."""
WORDS_S = 5.0
"""So long after a turn was taken in the server may be silent about what it understood."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
SILENT_FRAMES = 64
LOST = "worker_lost"
LOST_MESSAGE = (
    "The model's server lost its session: what it knew beyond the written history is gone. It goes on from there."
)

log = logging.getLogger(__name__)


class BridgeSession:
    """Owns one session of one server at a time."""

    def __init__(
        self,
        request: OpenModel,
        emit: Emit,
        servers: Servers,
        info: ModelInfo,
        options: BridgeOptions,
        preset: Preset,
        seal: Seal,
    ) -> None:
        self._request = request
        self._emit = emit
        self._servers = servers
        self._info = info
        self._options = options
        self._preset = preset
        self._seal = seal
        self._name = f"{request.session_id}:{request.incarnation}"
        self._hearing = Hearing(Standing(epoch=request.epoch), info, Past(request.history))
        self._outbox = Outbox()
        self._telling = Telling(self._hearing, self._outbox, info, preset)
        self._line: Line | None = None
        self._serving: asyncio.Task[None] | None = None
        self._waits: set[asyncio.TimerHandle] = set()
        self._token = ""
        self._last_event_id: str | UnsetType | None = UNSET
        self._seen = 0
        self._silent = 0
        self._closed = False

    @property
    def _at(self) -> Standing:
        return self._hearing.standing

    # -- beginning, and going on -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take up the server's session where the lost worker was, or begin one. Raises: NoServer, Refused."""
        request = self._request
        before = Standing.unpacked(request.memory) if request.memory else None
        if before is not None:
            self._hearing.standing = before
            self._servers.took(before.url)
            try:
                await self._resume(patience_s=self._options.resume_s)
                self._catch_up()
            except SessionGone as gone:
                log.warning("session=%s is gone at its server: %s", request.session_id, gone)
                self._servers.left(before.url)
                await self._begin_anew(before)
        else:
            await self._begin(Standing(epoch=request.epoch, turns=_next_turn(request)))
            if request.memory or request.open_turn is not None:
                self._tell_lost()
        self._serving = asyncio.create_task(self._serve(), name=f"bridge {request.session_id}")

    async def _begin(self, fresh: Standing) -> None:
        """A session of a server that knows nothing, told what was said here. Raises: NoServer, Refused."""
        history = self._hearing.past.items
        begun = await self._servers.begin(
            opening(self._request, self._options, self._preset, ends_turns=self._info.ends_turns)
        )
        self._adopt(begun, fresh)
        told = as_items(history)
        self._outbox.put(*told)
        if history:
            fresh.told_item = history[-1].item_id
        self._remember()

    def _adopt(self, begun: Begun, fresh: Standing) -> None:
        session_id = begun.created.session.get("id")
        fresh.url, fresh.session_id = begun.url, str(session_id)
        fresh.incarnation = given(begun.created.incarnation, 0)
        self._keep_token(fresh, given(begun.created.resume_token, ""))
        fresh.sent.epoch = fresh.epoch
        self._hearing.standing = fresh
        self._line = begun.line
        self._seen = 0
        self._telling.beats.clear()

    def _keep_token(self, at: Standing, token: str) -> None:
        self._token = token
        at.token = self._seal.closed(token, self._name)

    async def _resume(self, *, patience_s: float) -> None:
        """Take the server's session up where ``standing`` is. Raises: SessionGone."""
        at = self._at
        token = self._token or self._seal.opened(at.token, self._name)
        if not token:
            raise SessionGone("there is no token to resume it with")
        wait_s, clock = FIRST_WAIT_S, asyncio.get_running_loop()
        give_up_s = clock.time() + patience_s
        while True:
            resume = ResumeSession(
                session_id=at.session_id,
                incarnation=at.incarnation,
                resume_token=token,
                last_received_server_event_seq=at.seq,
            )
            try:
                self._line, resumed = await self._servers.resume(at.url, resume)
                break
            except LineLost as lost:
                if clock.time() + wait_s > give_up_s:
                    raise SessionGone(f"the server cannot be reached: {lost}") from lost
            await asyncio.sleep(wait_s)
            wait_s = min(LONGEST_WAIT_S, 2 * wait_s)
        self._hearing.forget_held()
        self._seen = at.seq
        self._keep_token(at, resumed.resume_token)
        self._last_event_id = resumed.last_client_event_id
        self._outbox.resumed(resumed.last_client_event_id)
        self._remember()

    def _catch_up(self) -> None:
        """After a takeover: what the server was told is what it says, and what it missed of an interruption is told."""
        at, request, last = self._at, self._request, self._last_event_id
        if last is None:
            at.sent.audio_ms, at.sent.turns, at.sent.asked = 0, [], []
        elif last is not UNSET:
            at.sent.arrived(last)
        at.commits = [item_id for item_id in at.commits if item_id in at.sent.turns]
        at.asked = [response_id for response_id in at.asked if response_id in at.sent.asked]
        self._telling.fed_before_ms = at.sent.audio_ms
        for utterance_id, utterance in at.utterances.items():
            if utterance.committed:
                self._await_words(utterance_id)
        if request.epoch > at.epoch or (at.cutting and at.sent.epoch < request.epoch):
            at.cutting, at.sent.epoch = 0, min(at.sent.epoch, request.epoch - 1)
            self._telling.cut(request.epoch, None)
        elif at.cutting:
            at.cutting = 1
            self._telling.barrier()
        self._remember()

    async def _begin_anew(self, lost: Standing) -> None:
        """Another session in place of one that is gone; the client is told. Raises: NoServer, Refused."""
        signals = self._hearing.unheard_commits()
        turns = max(lost.turns, _next_turn(self._request))
        self._outbox.clear()
        await self._begin(Standing(epoch=max(lost.epoch, self._request.epoch), turns=turns))
        self._say(signals)
        self._tell_lost()

    def _tell_lost(self) -> None:
        self._say([ModelFailed(epoch=self._at.epoch, code=LOST, message=LOST_MESSAGE)])

    # -- requests ----------------------------------------------------------------------------------------------------

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                dropped_ms = self._telling.feed(request)
                if dropped_ms:
                    self._say([ModelDroppedInput(epoch=self._at.epoch, duration_ms=dropped_ms)])
                return
            case EndTurn():
                self._telling.end_turn(request)
            case Generate():
                self._telling.generate(request)
            case Interrupt():
                self._telling.cut(request.epoch, request.heard_text)
            case ResetInput():
                self._telling.adopt_epoch(request.epoch)
                self._outbox.put(ClearInput(event_id=self._at.sent.event_id("clear")))
            case ToolOutput():
                self._telling.tool_output(request)
            case ReconfigureModel():
                event_id = self._at.sent.event_id("update")
                update = changed(request, self._request, ends_turns=self._info.ends_turns, event_id=event_id)
                self._outbox.put(update)
                self._request = _reconfigured(self._request, request)
            case CloseModel():
                await self._close(goes_on=request.goes_on)
                return
        self._remember()

    async def drop_line(self) -> None:
        """Break the connection, as a network does; the session goes on over another."""
        if self._line is not None:
            await self._line.close()

    async def _close(self, *, goes_on: bool) -> None:
        if self._closed:
            return
        self._closed = True
        for wait in self._waits:
            wait.cancel()
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        self._servers.left(self._at.url)
        if self._line is not None:
            # Whoever takes the session up takes the server's up, too: there it is only left.
            keeps = goes_on and self._info.memory_bytes > 0
            await (self._line.close() if keeps else hang_up(self._line))

    # -- the server --------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Talk with the server until the session is closed, over as many connections as it takes."""
        while not self._closed:
            try:
                await self._converse()
            except LineLost as lost:
                log.info("session=%s lost its server: %s", self._request.session_id, lost)
                patience_s = self._options.resume_s
            except SessionGone as gone:
                log.warning("session=%s was ended by its server: %s", self._request.session_id, gone)
                patience_s = None
            try:
                await self._go_on(patience_s)
            except (NoServer, Refused) as none:
                log.error("session=%s has no server any more: %s", self._request.session_id, none)
                message = "The model's server is gone, and no other takes the session."
                self._say(
                    [
                        ModelFailed(
                            epoch=self._at.epoch,
                            code="runtime_data_plane_stream_failed",
                            message=message,
                            fatal=True,
                        )
                    ]
                )
                return

    async def _go_on(self, patience_s: float | None) -> None:
        """After a connection ended: the same session again, else another. Raises: NoServer, Refused."""
        if self._line is not None:
            await self._line.close()
        if patience_s is not None:
            try:
                await self._resume(patience_s=patience_s)
                return
            except SessionGone as gone:
                log.warning("session=%s is gone at its server: %s", self._request.session_id, gone)
        lost = self._at
        self._servers.left(lost.url)
        await self._begin_anew(lost)

    async def _converse(self) -> None:
        """One connection, both ways. Raises: LineLost, SessionGone."""
        line = self._line
        if line is None:
            raise LineLost("there is no connection")
        others = [asyncio.create_task(self._send(line)), asyncio.create_task(self._stay_alive())]
        try:
            while True:
                await self._hear(await line.hear())
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _send(self, line: Line) -> None:
        with contextlib.suppress(LineLost):  # The one who hears says so.
            while True:
                await line.say(await self._outbox.next())

    async def _stay_alive(self) -> None:
        """Heartbeats, and acknowledgements of what is long in the log."""
        acknowledged = ripe = 0
        since_beat_s = 0.0
        while True:
            await asyncio.sleep(ACK_S)
            if ripe > acknowledged:
                acknowledged = ripe
                self._outbox.put(AcknowledgeEvents(server_event_seq=ripe))
            ripe = self._at.seq
            since_beat_s += ACK_S
            if since_beat_s >= BEAT_S:
                since_beat_s = 0.0
                self._telling.beat(is_barrier=False)

    async def _hear(self, frame: Heard) -> None:
        hearing, seq = self._hearing, getattr(frame, "server_event_seq", UNSET)
        if isinstance(seq, int):
            if seq <= self._seen:
                return
            if hearing.holds and not isinstance(frame, ResponseOutputAudioTranscriptDelta):
                signals = hearing.flush()
                self._at.seq = self._seen
                self._say(signals)
            self._seen = seq
        match frame:
            case SessionHeartbeatAck():
                self._outbox.confirmed()
                if self._telling.beats and self._telling.beats.pop(0):
                    self._at.cutting = max(0, self._at.cutting - 1)
            case SessionClosed(reason=reason) | SessionExpired(reason=reason):
                raise SessionGone(reason)
            case SessionReplaced():
                # Another worker has the session now; this one will be told, and must not fetch it back.
                await asyncio.sleep(self._options.resume_s)
                raise SessionGone("it was taken up by somebody else")
        signals = hearing.take(frame)
        if not hearing.holds and isinstance(seq, int):
            self._at.seq = seq
        self._say(signals)
        if hearing.is_to_be_cancelled:
            hearing.is_to_be_cancelled = False
            self._outbox.put(CancelResponse(event_id=self._at.sent.event_id("cut")))
        if isinstance(frame, InputAudioBufferCommitted):
            self._await_words(frame.item_id)

    def _await_words(self, item_id: str) -> None:
        """Do not wait for ever for what the server understood."""

        def give_up() -> None:
            self._say(self._hearing.give_up_words(item_id))

        self._waits = {wait for wait in self._waits if not wait.cancelled() and wait.when() > _now_s()}
        self._waits.add(asyncio.get_running_loop().call_later(WORDS_S, give_up))

    # -- signals -----------------------------------------------------------------------------------------------------

    def _say(self, signals: list[Signal]) -> None:
        """Signal what a frame came to. Its place goes out right before the last of it: the two are kept together."""
        if self._closed:
            return
        if not signals:
            self._silent += 1
            if self._silent >= SILENT_FRAMES:
                self._remember()
            return
        for signal in signals[:-1]:
            self._emit(signal)
        self._remember()
        self._emit(signals[-1])

    def _remember(self) -> None:
        self._silent = 0
        if self._info.memory_bytes and not self._closed:
            self._emit(ModelRemembered(epoch=self._at.epoch, data=self._at.packed(), anew=True))


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _next_turn(request: OpenModel) -> int:
    return 0 if request.open_turn is None else request.open_turn + 1


def _reconfigured(before: OpenModel, now: ReconfigureModel) -> OpenModel:
    """The settings that another session would begin with."""
    return msgspec.structs.replace(before, **{name: getattr(now, name) for name in now.__struct_fields__})
