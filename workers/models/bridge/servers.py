"""The servers a bridge may use: which one begins the next session, and how a session is begun or taken up."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from msgspec import UNSET

from duplex_es.protocol import (
    CloseSession,
    Error,
    FlatError,
    ResumeSession,
    SessionCreated,
    SessionResumed,
    SessionResyncRequired,
    UpdateSession,
)

from .line import Heard, Line, LineLost

BUSY_CODES = ("resource_exhausted", "duplex_session_busy")
AGAIN_CODES = (*BUSY_CODES, "runtime_resume_failed", "log_unavailable", "timeout")
"""A resume refused with one of these may be tried again; with any other the session is gone."""

log = logging.getLogger(__name__)


class NoServer(Exception):
    """Nobody begins a session. ``busy``: somebody would, had it room."""

    def __init__(self, message: str, *, busy: bool) -> None:
        super().__init__(message)
        self.busy = busy


class Refused(Exception):
    """A server will not serve these settings; ``code`` and ``param`` are its own."""

    def __init__(self, code: str, message: str, param: str | None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class SessionGone(Exception):
    """The server does not have the session any more, or not what was said in it meanwhile."""


@dataclass(slots=True)
class Begun:
    """A session that a server has just begun."""

    url: str
    line: Line
    created: SessionCreated


class Servers:
    """Counts what runs where. ``most`` sessions a server, ``None`` for as many as it takes."""

    def __init__(
        self, urls: tuple[str, ...], *, model: str | None, key: str | None, most: int | None, open_timeout_s: float
    ) -> None:
        self._model = model
        self._key = key
        self._most = most
        self._open_timeout_s = open_timeout_s
        self._running = dict.fromkeys(urls, 0)

    def running(self, url: str) -> int:
        """How many sessions of this worker run there."""
        return self._running.get(url, 0)

    def took(self, url: str) -> None:
        """A session runs there that began in another worker."""
        self._running[url] = self.running(url) + 1

    def left(self, url: str) -> None:
        """A session there is over."""
        self._running[url] = max(0, self.running(url) - 1)

    async def begin(self, update: UpdateSession) -> Begun:
        """Begin a session at the least busy server that has room; it counts there. Raises: NoServer, Refused."""
        busy, said = False, "there is no server; option url names none"
        for url in sorted(self._running, key=lambda one: self._running[one]):
            if self._most is not None and self._running[url] >= self._most:
                busy, said = True, f"{url} has as many sessions as it may have ({self._most})"
                continue
            self._running[url] += 1  # Counted before the first wait, so that two callers do not take one place.
            try:
                return await self._begin_at(url, update)
            except LineLost as lost:
                self.left(url)
                busy, said = busy or lost.busy, f"{url}: {lost}"
                log.warning("the model's server %s", said)
            except BaseException:
                self.left(url)
                raise
        raise NoServer(said, busy=busy)

    async def _begin_at(self, url: str, update: UpdateSession) -> Begun:
        line = await Line.dial(url, model=self._model, key=self._key, timeout_s=self._open_timeout_s)
        try:
            async with asyncio.timeout(self._open_timeout_s):
                await line.say(update)
                while True:
                    frame = await line.hear()
                    if isinstance(frame, SessionCreated):
                        return Begun(url, line, frame)
                    refused = _refusal(frame)
                    if refused is not None and refused.code in BUSY_CODES:
                        raise LineLost(refused.message, busy=True)
                    if refused is not None:
                        raise refused
        except TimeoutError as late:
            await line.close()
            raise LineLost(f"it did not begin a session within {self._open_timeout_s:g} s") from late
        except BaseException:
            await line.close()
            raise

    async def resume(self, url: str, resume: ResumeSession) -> tuple[Line, SessionResumed]:
        """Take a session up. Raises: SessionGone, LineLost when it may be tried again."""
        line = await Line.dial(url, model=self._model, key=self._key, timeout_s=self._open_timeout_s)
        try:
            async with asyncio.timeout(self._open_timeout_s):
                await line.say(resume)
                while True:
                    frame = await line.hear()
                    if isinstance(frame, SessionResumed):
                        return line, frame
                    if isinstance(frame, SessionResyncRequired):
                        raise SessionGone(f"a replay is impossible: {frame.reason}")
                    refused = _refusal(frame)
                    if refused is not None and refused.code in AGAIN_CODES:
                        raise LineLost(f"{refused.code}: {refused.message}")
                    if refused is not None:
                        raise SessionGone(f"{refused.code}: {refused.message}")
        except TimeoutError as late:
            await line.close()
            raise LineLost(f"it did not resume the session within {self._open_timeout_s:g} s") from late
        except BaseException:
            await line.close()
            raise

    async def probe(self, update: UpdateSession) -> SessionCreated | None:
        """What a server says of a session, which is ended at once; ``None`` when none can be reached or has room.

        Raises: Refused.
        """
        try:
            begun = await self.begin(update)
        except NoServer as none:
            log.warning("no model server answers now: %s", none)
            return None
        await hang_up(begun.line)
        self.left(begun.url)
        return begun.created


async def hang_up(line: Line, *, within_s: float = 1.0) -> None:
    """End the server's session and the connection, without waiting long for an answer."""
    try:
        async with asyncio.timeout(within_s):
            await line.say(CloseSession())
            while type(await line.hear()).__name__ != "SessionClosed":
                pass
    except (TimeoutError, LineLost):
        log.debug("the model's server did not say goodbye")
    await line.close()


def _refusal(frame: Heard) -> Refused | None:
    if isinstance(frame, FlatError):
        return Refused(frame.code, frame.error, None)
    if isinstance(frame, Error):
        param = None if frame.error.param is UNSET else frame.error.param
        return Refused(frame.error.code, frame.error.message, param)
    return None
