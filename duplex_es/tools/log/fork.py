"""``duplex-es log fork``: a new session that goes on from one place of another."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from ...client.ticket import ResumeTicket
from ...log.errors import LogError, SessionExists
from ...log.forking import begin_from
from ...log.tokens import mint_token, token_digest
from ...protocol import session_id_from
from ...reading.words import json_text
from ...session.lifecycle import FORK_GRACE_S
from ..console import Console
from ..errors import ToolError
from ..replay.forking import Copy, copy_at
from ..show import opened
from .source import opened_source


async def run(args: argparse.Namespace) -> int:
    """Begin the fork in the store and print how a client takes it up; the exit code."""
    session_id = args.id or session_id_from(os.urandom(16))
    async with opened_source(args) as source:
        head = await source.find(args.session)
        copy = await copy_at(source, head, args.at, session_id, time.time_ns() // 1_000_000)
        token = mint_token()
        async with opened(args.into or args.redis_url) as log:
            try:
                await begin_from(log, copy.head, token_digest(token), copy.input, copy.output, copy.snapshots)
            except SessionExists as error:
                raise ToolError(f"the store has a session {session_id!r} already: give another --id") from error
            except LogError as error:
                raise ToolError(f"the fork cannot be written: {error}") from error
    ticket = ticket_of(copy, token)
    name = f"{head.ref.session_id}#{head.ref.incarnation}"
    console = Console()
    if args.json:
        found: dict[str, Any] = {
            "session": f"{session_id}#0",
            "forked_from": {"session": name, "seq": args.at},
            "model": copy.head.model,
            "made_again": copy.cut,
            "ticket": ticket.to_text(),
        }
        console.line(json_text(found))
        return 0
    console.line(f"{session_id}#0 goes on from {name} at seq {args.at} when a worker of {copy.head.model} is free")
    if copy.cut:
        console.line(f"  seq {args.at} is inside a decision: the frames it lacks ({copy.cut}) are made again first")
    console.line(f"  resume it within {FORK_GRACE_S:g} s; this ticket is a secret, and good for one use:")
    console.line(ticket.to_text())
    return 0


def ticket_of(copy: Copy, token: str) -> ResumeTicket:
    """What ``DuplexClient.resume`` takes: everything after the forked frame comes to it."""
    settings, info = copy.session.settings, copy.session.info
    model_hz = 24_000 if info is None else info.output_rate_hz
    return ResumeTicket(
        session_id=copy.head.ref.session_id,
        incarnation=copy.head.ref.incarnation,
        resume_token=token,
        after_seq=copy.head.output.number,
        model=settings.model or copy.head.model,
        input_audio=(settings.input_format, settings.input_rate_hz),
        output_audio=(settings.output_format, settings.output_rate_hz or model_hz),
    )
