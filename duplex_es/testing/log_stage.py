"""The stage on which the log suite plays: what a backend supplies, and sessions that are already going."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from ..log.api import Attachment, Claim, Entry, Follower, Head, Notice, Record, SessionLog, SessionRef
from ..log.settings import LogSettings

T = TypeVar("T")
PATIENCE_S = 30.0


async def eventually(ask: Callable[[], Awaitable[T]], until: Callable[[T], bool] = bool) -> T:
    """Ask again until the answer satisfies ``until``. Raises: AssertionError after half a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = await ask()
        if until(answer):
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {PATIENCE_S} s"
        await asyncio.sleep(0.01)


async def take(follower: Follower, count: int) -> list[Entry]:
    """The next ``count`` entries; notices in between are left out."""
    found: list[Entry] = []
    async with asyncio.timeout(PATIENCE_S):
        news = follower.__aiter__()
        while len(found) < count:
            item = await anext(news)
            if isinstance(item, Entry):
                found.append(item)
    return found


async def take_until_end(follower: Follower) -> list[Entry | Notice]:
    """Everything up to the end of the iteration."""
    async with asyncio.timeout(PATIENCE_S):
        return [item async for item in follower]


def ids(entries: Sequence[Entry | Notice]) -> list[str]:
    """The ids of entries, and the names of notices."""
    return [str(item.id) if isinstance(item, Entry) else type(item).__name__ for item in entries]


def records(*bodies: bytes) -> list[Record]:
    """Records without audio."""
    return [Record(body) for body in bodies]


class LogStage:
    """What a backend supplies, and what the tests play with.

    A subclass overrides the four ``raw`` and ``make`` methods. The raw ones look past the log, so that the suite never
    proves a method with itself. Streams are named ``in``, ``out``, ``in-audio`` and ``out-audio``.
    """

    async def make_log(self, settings: LogSettings) -> SessionLog:
        """A connected log. Logs made in one test share a store."""
        raise NotImplementedError

    async def raw_ids(self, log: SessionLog, ref: SessionRef, stream: str) -> list[str]:
        """The ids that a stream holds, ascending."""
        raise NotImplementedError

    async def raw_entry(self, log: SessionLog, ref: SessionRef, stream: str, entry_id: str) -> bytes | None:
        """What a stream holds under an id."""
        raise NotImplementedError

    async def raw_trim(self, log: SessionLog, ref: SessionRef, stream: str, first_kept: str) -> None:
        """Drop what lies below an id, as an operator's retention would."""
        raise NotImplementedError

    async def raw_erase(self, log: SessionLog, ref: SessionRef) -> None:
        """Drop the session altogether, as a store that was emptied would."""
        raise NotImplementedError

    @pytest.fixture
    def settings(self) -> LogSettings:
        """Ordinary leases, impatient sweeps."""
        return LogSettings(sweep_interval_s=0.05)

    @pytest.fixture
    def hasty(self) -> LogSettings:
        """Leases and retention that run out while a test looks on."""
        return LogSettings(lease_s=0.2, retention_s=0.2, sweep_interval_s=0.05)

    @pytest.fixture
    async def log(self, settings: LogSettings) -> AsyncIterator[SessionLog]:
        """A connected log, given back at the end."""
        log = await self.make_log(settings)
        yield log
        await log.close_connections()

    @pytest.fixture
    async def hasty_log(self, hasty: LogSettings) -> AsyncIterator[SessionLog]:
        """A connected log whose leases run out soon."""
        log = await self.make_log(hasty)
        yield log
        await log.close_connections()

    @pytest.fixture
    def model(self) -> str:
        """A model that no other test knows: only this test's sessions wait for it."""
        return f"model-{uuid.uuid4().hex}"

    @staticmethod
    async def created(log: SessionLog, model: str, session_id: str | None = None) -> Attachment:
        """A new session that waits; its token digest is ``token-1``."""
        ref = await log.next_incarnation(session_id or f"s-{uuid.uuid4().hex}")
        return await log.create(ref, model=model, token_digest=b"token-1", gateway="gateway-1", record=b"created")

    @classmethod
    async def claimed(cls, log: SessionLog, model: str) -> tuple[Attachment, Claim]:
        """A new session that worker-1 holds."""
        attachment = await cls.created(log, model)
        claim, _ = await cls.must_claim(log, "worker-1", model)
        assert claim.ref == attachment.ref
        return attachment, claim

    @staticmethod
    async def must_claim(log: SessionLog, worker: str, model: str) -> tuple[Claim, Head]:
        """The claim of a session that waits, or will in a moment."""
        claimed = await eventually(lambda: log.claim(worker, [model]))
        assert claimed is not None
        return claimed

    @staticmethod
    async def attached(log: SessionLog, ref: SessionRef, presented: bytes, following: bytes) -> Attachment:
        """A second socket's attachment, on another gateway."""
        attachment, _ = await log.attach(
            ref, presented_digest=presented, next_digest=following, gateway="gateway-2", record=b"attached"
        )
        return attachment

