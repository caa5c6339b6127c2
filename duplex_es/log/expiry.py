"""Ending sessions that no worker ever came for: the work of whoever has the time, done once for each session."""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import ResponseError

from . import keys
from .api import SessionRef
from .connections import Command, Exchange, Reply
from .keys import SessionKeys
from .scripts import Call, Scripts, refused, session_call

REASON = "unclaimed"
CHUNK = 256
SKEW_MS = 5_000
"""How far the clocks of two nodes may be apart: the script decides by its own node's, this only picks candidates."""


async def expire_unclaimed(
    exchange: Exchange, scripts: Scripts, older_than_s: float, retention_s: float, publish: str
) -> list[SessionRef]:
    """See ``SessionLog.expire_unclaimed``."""
    ((seconds, _),) = _checked(await exchange([("TIME",)]))
    before_ms = int(seconds) * 1000 - older_than_s * 1000 + SKEW_MS
    open_sessions: list[Command] = [
        ("ZRANGE", keys.sessions(partition), "+inf", "+inf", "BYSCORE") for partition in range(keys.PARTITIONS)
    ]
    known = [keys.parse_member(m.decode()) for members in _checked(await exchange(open_sessions)) for m in members]
    closed: list[SessionRef] = []
    for start in range(0, len(known), CHUNK):
        candidates = await _unattached(exchange, known[start : start + CHUNK], before_ms)
        calls = [_ending(session, model, older_than_s, retention_s, publish) for session, model in candidates]
        replies = _checked(await scripts.run(exchange, calls)) if calls else []
        closed += [session.ref for (session, _), did in zip(candidates, replies, strict=True) if did]
    return closed


async def _unattached(
    exchange: Exchange, refs: Sequence[SessionRef], before_ms: float
) -> list[tuple[SessionKeys, str]]:
    """Those that nothing may have been attached to since ``before_ms``, with their models."""
    sessions = [SessionKeys.of(ref) for ref in refs]
    asked: list[Command] = [("HMGET", session.head, "model", "attached_until", "left_ms") for session in sessions]
    found: list[tuple[SessionKeys, str]] = []
    for session, (model, until, left) in zip(sessions, _checked(await exchange(asked)), strict=True):
        if model is not None and float((left if until == b"0" else until) or 0) <= before_ms:
            found.append((session, model.decode()))
    return found


def _ending(session: SessionKeys, model: str, older_than_s: float, retention_s: float, publish: str) -> Call:
    return session_call(
        "expire",
        session,
        model,
        incarnation=session.ref.incarnation,
        older_ms=round(older_than_s * 1000),
        reason=REASON,
        retention_s=str(retention_s),
        member=session.member,
        publish=publish,
    )


def _checked(replies: list[Reply]) -> list[Reply]:
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise refused(reply)
    return replies
