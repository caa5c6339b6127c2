"""A small recorded session in a log, for tools that read."""

from __future__ import annotations

from typing import Any

import msgpack

from duplex_es.log.api import Record, SessionLog


def packed(**body: Any) -> bytes:
    """A record's body, written without this project's own packer."""
    return bytes(msgpack.packb({"v": 1, **body}))


async def record_session(log: SessionLog, session_id: str = "sess_1", *, claims: bool = True) -> None:
    """One append and, if ``claims``, one answered frame of ``session_id``."""
    ref = await log.next_incarnation(session_id)
    opening = packed(at_ms=1_000, said={"type": "duplex_es.open_session"})
    attachment = await log.create(ref, model="cascade", token_digest=b"d", gateway="gw-1", record=opening)
    append = packed(at_ms=1_040, said={"type": "input_audio_buffer.append", "sample_rate_hz": 16_000, "audio": b""})
    await log.append_input(attachment, 1, [Record(append, b"\0" * 1_280)])
    if claims and (claimed := await log.claim("worker-1", ["cascade"])):
        frame = packed(at_ms=1_050, frame={"type": "response.listen"}, facts=[{"fact": "Listened"}], consumed="1-1")
        await log.append_output(claimed[0], 1, [Record(frame)])
