"""What a model that steps leaves for its successor, and what it could not keep up with.

Source: docs/explanation/architecture.md, "Taking over".
"""

from __future__ import annotations

import msgspec

from ..model import ModelDroppedInput, ModelRemembered
from .effects import Effect
from .events import Fact, InputSkipped, MemoryGrown
from .state import Session, replace


def decide_remembered(session: Session, said: ModelRemembered, now_ms: int) -> tuple[Fact, ...]:
    """Keep it, whatever the epoch: the model is where it is, also after an interruption it has not heard of yet."""
    if session.info is None or not session.info.memory_bytes or not (said.data or said.anew):
        return ()
    return (MemoryGrown(data=said.data, anew=said.anew),)


def decide_dropped(session: Session, said: ModelDroppedInput, now_ms: int) -> tuple[Fact, ...]:
    """The client is told what the model never heard."""
    return (InputSkipped(duration_ms=said.duration_ms),) if said.duration_ms > 0 else ()


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Fold one fact about memory. Total."""
    if isinstance(fact, MemoryGrown):
        most = session.info.memory_bytes if session.info else 0
        return replace(session, memory=_newest(b"" if fact.anew else session.memory, fact.data, most)), ()
    return session, ()


def _newest(before: bytes, data: bytes, most: int) -> bytes:
    """The last ``most`` bytes of both. They may be megabytes, many times a second: copied once, not twice."""
    left_out = max(0, len(before) + len(data) - most)
    if left_out >= len(before):
        return data[left_out - len(before) :]
    return b"".join((memoryview(before)[left_out:], data))


def merged(earlier: MemoryGrown, later: MemoryGrown) -> MemoryGrown:
    """One fact that folds to the same as the two in a row."""
    if later.anew:
        return later
    return msgspec.structs.replace(earlier, data=earlier.data + later.data)
