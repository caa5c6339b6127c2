"""Which node of a cluster serves which slot, out of what several nodes say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .addresses import Address
from .connections import Command, Reply
from .keys import FLEET_SLOT, PARTITION_SLOTS

USED_SLOTS = frozenset((*PARTITION_SLOTS, FLEET_SLOT))
"""The slots that hold anything of ours."""


@dataclass(frozen=True, slots=True)
class SlotRange:
    """Slots ``first`` to ``last`` and who serves them, under which epoch of its configuration."""

    first: int
    last: int
    primary: Address
    replicas: tuple[Address, ...] = ()
    epoch: int = 0


def read_view(slots: Reply, nodes: Reply, asked: Address) -> list[SlotRange]:
    """One node's view: its answers to CLUSTER SLOTS and CLUSTER NODES. ``asked`` is where that node was reached.

    The first says where to connect, the second only of which epoch that is; where it is refused, all epochs are 0.
    """
    epochs = _epochs(nodes.decode(errors="replace")) if isinstance(nodes, bytes) else {}
    view: list[SlotRange] = []
    for first, last, *servers in slots:
        primary, *replicas = [_address(server, asked) for server in servers]
        epoch = epochs.get(_text(servers[0][2]), 0) if len(servers[0]) > 2 else 0
        view.append(SlotRange(int(first), int(last), primary, tuple(replicas), epoch))
    return view


def merged(views: Iterable[Iterable[SlotRange]]) -> dict[int, Address]:
    """Who serves each slot of ours: of contradicting views the one of the higher epoch, as among the nodes."""
    found: dict[int, tuple[int, Address]] = {}
    for view in views:
        ranges = sorted(view, key=lambda one: one.first)
        for slot in USED_SLOTS:
            for served in ranges:
                if served.first <= slot <= served.last:
                    if slot not in found or served.epoch > found[slot][0]:
                        found[slot] = served.epoch, served.primary
                    break
    return {slot: primary for slot, (_, primary) in found.items()}


_KEYLESS = frozenset(
    ("TIME", "INFO", "FUNCTION", "SCRIPT", "PUBSUB", "CONFIG", "CLUSTER", "PING", "WAIT", "WAITAOF", "PUBLISH")
)


def key_of(command: Command) -> str | None:
    """The key that says where a command belongs, ``None`` for one that belongs nowhere."""
    verb = command[0]
    if verb in ("FCALL", "EVALSHA"):
        return str(command[3]) if int(command[2]) else None
    if verb in _KEYLESS:
        return None
    key = command[2 if verb == "XINFO" else 1]
    return key.decode() if isinstance(key, bytes) else str(key)


def _epochs(text: str) -> Mapping[str, int]:
    lines = [line.split() for line in text.splitlines()]
    return {words[0]: int(words[6]) for words in lines if len(words) > 6}


def _address(server: Reply, asked: Address) -> Address:
    host = _text(server[0])
    # A node that does not know its own name is where it was reached.
    return (asked[0] if host in ("", "?") else host), int(server[1])


def _text(value: Reply) -> str:
    return "" if value is None else bytes(value).decode()
