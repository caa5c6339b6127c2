"""What the service itself added, by its own timestamps: the records of the log say when they were written.

Only where the callers' clock is the servers' clock, that is on one machine, do the two compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...log.api import SessionLog
from ...log.errors import SessionUnknown
from ...reading.records import InputLine, OutputLine, read_lines
from .takes import SessionTake


@dataclass(slots=True)
class ServiceTimes:
    """Milliseconds: ``up_ms`` from a commit to its record, ``down_ms`` from a sound's record to the caller."""

    up_ms: list[float] = field(default_factory=list)
    down_ms: list[float] = field(default_factory=list)


async def service_times(log: SessionLog, takes: Sequence[SessionTake]) -> ServiceTimes:
    """Compare what the callers noted with what stands in the log. A session that is gone from it adds nothing.

    Raises: LogUnavailable.
    """
    times = ServiceTimes()
    for take in takes:
        if not take.session_id:
            continue
        try:
            head = await log.head(take.session_id)
            lines = await read_lines(log, head.ref)
        except SessionUnknown:
            continue
        for line in lines:
            match line:
                case InputLine(said={"event_id": str(event_id)}) if event_id in take.committed_unix_ms:
                    times.up_ms.append(line.at_ms - take.committed_unix_ms[event_id])
                case OutputLine() if line.seq in take.heard_unix_ms:
                    times.down_ms.append(take.heard_unix_ms[line.seq] - line.at_ms)
    return times
