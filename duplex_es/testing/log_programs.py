"""Random programs against a log, with the memory log as the oracle: both must answer every step alike."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ..log.api import START, Attachment, Claim, EntryId, Record, SessionLog, SessionRef
from ..log.errors import LogError

Outcome = object
Step = Callable[[SessionLog, "_Side"], Awaitable[Outcome]]
SESSIONS = 3
HANDS = 3


@dataclass
class _Side:
    """What one log has handed out so far: the programs name attachments and claims by position."""

    prefix: str
    attachments: list[Attachment] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    @property
    def model(self) -> str:
        return self.prefix


async def run_program(seed: int, steps: int, log: SessionLog, oracle: SessionLog, prefix: str) -> None:
    """Run ``steps`` random steps on both logs. Raises: AssertionError at the first difference, with the trail."""
    draw = random.Random(seed)
    ours, theirs = _Side(prefix), _Side(prefix)
    trail: list[str] = []
    for _ in range(steps):
        name, step = _random_step(draw, ours)
        got, expected = await _outcome(step, log, ours), await _outcome(step, oracle, theirs)
        trail.append(f"{name} -> {expected!r}")
        assert got == expected, f"seed {seed}: {got!r} instead of the last answer in\n" + "\n".join(trail)
    for number in range(SESSIONS):
        step = _look_at(f"{prefix}-{number}")
        assert await _outcome(step, log, ours) == await _outcome(step, oracle, theirs), "\n".join(trail)


async def _outcome(step: Step, log: SessionLog, side: _Side) -> Outcome:
    return await _answer(step(log, side))


async def _answer(asked: Awaitable[Outcome]) -> Outcome:
    try:
        return await asked
    except LogError as error:
        return type(error).__name__, vars(error)


def _random_step(draw: random.Random, side: _Side) -> tuple[str, Step]:
    session_id = f"{side.prefix}-{draw.randrange(SESSIONS)}"
    choices: list[Callable[[], tuple[str, Step]]] = [
        lambda: ("create", _create(session_id)),
        lambda: ("claim", _claim),
        lambda: ("look", _look_at(session_id)),
        lambda: ("expire_unclaimed", lambda log, _: log.expire_unclaimed(3600.0)),
        lambda: _random_attach(draw, session_id),
        lambda: _random_attach(draw, session_id),
    ]
    if side.attachments:
        choices += [lambda: _attachment_step(draw, side)] * 5
    if side.claims:
        choices += [lambda: _claim_step(draw, side)] * 6
    return draw.choice(choices)()


def _random_attach(draw: random.Random, session_id: str) -> tuple[str, Step]:
    presented, following = (f"t{draw.randrange(3)}".encode() for _ in range(2))
    after_seq = draw.choice([None, draw.randrange(8)])
    return f"attach after {after_seq}", _attach(session_id, presented, following, after_seq)


def _records(draw: random.Random) -> list[Record]:
    return [
        Record(draw.randbytes(draw.randrange(1, 40)), draw.choice([None, draw.randbytes(8)]))
        for _ in range(draw.randrange(0, 5))
    ]


def _attachment_step(draw: random.Random, side: _Side) -> tuple[str, Step]:
    position = max(0, len(side.attachments) - 1 - draw.randrange(HANDS))
    match draw.randrange(6):
        case 0 | 1 | 2:
            first, records = draw.randrange(1, 8), _records(draw)
            return f"append_input {first}+{len(records)}", lambda log, s: log.append_input(
                s.attachments[position], first, records
            )
        case 3:
            seq = draw.randrange(20)
            return f"acknowledge {seq}", lambda log, s: log.acknowledge(s.attachments[position], seq)
        case 4:
            return "confirm", lambda log, s: log.confirm(s.attachments[position])
        case _:
            return "detach", lambda log, s: log.detach(s.attachments[position], b"left")


def _claim_step(draw: random.Random, side: _Side) -> tuple[str, Step]:
    position = max(0, len(side.claims) - 1 - draw.randrange(HANDS))
    number, index = draw.randrange(1, 12), draw.randrange(8)
    match draw.randrange(11):
        case 0 | 1 | 2 | 3:
            records = _records(draw)
            return f"append_output {number}+{len(records)}", lambda log, s: log.append_output(
                s.claims[position], number, records
            )
        case 4:
            opening = draw.choice([None, b"opening"])
            return "checkpoint", lambda log, s: log.checkpoint(s.claims[position], b"cp%d" % number, opening=opening)
        case 5:
            return f"trim_audio {index} {number}", lambda log, s: log.trim_audio(
                s.claims[position], input_before=EntryId(1, index), output_before=number
            )
        case 6:
            return f"snapshot {number}", lambda log, s: log.snapshot(s.claims[position], number, b"s%d" % index)
        case 7:
            before = EntryId(1, index)
            return f"trim_history {index} {number // 2}", lambda log, s: log.trim_history(
                s.claims[position], input_before=before, output_before=number // 2
            )
        case 8:
            return "renew", _renew
        case 9:
            return "release", lambda log, s: log.release(s.claims[position])
        case _:
            if number < 9:  # most sessions should live for a while
                return "renew", _renew
            return "close", lambda log, s: log.close(s.claims[position], "done")


def _create(session_id: str) -> Step:
    async def step(log: SessionLog, side: _Side) -> Outcome:
        ref = await log.next_incarnation(session_id)
        attachment = await log.create(ref, model=side.model, token_digest=b"t0", gateway="g", record=b"created")
        side.attachments.append(attachment)
        return attachment

    return step


def _attach(session_id: str, presented: bytes, following: bytes, after_seq: int | None) -> Step:
    async def step(log: SessionLog, side: _Side) -> Outcome:
        ref = (await log.head(session_id)).ref
        attachment, head = await log.attach(
            ref,
            presented_digest=presented,
            next_digest=following,
            gateway="g",
            record=b"attached",
            after_seq=after_seq,
        )
        side.attachments.append(attachment)
        return attachment, head

    return step


async def _claim(log: SessionLog, side: _Side) -> Outcome:
    claimed = await log.claim("worker", [side.model])
    if claimed is not None:
        side.claims.append(claimed[0])
    return claimed


async def _renew(log: SessionLog, side: _Side) -> Outcome:
    return set(await log.renew(side.attachments[-HANDS:], side.claims[-HANDS:]))


def _look_at(session_id: str) -> Step:
    async def step(log: SessionLog, side: _Side) -> Outcome:
        head = await log.head(session_id)
        ref = SessionRef(session_id, head.ref.incarnation)
        return (
            head,
            await _answer(log.read_output(ref, 0)),
            await _answer(log.read_output(ref, head.first_seq)),
            await _answer(log.read_output(ref, 3, limit=2, audio=False)),
            await _answer(log.read_input(ref, START)),
            await _answer(log.read_input(ref, EntryId(1, 2), limit=2, audio=False)),
            await log.read_snapshot(ref),
            await log.read_snapshot(ref, below_seq=5),
            await log.read_input_back(ref, limit=3),
        )

    return step
