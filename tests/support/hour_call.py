"""A call of an hour with all that can happen in one, recorded in seconds: for what must stay quick with it.

``python -m tests.support.hour_call FILE [TURNS]`` writes it as a ``.dxlog`` file;
``python -m tests.corpus.hour`` measures what commands take to read it.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
from array import array
from collections.abc import Callable
from pathlib import Path

from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AcknowledgePlayback, BargeIn, CloseSession
from duplex_es.protocol.records import SocketDetached, pack_input
from tests.support.long_call import APPEND_MS
from tests.support.recorded_call import RecordedCall, export
from workers.retention import Limits

TURNS = 249
PIECES = 30
"""Appends in which a turn is spoken: six seconds."""
KEEPS_ALL = Limits(audio_s=0, audio_bytes=0, history_s=0, history_bytes=0)
SENTENCE = "Then something else happened, and nobody who was there could say why it had come to that."
SCRIPT = (
    '[{"on": "end_turn", "every": true, "transcript": "and then what happened, tell me all of it", "do": '
    f'[{{"audio_ms": 8000, "pace": "fast", "text": "{SENTENCE}"}}, {{"finish": true}}]}}]'
)


def speech(ms: int, seed: int, rate_hz: int = 16_000) -> bytes:
    """Something with syllables in it: noise on a slow wave, another for each seed."""
    chance = random.Random(seed)
    loud, pitch = chance.uniform(0.2, 0.9), chance.uniform(110, 220)
    samples = array("h")
    for at in range(ms * rate_hz // 1_000):
        second = at / rate_hz
        syllable = max(0.0, math.sin(second * 2 * math.pi * 2.5 + seed)) ** 2
        tone = math.sin(second * 2 * math.pi * pitch) * 0.7 + chance.uniform(-0.3, 0.3)
        samples.append(int(12_000 * loud * syllable * tone))
    return samples.tobytes()


Voice = Callable[[int], bytes]
"""What the caller says in a turn: ``PIECES`` appends of PCM16 at 16 kHz."""


def spoken() -> Voice:
    """Eight voices in turn, whose waveforms look like speech."""
    voices = [speech(APPEND_MS * PIECES, seed) for seed in range(8)]
    return lambda turn: voices[turn % len(voices)]


def noise(turn: int) -> bytes:
    """Like speech only in that it cannot be compressed: a file with it is as large as one of a real call at worst."""
    return random.Random(turn).randbytes(APPEND_MS * PIECES * 32)


async def record(
    log: MemoryLog, turns: int = TURNS, session_id: str = "hour-1", voice: Voice | None = None
) -> RecordedCall:
    """The call, closed at the end: a turn lasts some 14 seconds, every tenth answer is interrupted."""
    call = await RecordedCall.begin(log, session_id, SCRIPT, KEEPS_ALL)
    voice, piece_bytes = voice or spoken(), APPEND_MS * 32
    for turn in range(turns):
        sound = voice(turn)
        for number in range(PIECES):
            call.clock.now_ms += APPEND_MS
            await call.caller.append(sound[number * piece_bytes : (number + 1) * piece_bytes], is_speech=True)
            call._heard_ms += APPEND_MS
            await call._until(lambda: call.actor.session.input.clock.ms >= call._heard_ms)
        call.wait(250)
        call.answers = call.actor.session.turn_id
        await call.turn()
        await call.caller.catch_up()
        response = call.caller.heard("response.created")[-1].response.id
        played_ms = 3_000 if turn % 10 == 9 else 8_000
        call.wait(played_ms)
        await call.caller.say(AcknowledgePlayback(response_id=response, played_ms=played_ms, committed_ms=played_ms))
        if turn % 10 == 9:
            await call.caller.say(BargeIn())
        if turn == turns // 2:
            await change_hands(call)
    await call.caller.say(CloseSession())
    await call.caller.ends()
    await call.end()
    return call


async def change_hands(call: RecordedCall) -> None:
    """The socket breaks, the worker is lost, and both are replaced."""
    detached = SocketDetached(generation=1, reason="connection_lost")
    await call.log.detach(call.caller.attachment, pack_input(detached, call.clock()).body)
    await call.kill()
    call.wait(400)
    await call.serve("w2")
    await call.rejoin()


async def write(path: Path, turns: int = TURNS, voice: Voice | None = None) -> None:
    """Record it and write it to ``path``."""
    log = MemoryLog()
    await record(log, turns, voice=voice)
    await export(log, "hour-1", path)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), *(int(turns) for turns in sys.argv[2:])))
