"""What of a session would survive the loss of a node: told to clients that ask, waited for at the level ``strict``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from duplex_es.log.api import SessionLog, SessionRef
from duplex_es.log.errors import ConfigurationError, LogUnavailable
from duplex_es.protocol import (
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDeleted,
    ConversationItemDone,
    ConversationItemTruncated,
    DuplexFunctionCallDone,
    Frame,
    InputAudioBufferCommitted,
    ResponseDone,
    ResponseFunctionCallArgumentsDone,
    ResponseOutputItemDone,
    SessionClosed,
    given,
)

MEMORY, STANDARD, STRICT = "memory", "standard", "strict"
INTERVAL_S = 0.1
"""The least time between two questions to the store about one session; what it moves is not urgent."""
AGAIN_S = 0.05
"""How soon a question that the store did not confirm is asked again."""

_ALWAYS = (
    InputAudioBufferCommitted,
    ConversationItemDeleted,
    ConversationItemTruncated,
    ResponseFunctionCallArgumentsDone,
    DuplexFunctionCallDone,
    SessionClosed,
)
_ITEMS = (ConversationItemAdded, ConversationItemCreated, ConversationItemDone, ResponseOutputItemDone)

_log = logging.getLogger(__name__)


def is_irreversible(frame: Frame) -> bool:
    """Whether a client may do something for ``frame`` that cannot be undone, or takes it as the word that it holds.

    Function calls, the end of the session, and what entered, changed or left the conversation. An item that an answer
    is only beginning to fill is none, so no sound waits for it.
    """
    if isinstance(frame, _ALWAYS):
        return True
    if isinstance(frame, ResponseDone):
        return any(item.type == "function_call" for item in given(frame.response.output, []))
    return isinstance(frame, _ITEMS) and given(frame.item.status, "") != "in_progress"


async def persisted(log: SessionLog, ref: SessionRef, patience_s: float) -> None:
    """Return when what was read of this session so far would survive, however often the store has to be asked.

    Raises: LogUnavailable when it did not say so for ``patience_s``, ConfigurationError when it never can.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    while True:
        try:
            return await log.persisted(ref)
        except LogUnavailable:
            if loop.time() >= deadline_s:
                raise
            await asyncio.sleep(AGAIN_S)


class DurableSeq:
    """Tells one socket how far its session is durable, whenever that has moved. ``sent`` returns the last seq sent."""

    def __init__(
        self, log: SessionLog, ref: SessionRef, sent: Callable[[], int], tell: Callable[[int], Awaitable[bool]]
    ) -> None:
        self._log = log
        self._ref = ref
        self._sent = sent
        self._tell = tell
        self._told = 0

    async def run(self) -> None:
        """Follow and tell until the socket takes nothing more, or the store turns out to keep nothing."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            if (seq := self._sent()) <= self._told:
                continue
            try:
                await self._log.persisted(self._ref)
            except LogUnavailable:
                continue  # Nothing is known to be lost; the number just does not move.
            except ConfigurationError as error:
                _log.warning("session=%s has no durable_seq: %s", self._ref.session_id, error)
                return
            self._told = seq
            if not await self._tell(seq):
                return
