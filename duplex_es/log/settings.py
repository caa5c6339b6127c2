"""What an operator may set about the log, with the values that are right for voice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .observing import UNOBSERVED, LogObserver

Durability = Literal["memory", "standard", "strict"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Times and bounds of a log client. Seconds end in ``_s``, sizes in ``_bytes``.

    Every process that shares a store should use the same ``lease_s`` and ``retention_s``.
    """

    lease_s: float = 10.0
    """How long a claim, an attachment or a worker's card holds after it was last renewed, on the store's clock."""

    retention_s: float = 900.0
    """How long a closed session can still be read."""

    append_timeout_s: float = 10.0
    """How long an append or a call may try again before it ends in ``LogUnavailable``."""

    socket_timeout_s: float = 2.0
    """How long one reply may take before the connection counts as broken."""

    connect_timeout_s: float = 2.0
    """How long making a connection may take."""

    probe_interval_s: float = 5.0
    """A subscriber connection that was silent for this long sends itself a message; two misses replace it."""

    sweep_interval_s: float = 2.0
    """How often ``claim`` looks at every partition, for sessions whose announcement was lost or whose lease ran out."""

    watch_interval_s: float = 0.4
    """How often a worker looks whether the others are still connected; three looks in vain give one up."""

    pointer_above_bytes: int = 32 * 1024
    """Notifications of records larger than this carry only the id; readers fetch the record from the log."""

    follower_buffer_bytes: int = 1024 * 1024
    """Live records a follower keeps for a slow reader; beyond it they are dropped and read from the log later."""

    batch_bytes: int = 256 * 1024
    """The most one pipeline of appends carries."""

    heal_window_s: float = 3.0
    """How long a writer remembers what landed, to write it again should the store lose its tail."""

    heal_bytes: int = 256 * 1024
    """The most that one writer remembers."""

    durability: Durability = "standard"
    """What ``persisted`` waits for. ``memory``: nothing. ``standard`` and ``strict``: the disk of the store, where it
    has an append-only file, and ``replicas``; ``strict`` refuses a store that has neither."""

    vouch_interval_s: float = 0.05
    """How far apart the questions to one node are, at least, whether what was written would survive."""

    replicas: int = 0
    """How many replicas of a node must have confirmed. Without an append-only file it is at least one."""

    observer: LogObserver = field(default=UNOBSERVED, compare=False, repr=False)
    """Who is told what the log goes through."""
