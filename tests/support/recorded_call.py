"""A call recorded the same way each time: three turns, an interruption, a lost worker, a socket that comes back.

``python -m tests.support.recorded_call FILE`` writes it as a ``.dxlog`` file; docs/guides/call.dxlog is one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from duplex_es.log.api import Record, SessionLog
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AcknowledgePlayback, BargeIn, CloseSession, Command, CommitInput
from duplex_es.protocol.records import OpenSession, SocketAttached, SocketDetached, pack_input
from duplex_es.tools.log import carry, source
from tests.support.calls import Caller
from tests.support.long_call import APPEND_MS, SPOKEN, Clock, LongCall
from workers.retention import Limits

SCRIPT = (
    '[{"on": "end_turn", "transcript": "How is the weather?", "do": '
    '[{"audio_ms": 1200, "pace": "fast", "text": "Sunny all day."}, {"finish": true}]},'
    ' {"on": "end_turn", "transcript": "Tell me a story.", "do": '
    '[{"audio_ms": 6000, "pace": "fast", "text": "Once upon a time there was a very long story."}]},'
    ' {"on": "end_turn", "every": true, "transcript": "Thanks, goodbye.", "do": '
    '[{"audio_ms": 800, "pace": "fast", "text": "Goodbye."}, {"finish": true}]}]'
)


class TimedCaller(Caller):
    """A caller whose gateway has a clock."""

    clock_ms = Clock()

    @classmethod
    async def begin(cls, log: SessionLog, clock: Clock, session_id: str, **session: Any) -> TimedCaller:
        """Open the session at the clock's time."""
        ref = await log.next_incarnation(session_id)
        said = OpenSession(session=session, model="scripted")
        record = pack_input(said, clock()).body
        attachment = await log.create(ref, model="scripted", token_digest=b"1", gateway="g1", record=record)
        caller = cls(log, attachment)
        caller.clock_ms = clock
        await caller.say(SocketAttached(generation=1, gateway="g1"))
        return caller

    async def say(self, *commands: Command | SocketAttached) -> None:
        """See ``Caller``; with the time."""
        records = [Record(*pack_input(command, self.clock_ms())) for command in commands]
        first, self._index = self._index + 1, self._index + len(records)
        await self.log.append_input(self.attachment, first, records)


class RecordedCall(LongCall):
    """``LongCall`` with times."""

    @classmethod
    async def begin(
        cls, log: SessionLog, session_id: str, script: str, limits: Limits | None = None, **session: Any
    ) -> RecordedCall:
        """Open the session and let a worker take it."""
        clock = Clock()
        call = cls(log, await TimedCaller.begin(log, clock, session_id, **session), clock, limits or Limits(), script)
        await call.serve("w1")
        await call.caller.answer()
        return call

    async def listen(self, seconds: int) -> None:
        """The caller speaks for so long, in real time."""
        for _ in range(seconds):
            for _ in range(1_000 // APPEND_MS):
                self.clock.now_ms += APPEND_MS
                await self.caller.append(SPOKEN, is_speech=True)
                self._heard_ms += APPEND_MS
                await self._until(lambda: self.actor.session.input.clock.ms >= self._heard_ms)

    async def rejoin(self) -> None:
        """The client comes back on another socket."""
        attached = SocketAttached(generation=2, gateway="g2")
        attachment, _ = await self.log.attach(
            self.caller.ref,
            presented_digest=b"1",
            next_digest=b"2",
            gateway="g2",
            record=pack_input(attached, self.clock()).body,
        )
        await self.log.confirm(attachment)
        self.caller.attachment, self.caller._index = attachment, 0

    def wait(self, ms: int) -> None:
        """Nothing happens for so long."""
        self.clock.now_ms += ms


async def record_call(log: SessionLog, session_id: str = "call-1") -> RecordedCall:
    """The call, on ``log``, closed at the end."""
    call = await RecordedCall.begin(log, session_id, SCRIPT)
    await call.listen(2)
    call.wait(300)
    await call.turn()
    first = (await call.caller.hears("response.done"))[0].response.id
    call.wait(1_200)
    await call.caller.say(AcknowledgePlayback(response_id=first, played_ms=1_200, committed_ms=1_200))
    await call.caller.hears("playback.acknowledged")
    await call.listen(1)
    await say_until_spoken(call)
    second = call.caller.heard("response.created")[-1].response.id
    call.wait(1_500)
    await call.caller.say(AcknowledgePlayback(response_id=second, played_ms=1_500, committed_ms=1_500), BargeIn())
    await call.caller.hears("response.done", 2)
    detached = SocketDetached(generation=1, reason="connection_lost")
    await log.detach(call.caller.attachment, pack_input(detached, call.clock()).body)
    await call.kill()
    call.wait(400)
    await call.serve("w2")
    await call.rejoin()
    await call.listen(1)
    call.answers = call.actor.session.turn_id
    await call.turn()
    third = (await call.caller.hears("response.done", 3))[-1].response.id
    call.wait(1_200)
    await call.caller.say(AcknowledgePlayback(response_id=third, played_ms=1_200, committed_ms=1_200))
    await call.caller.hears("playback.acknowledged", 3)
    call.wait(500)
    await call.caller.say(CloseSession())
    await call.caller.ends()
    await call.end()
    return call


async def say_until_spoken(call: RecordedCall) -> None:
    """Commit the second turn and wait until all of the answer that never finishes was sent."""
    await call.caller.say(CommitInput())
    call.answers += 1
    async with asyncio.timeout(30):
        while sum(len(f.delta) for f in call.caller.heard("response.output_audio.delta")) < (1_200 + 6_000) * 48:
            await call.caller.catch_up()
            await asyncio.sleep(0.001)


async def write_call(path: Path) -> None:
    """Record the call and write it to ``path``."""
    log = MemoryLog()
    await record_call(log)
    await export(log, "call-1", path)


async def export(log: SessionLog, session_id: str, path: Path) -> None:
    """``log export`` of a log in this process."""

    @asynccontextmanager
    async def already_open(args: argparse.Namespace) -> Any:
        yield source.LiveSource(log, "memory://")

    before, carry.opened_source = carry.opened_source, already_open  # type: ignore[assignment]
    try:
        await carry.run_export(argparse.Namespace(session=session_id, out=path, file=None, redis_url=""))
    finally:
        carry.opened_source = before


if __name__ == "__main__":
    asyncio.run(write_call(Path(sys.argv[1])))
