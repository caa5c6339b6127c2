"""Ends sessions that nobody holds and no worker takes. Every gateway does it: the work is shared and done once."""

from __future__ import annotations

import asyncio
import logging
import random

from duplex_es.log.api import SessionLog
from duplex_es.log.errors import LogError

from .settings import Settings

INTERVAL_S = 10.0
"""About how often one gateway looks; drawn around it, so that gateways that started together do not go together."""

_log = logging.getLogger(__name__)


class Sweeper:
    """Looks now and then, for as long as the gateway runs."""

    def __init__(self, log: SessionLog, settings: Settings) -> None:
        self._log = log
        self._unclaimed_s = settings.unclaimed_s

    async def run(self) -> None:
        """Sweep forever."""
        while True:
            await asyncio.sleep(INTERVAL_S * random.uniform(0.7, 1.3))
            await self.sweep()

    async def sweep(self) -> None:
        """Look once. A log that does not answer is asked again next time."""
        try:
            ended = await self._log.expire_unclaimed(self._unclaimed_s)
        except LogError as error:
            _log.debug("not swept: %s", error)
            return
        for ref in ended:
            _log.info("session=%s incarnation=%d ended: unclaimed", ref.session_id, ref.incarnation)
