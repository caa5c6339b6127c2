"""Keeps the attachments of all sockets of this gateway alive, in one loop, and tells those that were lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from duplex_es.log.api import Attachment, SessionLog
from duplex_es.log.errors import Fenced, LogError, LogUnavailable

_log = logging.getLogger(__name__)
Lose = Callable[[LogError], None]


class Leases:
    """The attachments to renew, each with what to call when it is lost. Calls come from ``run``, at most once each.

    Losing says why: ``Fenced`` when the attachment holds nothing any more, ``LogUnavailable`` when the log has not
    answered for ``patience_s``.
    """

    def __init__(
        self,
        log: SessionLog,
        *,
        interval_s: float,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._clock = clock
        self._held: dict[Attachment, Lose] = {}
        self._answered_s = clock()

    def hold(self, attachment: Attachment, lose: Lose) -> None:
        """Renew ``attachment`` from now on."""
        self._held[attachment] = lose

    def release(self, attachment: Attachment) -> None:
        """Renew it no more. Idempotent."""
        self._held.pop(attachment, None)

    async def run(self) -> None:
        """Renew forever."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.renew()

    async def renew(self) -> None:
        """Renew all once. An answer of the log, whatever it says, ends the time of silence."""
        held = list(self._held)
        if not held:
            self._answered_s = self._clock()
            return
        try:
            lost = await self._log.renew(held, [])
        except LogError as error:
            self._not_renewed(error, held)
            return
        self._answered_s = self._clock()
        for attachment in lost:
            if isinstance(attachment, Attachment):
                self._lose(attachment, Fenced(f"attachment {attachment.generation} holds nothing any more"))

    def _not_renewed(self, error: LogError, held: list[Attachment]) -> None:
        silent_s = self._clock() - self._answered_s
        _log.warning("leases of %d sockets not renewed for %.1f s: %s", len(held), silent_s, error)
        if silent_s >= self._patience_s:
            for attachment in held:
                self._lose(attachment, LogUnavailable(str(error)))

    def _lose(self, attachment: Attachment, error: LogError) -> None:
        if (lose := self._held.pop(attachment, None)) is not None:
            lose(error)
