"""Bugs to plant, each by replacing one thing of the product for as long as a test wants: the simulation must find them.

A mutation that cannot be planted any more raises, so that none of them goes stale unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from duplex_es.log.api import START, EntryId
from duplex_es.log.appender import Appender
from duplex_es.log.follower import RedisFollower
from duplex_es.log.writers import Writer
from duplex_es.session import step as session_step
from duplex_es.session.events import WorkerChanged
from duplex_es.session.inputs import WorkerTookOver
from gateway import connection
from gateway.heard import Heard
from workers import actor

from .lua import SCRIPTING

_CONTROL_RECORD = re.compile(rb"^\s*redis\.call\('XADD', (?:input|output), id, 'm', record\)\n", re.MULTILINE)
_FENCE_OFF = re.compile(rb"^\s*fence_off\((?:input|output)_audio, id\)\n", re.MULTILINE)


@contextmanager
def _rewritten(*patterns: re.Pattern[bytes]) -> Iterator[None]:
    """The log's Lua without the lines that match."""

    def rewrite(text: bytes) -> bytes:
        for pattern in patterns:
            text, count = pattern.subn(b"", text)
            if not count and b"register_function" in text:
                raise AssertionError(f"nothing to remove: {pattern.pattern!r}")
        return text

    SCRIPTING.rewrite = rewrite
    SCRIPTING.forget()
    try:
        yield
    finally:
        SCRIPTING.rewrite = None
        SCRIPTING.forget()


@contextmanager
def no_control_record() -> Iterator[None]:
    """Claims and attachments leave no entry in their stream: nothing there refuses the writer before them."""
    with _rewritten(_CONTROL_RECORD, _FENCE_OFF):
        yield


@contextmanager
def no_fence_in_ids() -> Iterator[None]:
    """Every writer uses generation 1 in the ids of its entries."""
    add = Appender._add

    def constant(self: Any, commands: Any, writer: Any, number: int, *rest: Any) -> None:
        add(self, commands, _Generation1(writer), number, *rest)

    with _rewritten(_CONTROL_RECORD, _FENCE_OFF), patch.object(Appender, "_add", constant):
        yield


class _Generation1:
    """A writer that says it is of the first generation."""

    generation = 1

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


@contextmanager
def no_comparison() -> Iterator[None]:
    """After a broken connection the appender trusts what it remembers, instead of looking where the log ends."""
    with patch.object(Writer, "is_doubtful", lambda self, *_: self.tail is None):
        yield


@contextmanager
def no_hole_filled() -> Iterator[None]:
    """A follower delivers whatever notification comes next."""
    with patch.object(RedisFollower, "_follows", lambda self, entry_id: self._is_later(entry_id)):
        yield


@contextmanager
def fenced_news_believed() -> Iterator[None]:
    """A follower believes the notifications of a writer that was refused."""
    is_current = RedisFollower._is_current

    def credulous(self: Any, entry_id: EntryId) -> bool:
        if entry_id.generation < self._newest:
            self._seen = max(self._seen, entry_id)
            return entry_id.number > 0
        return is_current(self, entry_id)

    with patch.object(RedisFollower, "_is_current", credulous):
        yield


@contextmanager
def resume_one_too_far() -> Iterator[None]:
    """A resumed socket gets what comes after the next frame."""
    start = RedisFollower.start

    def skipping(self: Any, after: EntryId) -> None:
        further = EntryId(after.generation, after.number + 1)
        start(self, further if self._output and after.number else after)

    with patch.object(RedisFollower, "start", skipping):
        yield


@contextmanager
def open_answer_forgotten() -> Iterator[None]:
    """A successor leaves an answer as open as its predecessor did."""
    tables = [table for table in vars(session_step).values() if isinstance(table, dict) and WorkerTookOver in table]
    (table,) = tables
    decide = table[WorkerTookOver]

    def forgetful(session: Any, took: WorkerTookOver, now_ms: int) -> Any:
        return tuple(fact for fact in decide(session, took, now_ms) if isinstance(fact, WorkerChanged))

    with patch.dict(table, {WorkerTookOver: forgetful}):
        yield


@contextmanager
def input_decided_twice() -> Iterator[None]:
    """A successor begins with the first input again."""
    recover = actor.recover

    async def from_the_start(*args: Any, **more: Any) -> Any:
        return replace(await recover(*args, **more), consumed=START)

    with patch.object(actor, "recover", from_the_start):
        yield


@contextmanager
def lost_tail_not_told() -> Iterator[None]:
    """A reader does not notice that seqs it delivered were written again."""
    with patch.object(RedisFollower, "_lose_position", lambda *_, **__: None):
        yield


@contextmanager
def no_heal() -> Iterator[None]:
    """A writer whose records were lost by the store does not write them again, and goes on after the hole."""
    with patch.object(Appender, "_heal", lambda self, writer, last: None):
        yield


@contextmanager
def arrivals_forgotten() -> Iterator[None]:
    """A resumed client is told that nothing it said ever arrived."""

    async def nothing(*_: Any) -> Heard:
        return Heard()

    with patch.object(connection, "last_heard", nothing):
        yield


MUTATIONS: Mapping[str, tuple[Callable[[], Any], str | None]] = {
    "no fence in ids": (no_fence_in_ids, "fence"),
    "no comparison": (no_comparison, "loss"),
    "no control record": (no_control_record, "fence"),
    "no hole filled": (no_hole_filled, "holes"),
    "fenced news believed": (fenced_news_believed, "fence"),
    "resume one too far": (resume_one_too_far, None),
    "arrivals forgotten": (arrivals_forgotten, None),
    "open answer forgotten": (open_answer_forgotten, "fence"),
    "input decided twice": (input_decided_twice, "fence"),
    "lost tail not told": (lost_tail_not_told, "orphan"),
    "no heal": (no_heal, "loss"),
}
"""Each with the mood of the schedules that are meant for it; ``None``: any."""
