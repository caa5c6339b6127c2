"""Rows in which the client's side fails: its socket, its network, its patience."""

from __future__ import annotations

import asyncio
import random

from tests.chaos.table import Hit, Stage, row, stayed_on_the_line


@row("client-cut", "a broken socket resumes on another gateway: every frame once")
async def client_cut(stage: Stage, draw: random.Random) -> Hit:
    """Every socket breaks without a goodbye, at moments of its own."""
    for talker in stage.talkers:
        await asyncio.sleep(draw.uniform(0.0, 0.3))
        talker.socket.transport.abort()
    return stage.everybody()


async def superseded(stage: Stage, hit: Hit) -> list[str]:
    """The old socket of each was told that it was replaced, and closed."""
    wrong = []
    for talker in stage.talkers:
        if talker.number not in hit:
            continue
        line = next((line for line in talker.lines if line.left is not None), None)
        if line is None:
            wrong.append(f"caller {talker.number} never moved")
        elif line.frames[-1].wire["type"] != "session.replaced" or line.code != 1000:
            wrong.append(f"caller {talker.number}'s old socket: {line.frames[-1].wire['type']}, code {line.code}")
    return wrong


async def one_winner(stage: Stage, hit: Hit) -> list[str]:
    """Of two resumes with one token exactly one gets the session."""
    raced = [talker for talker in stage.talkers if talker.number in hit]
    wrong = [f"caller {one.number}: {one.race_wins} winners" for one in raced if one.race_wins != [1]]
    return wrong + [
        f"caller {one.number}: the loser heard {one.refused_resumes[0]}"
        for one in raced
        if one.refused_resumes and one.refused_resumes[0] != "invalid_resume_token"
    ]


@row("resumes-race", "of two sockets that resume at once one wins, the other hears invalid_resume_token",
     habits={"races": True}, check=one_winner)  # fmt: skip
async def resumes_race(stage: Stage, draw: random.Random) -> Hit:
    """Every socket breaks; each caller tries both gateways in the same moment."""
    return await client_cut(stage, draw)


@row("client-moves", "a caller resumes on another gateway while its socket is sound: the old one is told and closed",
     check=superseded)  # fmt: skip
async def client_moves(stage: Stage, draw: random.Random) -> Hit:
    """Every caller changes its network in the middle of an answer."""
    for talker in stage.talkers:
        await asyncio.sleep(draw.uniform(0.0, 0.2))
        talker.moves = True
    await asyncio.sleep(1.0)
    return stage.everybody()


@row("client-stops-reading", "a caller that stops reading gets everything once it reads again; nobody else waits",
     silence_s=8.0, check=stayed_on_the_line)  # fmt: skip
async def client_stops_reading(stage: Stage, draw: random.Random) -> Hit:
    """One caller reads nothing for a while."""
    talker = draw.choice(stage.talkers)
    talker.stall_s = draw.uniform(2.0, 4.0)
    await asyncio.sleep(talker.stall_s)
    return {talker.number}
