"""The list of sessions, newest first, with what a person looks for in it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from duplex_es.log.api import Head, SessionRef
from duplex_es.reading.sessions import begun_ms, ended_ms, error_in, session_map
from duplex_es.reading.source import Source

from .archived import ArchivedHead

AT_ONCE = 16
KNOWN = 20_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions; ``text`` is part of the id. ``error``: only those in which something failed, which reads them."""

    text: str = ""
    model: str | None = None
    state: str | None = None
    error: bool = False
    older_than_s: float | None = None
    newer_than_s: float | None = None
    limit: int = 100

    def names(self, head: Head) -> bool:
        """Whether what the head says passes."""
        return (
            self.text in head.ref.session_id and self.model in (None, head.model) and self.state in (None, head.state)
        )

    def is_of_age(self, age_s: float | None) -> bool:
        """Whether a session that began so long ago passes; one of which nothing is left has no age."""
        if age_s is None:
            return self.older_than_s is None and self.newer_than_s is None
        return (self.older_than_s is None or age_s >= self.older_than_s) and (
            self.newer_than_s is None or age_s <= self.newer_than_s
        )


class Catalogue:
    """Lists sessions and remembers of each what does not change. One that is archived is not opened for it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._begun: dict[SessionRef, int | None] = {}
        self._errors: dict[tuple[SessionRef, str], str | None] = {}

    async def listed(self, wanted: Wanted) -> tuple[list[dict[str, Any]], int]:
        """Up to ``limit`` rows, newest first, and how many there are in all."""
        heads = [head for head in await self._source.sessions() if wanted.names(head)]
        await self._find_beginnings(heads)
        now_ms = time.time() * 1_000
        aged = []
        for head in heads:
            begun = head.created_ms if isinstance(head, ArchivedHead) else self._begun.get(head.ref)
            age_s = None if begun is None else round((now_ms - begun) / 1_000, 1)
            if wanted.is_of_age(age_s):
                aged.append((begun or 0, age_s, head))
        aged.sort(key=lambda one: (-one[0], one[2].ref.session_id))
        rows: list[dict[str, Any]] = []
        total = 0
        for begun, age_s, head in aged:
            # Reading all that is archived would take hours: what failed is looked for in the store.
            failed = await self._error(head) if wanted.error and not isinstance(head, ArchivedHead) else None
            if wanted.error and failed is None:
                continue
            total += 1
            if len(rows) < wanted.limit:
                rows.append(await self._row(head, begun, age_s, failed))
        return rows, total

    async def _row(self, head: Head, begun: int, age_s: float | None, failed: str | None) -> dict[str, Any]:
        ended = head.ended_ms if isinstance(head, ArchivedHead) else await ended_ms(self._source, head)
        return {
            **session_map(head),
            "id": head.ref.session_id,
            "incarnation": head.ref.incarnation,
            "begun_ms": begun or None,
            "age_s": age_s,
            "length_ms": None if ended is None or not begun else max(0, ended - begun),
            "error": failed,
            "archived": isinstance(head, ArchivedHead),
        }

    async def _find_beginnings(self, heads: list[Head]) -> None:
        if len(self._begun) > KNOWN:
            self._begun.clear()
        unknown = [head for head in heads if not isinstance(head, ArchivedHead) and head.ref not in self._begun]
        for first in range(0, len(unknown), AT_ONCE):
            some = unknown[first : first + AT_ONCE]
            found = await asyncio.gather(*(begun_ms(self._source, head) for head in some))
            self._begun.update({head.ref: begun for head, begun in zip(some, found, strict=True)})

    async def _error(self, head: Head) -> str | None:
        key = (head.ref, f"{head.output}")
        if key not in self._errors:
            if len(self._errors) > KNOWN:
                self._errors.clear()
            self._errors[key] = await error_in(self._source, head)
        return self._errors[key]
