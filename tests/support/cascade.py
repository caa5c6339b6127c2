"""One loaded cascade for a whole test run: its weights take a second to load, its tests should not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime

from workers.models.cascade.model import CascadeModel
from workers.models.cascade.options import CascadeOptions
from workers.models.cascade.parts import Parts, load_parts

NOON = datetime(2026, 3, 4, 12, 5)


class SharedParts(Parts):
    """Parts that outlive the model that uses them."""

    async def close(self) -> None:
        """Keep everything: the next test uses it again."""


@functools.cache
def shared_parts() -> SharedParts:
    """The parts, loaded once: one thread each, no language model, and a clock that stands at five past twelve."""
    parts = load_parts(CascadeOptions(threads=1, language_model=False), lambda: NOON)
    parts.__class__ = SharedParts
    assert isinstance(parts, SharedParts)
    return parts


def shared_cascade(**options: str) -> CascadeModel:
    """A cascade that is loaded in no time. The clock stands still; ``threads`` and ``chat_url`` have no effect."""

    def loader(_options: CascadeOptions, _clock: Callable[[], datetime]) -> Parts:
        return shared_parts()

    return CascadeModel(options, loader=loader)
