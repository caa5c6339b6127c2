"""One socket that holds a session: its two directions side by side, and what happens at its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from duplex_es.log.api import START, Attachment, EntryId, Follower
from duplex_es.log.errors import Fenced, LogError, SessionUnknown
from duplex_es.protocol import (
    ERRORS,
    CloseSession,
    Frame,
    OpeningAnswer,
    Plain,
    ProtocolError,
    RecordUnreadable,
    RefuseCommand,
    Said,
)
from duplex_es.protocol.dialects import DUPLEX, NATIVE, STOCK

from . import edge, endings
from .acknowledging import Acknowledger
from .downlink import Downlink, SocketLost
from .durability import MEMORY, STRICT, DurableSeq, persisted
from .endings import Ending
from .heard import last_heard
from .peer import Peer
from .service import Service
from .uplink import LAST_WORDS_S, Uplink
from .writer import InputWriter

LEAVE_S = 5.0
"""How long leaving may take; a lease that was not given back runs out by itself."""

_log = logging.getLogger(__name__)


class Connection:
    """Holds ``attachment`` for one peer, from the attach to the detach. Run it once.

    ``token`` is the secret this socket's client resumes with; it leaves in frames of this socket and nowhere else.
    ``after`` is the last frame the client has, ``head_seq`` the last one there was at the attach. ``arrived`` is called
    once the socket is no more work than any other: opening has been asked for, or what was missed has been sent.
    ``durable``: the client asks to be told how much would survive.
    """

    def __init__(
        self,
        service: Service,
        peer: Peer,
        attachment: Attachment,
        follower: Follower,
        *,
        model: str,
        token: str,
        after: EntryId = START,
        head_seq: int = 0,
        arrived: Callable[[], None] = lambda: None,
        durable: bool = False,
    ) -> None:
        self._service = service
        self._peer = peer
        self._attachment = attachment
        self.model = model
        self._token = token
        self._head_seq = head_seq
        self._arrived = arrived
        self._durability = service.settings.durability if durable and peer.dialect == DUPLEX else None
        self._welcomed = False
        self._fate: asyncio.Future[Ending | LogError] = asyncio.get_running_loop().create_future()
        self._farewells: set[asyncio.Task[bool]] = set()
        self._writer = InputWriter(service.log, attachment)
        keep = self._keep if service.settings.durability == STRICT else None
        self._downlink = Downlink(peer, follower, attachment, after, keep, peer.watch)
        self._acknowledger = Acknowledger(service.log, attachment, self._known_seq)
        self._uplink = Uplink(
            peer,
            self._writer,
            self._acknowledger,
            first_frame=self._confirm,
            max_event_bytes=service.settings.max_event_bytes,
        )

    # -- the two ways to begin -------------------------------------------------------------------------------------

    async def open(self, inputs: Sequence[Said]) -> None:
        """Write the session's first ``inputs``, wait for its worker, and serve it until the socket or it ends."""
        await self._serve(self._speak_first(), inputs)

    async def resume(self, session: Plain) -> None:
        """Tell the peer that it holds the session again, and serve it from there.

        ``session`` is the public object of the opening: stock clients know no resume, only a session created.
        """
        await self._serve(self._speak_again(session))

    async def _serve(self, speaking: Coroutine[Any, Any, Ending], inputs: Sequence[Said] = ()) -> None:
        named = self._attachment.ref.session_id, self._attachment.generation
        self._peer.watch.holds(self._attachment, self.model, self._peer.dialect, self._sent_seq)
        self._service.leases.hold(self._attachment, self._decide)
        self._service.connections.add(self)
        try:
            ending = await self._first_ending(speaking, inputs)
            cause = ending.reason or ending.cause or "closed"
            _log.info("session=%s generation=%d socket ends: code=%d cause=%s", *named, ending.code, cause)
            await endings.conclude(self._peer, ending)
            await self._leave(ending)
        finally:
            self._service.leases.release(self._attachment)
            self._service.connections.discard(self)

    async def _first_ending(self, speaking: Coroutine[Any, Any, Ending], inputs: Sequence[Said]) -> Ending:
        try:
            if inputs:
                await self._writer.say(*inputs)
                self._arrived()
            # The session's own ending goes before that of the socket when both come at once.
            return await _race(
                speaking, self._guard(), self._uplink.run(), self._acknowledger.run(), self._follow_durability()
            )
        except LogError as error:
            if not isinstance(error, Fenced):
                _log.warning("session=%s %s: %s", self._attachment.ref.session_id, type(error).__name__, error)
            return endings.for_log_error(error, self._attachment)
        except RecordUnreadable as error:
            _log.error("session=%s output unreadable: %s", self._attachment.ref.session_id, error)
            return endings.failed()
        except Exception:
            _log.exception("session=%s gateway failed", self._attachment.ref.session_id)
            return endings.failed()
        finally:
            speaking.close()

    # -- down ------------------------------------------------------------------------------------------------------

    async def _speak_first(self) -> Ending:
        limit_s = self._service.settings.opening_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._downlink.opening()
        except TimeoutError:
            error = ProtocolError("runtime_open_failed", f"No worker opened the session within {limit_s:g} s; retry.")
            return endings.refused(error, cause="opening_timeout")
        if isinstance(answer, Ending):
            return answer
        if isinstance(answer.error, RefuseCommand):
            return endings.refused(_as_error(answer.error))
        token = None if self._peer.dialect == NATIVE else self._token
        return await self._speak(edge.created(_session_of(answer), self._attachment, token, self._durability))

    async def _speak_again(self, session: Plain) -> Ending:
        if self._peer.dialect in STOCK:
            return await self._speak(edge.created(session, self._attachment, self._token))
        heard = await last_heard(self._service.log, self._attachment)
        return await self._speak(edge.resumed(self._attachment, self._token, heard, self._durability))

    async def _speak(self, welcome: Frame) -> Ending:
        try:
            if not await self._peer.tell(welcome):
                raise SocketLost
            self._welcomed = True
            self._peer.watch.welcomed()
            return await self._downlink.run(self._head_seq, self._arrived)
        except SocketLost:
            # How the socket ended is the uplink's to tell, after what it has read before.
            return await asyncio.get_running_loop().create_future()

    async def _keep(self) -> None:
        """Return when what was read would survive, so that what cannot be taken back may be shown."""
        service = self._service
        await persisted(service.log, self._attachment.ref, service.settings.log_patience_s)

    async def _follow_durability(self) -> None:
        if self._durability not in (None, MEMORY):
            sent = DurableSeq(self._service.log, self._attachment.ref, self._sent_seq, self._tell_durable)
            await sent.run()

    def _sent_seq(self) -> int:
        return self._downlink.last_seq if self._welcomed else 0

    async def _tell_durable(self, seq: int) -> bool:
        return await self._peer.tell(edge.durable(self._attachment, seq))

    # -- up --------------------------------------------------------------------------------------------------------

    def _known_seq(self) -> int:
        return max(self._downlink.last_seq, self._head_seq)

    async def _confirm(self) -> None:
        """The client spoke after its welcome was sent: it has the new token, so the one it presented may die."""
        if self._attachment.generation > 1:
            await self._service.log.confirm(self._attachment)

    # -- from outside ----------------------------------------------------------------------------------------------

    @property
    def at_turn_end(self) -> bool:
        """Whether closing this socket now would cut nothing off: it is open, and no answer is under way."""
        return self._welcomed and not self._downlink.answering

    @property
    def blocked_s(self) -> float:
        """For how long the client has taken nothing of what there is for it."""
        return self._peer.blocked_for_s()

    @property
    def buffered_bytes(self) -> tuple[int, int]:
        """What was read and is not yet in the log, and what was handed to the client's socket and is not yet taken."""
        return self._uplink.held_bytes, self._peer.waiting_bytes

    def drop_if_stalled(self) -> None:
        """End this connection if its client takes nothing any more; the log keeps what it has not heard."""
        if self._peer.blocked_for_s() > self._service.settings.stall_s:
            self._decide(endings.STALLED)

    def announce_departure(self, grace_ms: int) -> None:
        """Tell the client that this socket will close within ``grace_ms``; waits for nothing."""
        if self._welcomed:
            token = self._token if self._peer.dialect == DUPLEX else None
            task = asyncio.create_task(self._peer.tell(edge.going_away(self._attachment, grace_ms, token)))
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)

    def depart(self) -> None:
        """End this connection because the gateway stops."""
        self._decide(endings.STOPPING)

    def _decide(self, fate: Ending | LogError) -> None:
        if not self._fate.done():
            self._fate.set_result(fate)

    async def _guard(self) -> Ending:
        """The ending that somebody else decided on: the leases, or whoever stops the gateway."""
        fate = await self._fate
        if isinstance(fate, Ending):
            return fate
        if not isinstance(fate, Fenced):
            raise fate
        ref = self._attachment.ref
        head = await self._service.log.head(ref.session_id)
        if head.ref != ref or head.state == "closed":
            await asyncio.sleep(LAST_WORDS_S)  # It is over: the downlink says it better, if it can.
            raise SessionUnknown(ref.session_id)
        if head.generation > self._attachment.generation:
            return endings.replaced(self._attachment)
        _log.error("session=%s generation=%d detached by nobody", ref.session_id, self._attachment.generation)
        return endings.failed()

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _leave(self, ending: Ending) -> None:
        """Say in the log that the socket is gone, and end a session that nobody can come back to."""
        for task in self._farewells:
            task.cancel()
        if ending.cause is None:
            return
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._acknowledger.flush()
                await self._uplink.flush()
                if self._is_left_for_good(ending):
                    await self._writer.say(CloseSession())
                await self._writer.detach(ending.cause)
        except (Fenced, SessionUnknown):
            return  # Another socket holds the session, or it is over: what there was to say is said.
        except (LogError, TimeoutError) as error:
            _log.warning("session=%s not detached, its lease runs out: %r", self._attachment.ref.session_id, error)

    def _is_left_for_good(self, ending: Ending) -> bool:
        """Whether nobody will resume: the client never heard of its session, cannot resume, or just hung up.

        A stock client has no other way to hang up than to close its socket; one that was cut off did not mean to.
        """
        if self._attachment.generation == 1 and not self._welcomed:
            return True
        dialect = self._peer.dialect
        return dialect == NATIVE or (dialect in STOCK and ending.cause == endings.HUNG_UP)


async def _race(*contenders: Coroutine[Any, Any, Ending | None]) -> Ending:
    """The first ending any of them returns; earlier arguments win ties. The others are cancelled and awaited.

    Raises: what the first to fail raised.
    """
    tasks = [asyncio.create_task(contender) for contender in contenders]
    try:
        running = set(tasks)
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task in done and (ending := task.result()) is not None:
                    return ending
        return endings.failed()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _as_error(refusal: RefuseCommand) -> ProtocolError:
    """The worker's refusal, under a code this build can say."""
    code = refusal.code if refusal.code in ERRORS else "internal_error"
    return ProtocolError(code, refusal.message, refusal.param, refusal.event_id)


def _session_of(answer: OpeningAnswer) -> Plain:
    """The public session object. Raises: RecordUnreadable for an answer that holds neither it nor a refusal."""
    if not isinstance(answer.session, dict):
        raise RecordUnreadable("an opening answer without a session")
    return answer.session
