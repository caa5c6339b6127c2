"""Gives the packages under test a virtual clock and seeded chance, from outside: none of them knows.

Wherever a module of ours holds ``time``, ``random``, ``secrets`` or ``os``, a stand-in is put in its place, and a
function that took a clock as a default argument gets the virtual one. Everything is put back at the end.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import secrets
import sys
import time
import types
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from zlib import crc32

from .loop import CURRENT, SimulatedLoop

EPOCH_S = 1_790_000_000.0
PACKAGES = ("duplex_es", "gateway", "workers")
COLLECT_EVERY = 25
FEWER_PARTITIONS = 4
"""Sweeps look at every partition; what is true of four is true of 256."""


class World:
    """The schedule that runs now: its clock and its chance. ``errors`` are log lines of level ERROR, with a cause."""

    def __init__(self) -> None:
        self.loop: SimulatedLoop | None = None
        self.draw = random.Random(0)
        self.errors: list[str] = []
        self._schedules = 0

    def begin(self, loop: SimulatedLoop, draw: random.Random) -> None:
        """A new schedule starts."""
        self.loop, self.draw, self.errors = loop, draw, []
        self._schedules += 1
        if self._schedules % COLLECT_EVERY == 0:
            gc.collect()

    def now_s(self) -> float:
        """Virtual seconds; real ones while nothing is simulated."""
        return time.monotonic() if self.loop is None else self.loop.time()

    def unix_s(self) -> float:
        """The wall clock of the process that asks."""
        if self.loop is None:
            return time.time()
        return EPOCH_S + self.loop.time() + CURRENT.get(self.loop.outside).skew_s

    def unix_ns(self) -> int:
        """As ``unix_s``."""
        return int(self.unix_s() * 1e9)

    def token_bytes(self, count: int = 32) -> bytes:
        """Chance for names and secrets."""
        return self.draw.randbytes(count)


WORLD = World()


class _Stand(types.ModuleType):
    """A module with some of its names replaced."""

    def __init__(self, real: types.ModuleType, **names: Any) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(names)
        self.__dict__["_real"] = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_real"], name)


class _Chance(_Stand):
    """``random``, drawing from the world."""

    def __getattr__(self, name: str) -> Any:
        return getattr(WORLD.draw if name in _DRAWS else random, name)


_DRAWS = frozenset(
    {"random", "uniform", "choice", "choices", "randrange", "randint", "shuffle", "sample", "expovariate"}
)

_FUNCTIONS: dict[Any, Any] = {
    time.monotonic: WORLD.now_s,
    time.perf_counter: WORLD.now_s,
    time.time: WORLD.unix_s,
    time.time_ns: WORLD.unix_ns,
    os.urandom: WORLD.token_bytes,
    secrets.token_bytes: WORLD.token_bytes,
    secrets.token_hex: lambda count=32: WORLD.token_bytes(count).hex(),
    secrets.token_urlsafe: lambda count=32: urlsafe_b64encode(WORLD.token_bytes(count)).rstrip(b"=").decode(),
    random.random: lambda: WORLD.draw.random(),
    random.uniform: lambda low, high: WORLD.draw.uniform(low, high),
}


def _stand_for(module: types.ModuleType) -> _Stand:
    names = {
        name: _FUNCTIONS[value]
        for name, value in vars(module).items()
        if callable(value) and _hashable(value) and value in _FUNCTIONS
    }
    return _Stand(module, **names)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _partition_of(session_id: str) -> int:
    return crc32(session_id.encode()) % FEWER_PARTITIONS


class _Swap:
    """Every replacement made, to be undone. ``smaller`` are names to be found anywhere in our modules."""

    smaller: ClassVar[dict[str, Any]] = {
        "PARTITIONS": FEWER_PARTITIONS,
        "partition_of": _partition_of,
        "PARTITION_SLOTS": ...,  # the first ones
        "WORD_MS": 40,
    }

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._modules: dict[types.ModuleType, types.ModuleType] = {
            module: _stand_for(module) for module in (time, secrets, os)
        }
        self._modules[random] = _Chance(random)

    def module(self, module: types.ModuleType) -> None:
        for name, value in list(vars(module).items()):
            if name in self.smaller:
                smaller = self.smaller[name]
                self._set(module, name, value[:FEWER_PARTITIONS] if smaller is ... else smaller)
            elif isinstance(value, types.ModuleType):
                if value in self._modules:
                    self._set(module, name, self._modules[value])
            elif isinstance(value, type):
                if value.__module__ == module.__name__:
                    for part in vars(value).values():
                        self._defaults(getattr(part, "__func__", part))
            elif callable(value) and _hashable(value) and value in _FUNCTIONS:
                self._set(module, name, _FUNCTIONS[value])
            else:
                self._defaults(value)

    def _defaults(self, function: Any) -> None:
        if not isinstance(function, types.FunctionType):
            return
        if function.__defaults__ and any(_is_clock(value) for value in function.__defaults__):
            fresh = tuple(_FUNCTIONS[value] if _is_clock(value) else value for value in function.__defaults__)
            self._set(function, "__defaults__", fresh)
        named = function.__kwdefaults__
        if named and any(_is_clock(value) for value in named.values()):
            fresh_named = {key: _FUNCTIONS[value] if _is_clock(value) else value for key, value in named.items()}
            self._set(function, "__kwdefaults__", fresh_named)

    def _set(self, holder: Any, name: str, value: Any) -> None:
        self._undo.append((holder, name, getattr(holder, name)))
        setattr(holder, name, value)

    def back(self) -> None:
        for holder, name, value in reversed(self._undo):
            setattr(holder, name, value)


def _is_clock(value: Any) -> bool:
    return callable(value) and _hashable(value) and value in _FUNCTIONS


class _Errors(logging.Handler):
    """Keeps what was logged as an error together with an exception: nobody expected that one."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            WORLD.errors.append(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def installed() -> Iterator[World]:
    """Hold the packages in the virtual world. Not reentrant; costs some milliseconds, so hold it for many schedules."""
    swap = _Swap()
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] in PACKAGES and module is not None:
            swap.module(module)
    unraisable, sys.unraisablehook = sys.unraisablehook, lambda _: None
    logs = [logging.getLogger(name) for name in PACKAGES]
    before = [(log.level, log.propagate) for log in logs]
    errors = _Errors(logging.ERROR)
    for log in logs:
        log.setLevel(logging.ERROR)
        log.propagate = False
        log.addHandler(errors)
    # What is there already stays: collecting looks at the schedules' remains only.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield WORLD
    finally:
        WORLD.loop = None
        gc.enable()
        gc.unfreeze()
        gc.collect()
        swap.back()
        sys.unraisablehook = unraisable
        for log, (level, propagate) in zip(logs, before, strict=True):
            log.setLevel(level)
            log.propagate = propagate
            log.removeHandler(errors)
