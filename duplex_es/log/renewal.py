"""Extending leases, one call for each partition, and letting followers compare what the same call says of the heads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from redis.exceptions import ResponseError

from .api import Attachment, Claim, EntryId
from .connections import Reply
from .followers import Followers
from .keys import PARTITION_SLOTS, SessionKeys, partition_of
from .nodes import Nodes, from_each
from .scripts import Call, refused
from .settings import LogSettings

Lease = Attachment | Claim


async def renew(nodes: Nodes, followers: Followers, leases: Sequence[Lease], settings: LogSettings) -> list[Lease]:
    """See ``SessionLog.renew``. Leases on a node that does not answer in time are not said to be lost."""
    partitions: dict[int, list[Lease]] = defaultdict(list)
    for lease in leases:
        partitions[partition_of(lease.ref.session_id)].append(lease)
    held = list(partitions.values())
    calls = [_renewal(of, followers, int(settings.lease_s * 1000)) for of in held]

    async def ask(positions: list[int]) -> list[Reply]:
        return await nodes.scripts.run(nodes.calls, [calls[position] for position in positions])

    slots = [PARTITION_SLOTS[partition] for partition in partitions]
    answers = await from_each(nodes, slots, ask, settings.lease_s / 4) if calls else []
    lost: list[Lease] = []
    for position, reply in ((p, r) for positions, replies in answers for p, r in zip(positions, replies, strict=True)):
        if isinstance(reply, ResponseError):
            raise refused(reply)
        for lease, standing in zip(held[position], reply, strict=True):
            if not standing[0]:
                lost.append(lease)
            _notice(followers, lease, standing)
    return lost


def _renewal(leases: Sequence[Lease], followers: Followers, lease_ms: int) -> Call:
    call_keys: list[str] = []
    args: list[str | int] = [lease_ms]
    for lease in leases:
        session = SessionKeys.of(lease.ref)
        if isinstance(lease, Claim):
            call_keys += [session.head, session.input.records, session.ready(lease.model)]
            args += ["c", lease.ref.incarnation, lease.fence, session.member, 0]
        else:
            call_keys += [session.head, session.output.records, session.head]
            passed = followers.passed(session.output.channel)
            args += ["a", lease.ref.incarnation, lease.generation, session.member, passed]
    return Call("renew", call_keys, args)


def _notice(followers: Followers, lease: Lease, standing: Reply) -> None:
    """Let the followers of what this holder reads compare: a lost notification has no other witness."""
    _, state, attachment, fence, last, opened = standing
    session = SessionKeys.of(lease.ref)
    if isinstance(lease, Claim):
        channel, generation = session.input.channel, attachment
        position = EntryId.parse(last) if last else EntryId(0, 0)
    else:
        channel, generation = session.output.channel, fence
        position = EntryId(fence, int(last or 0))
    for follower in followers.of(channel):
        follower.noticed(state.decode(), generation, attachment, position, bool(opened))
