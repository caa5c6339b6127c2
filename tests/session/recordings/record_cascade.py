"""Makes ``cascade_call.jsonl`` anew: one spoken call with the real model, every record and the state after it.

Run from the root of the checkout: ``python tests/session/recordings/record_cascade.py``. Only a changed meaning of a
fact is a reason to; then the old recording stays beside the new one, read through an upcast.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from pathlib import Path
from typing import Any

import pybase64

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from duplex_es.log.api import START, Attachment, Entry, EntryId, Record, SessionLog  # noqa: E402
from duplex_es.log.memory import MemoryLog  # noqa: E402
from duplex_es.protocol import AcknowledgePlayback, AppendAudio, CloseSession, OpenSession, SocketAttached  # noqa: E402
from duplex_es.protocol.records import pack_input, unpack_output  # noqa: E402
from duplex_es.session.state import Session  # noqa: E402
from tests.support.cascade import shared_cascade  # noqa: E402
from tests.support.states import digest_of  # noqa: E402
from workers import actor as actors  # noqa: E402

RECORDING = Path(__file__).with_name("cascade_call.jsonl")
CHUNK_MS, RATE_HZ = 40, 16_000


def spoken(name: str) -> bytes:
    """A recording of ``examples/audio`` and a second of silence after it."""
    with wave.open(str(ROOT / "examples" / "audio" / f"{name}.wav")) as file:
        return file.readframes(file.getnframes()) + bytes(2 * RATE_HZ)


class Caller:
    """Talks into a log as a gateway would, in real time."""

    def __init__(self, log: SessionLog, attachment: Attachment) -> None:
        self._log, self._attachment, self._index = log, attachment, 0
        self.finished = asyncio.Queue[str]()

    async def say(self, said: Any) -> None:
        """Append one command."""
        self._index += 1
        await self._log.append_input(self._attachment, self._index, [Record(*pack_input(said, 0))])

    async def play(self, name: str) -> None:
        """Append one recording at the pace of a microphone."""
        pcm, size = spoken(name), RATE_HZ * CHUNK_MS // 1000 * 2
        for at in range(0, len(pcm), size):
            await self.say(AppendAudio(audio=pcm[at : at + size]))
            await asyncio.sleep(CHUNK_MS / 1000)


async def converse(log: SessionLog, caller: Caller) -> None:
    """A question, a follow-up that needs the first, a story that is interrupted, and goodbye."""
    for name in ("question", "name"):
        await caller.play(name)
        response_id = await caller.finished.get()
        await caller.say(AcknowledgePlayback(response_id=response_id, played_ms=100_000))
    await caller.play("story")
    await caller.play("interrupt")
    await caller.finished.get()
    await caller.finished.get()
    await caller.say(CloseSession())


async def main() -> None:
    """Hold the call and write it down."""
    states: list[tuple[int, str]] = []
    decide = actors.step

    def watched(session: Session, said: Any, now_ms: int) -> Any:
        decision = decide(session, said, now_ms)
        states.extend([(len(decision.frames), digest_of(decision.session))] * bool(decision.frames))
        return decision

    actors.step = watched  # type: ignore[assignment]
    log, model = MemoryLog(), shared_cascade()
    await model.load()
    ref = await log.next_incarnation("recorded_call")
    async with log.follow_output(ref) as follower:
        attached = pack_input(SocketAttached(generation=1, gateway="gw-1"), 0).body
        attachment = await log.create(ref, model="cascade", token_digest=bytes(32), gateway="gw-1", record=attached)
        claimed = await log.claim("worker-1", ["cascade"])
        assert claimed is not None
        serving = asyncio.create_task(actors.Actor(log, *claimed, model).run())
        caller = Caller(log, attachment)
        await caller.say(OpenSession(session={"instructions": "Be brief."}, model="cascade"))
        talking = asyncio.create_task(converse(log, caller))
        entries: list[Entry] = []
        follower.start(START)
        async for heard in follower:
            if isinstance(heard, Entry):
                entries.append(heard)
                frame = unpack_output(heard.body).frame
                if type(frame).__name__ == "ResponseDone":
                    caller.finished.put_nowait(frame.response_id)
        await asyncio.gather(talking, serving)
    write(entries, [digest for count, digest in states for _ in range(count)])


def write(entries: list[Entry], digests: list[str]) -> None:
    """One line a record: its id, the frame's name for the reader, the packed body, the digest of the state after it."""
    assert [entry.id for entry in entries] == [EntryId(1, seq) for seq in range(1, len(digests) + 1)]
    with RECORDING.open("w") as lines:
        for entry, digest in zip(entries, digests, strict=True):
            frame = type(unpack_output(entry.body).frame).__name__
            body = pybase64.b64encode_as_string(entry.body)
            lines.write(json.dumps({"id": str(entry.id), "frame": frame, "body": body, "state": digest}) + "\n")
    print(f"{len(entries)} records in {RECORDING}")


if __name__ == "__main__":
    asyncio.run(main())
