"""Every Redis key, channel and hash tag, spelled once.

Sessions are spread over 256 fixed partitions. All keys of a session, and the indexes of its partition, carry the
partition's hash tag, so one call may touch them all, on Redis Cluster too. The tags were chosen so that partition ``p``
lies in slots ``64 p`` to ``64 p + 63``: any even split of the 16,384 slots splits the partitions evenly. They are part
of the format: changing one loses the sessions behind it.
"""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass
from hashlib import blake2b

from .api import SessionRef

PARTITIONS = 256
SLOTS = 16_384

# Two characters for each partition, found by search.
_SUFFIXES = (
    "8df4ggenq77606h5b5fov4051n3gemgd16w70thw694030k3nxlqus3r6b4kfkb1o774yoc7blf60vgt9zayfydp2rjqmq5r"
    "yieb7b5k4069xb80lq4r79501tiwpu6texys5zbxgh9812i1gzes3ykz6x4q1iwh6rpsiqkxgpey8soqjp2s5xbzeryy1q3x"
    "zv3ve6almu5v2vju3gm7t5241wit4ucw3vkuyw0wbt5veegl62n1i112accjdjxaygel7l5en467fnb46unv77o4bs5qyxes"
    "dxxsaqcxfhdalk4hfzds2yjz7x5ql0n95x8pezgs1q3xnr6qxyzp6rnqiy1zgpey5x7q2ith8qosgr0pfczhcjacdsfznp6s"
    "4urtow8uew2ud55daq9rdxfqjy2z5z7s93a03019jh2kdafh4zly3kkh3ukvlv4uhy0z7z5s0c2jf98i0q2xzpxyas9pfb82"
    "8votgu0wit1w6wntzv3vnw6tkv3u0tgv"
)
TAGS = tuple(f"{{p{p:03d}{_SUFFIXES[2 * p : 2 * p + 2]}}}" for p in range(PARTITIONS))

FLEET_TAG = "{fleet}"
"""The hash tag of all keys of the fleet."""

READY_CHANNEL = "dx:ready"
"""Announces ``<partition> <model>`` when a session starts to wait for a worker. One channel for the whole store."""

WORKERS = "dx:{fleet}:workers"
"""Set: the names of workers that registered. Names of dead ones stay until somebody looks."""

WATCHED = "dx:{fleet}:watched"
"""Set: the names of those workers that listen on their ``alive_channel``."""

FLEET_SETS = (WORKERS, WATCHED)

PING = "dx:{fleet}:ping"
"""String: written to learn whether the store takes writes; gone after ten seconds."""


def card(worker: str) -> str:
    """String with a time to live: the worker's packed card."""
    return f"dx:{{fleet}}:card:{worker}"


def alive_channel(worker: str) -> str:
    """Where a worker listens for as long as its process lives; nothing is published there."""
    return f"dx:alive:{worker}"


def burial(worker: str) -> str:
    """String with a time to live: who puts the sessions of a dead worker back into their queues."""
    return f"dx:{{fleet}}:burial:{worker}"


def slot(key: str) -> int:
    """The cluster slot of ``key``, by its hash tag where it has one."""
    start = key.find("{")
    end = key.find("}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


PARTITION_SLOTS = tuple(slot(tag) for tag in TAGS)
"""The cluster slot of each partition."""

FLEET_SLOT = slot(PING)
"""The cluster slot of all keys of the fleet."""


def partition_of(session_id: str) -> int:
    """The partition of a session; the same in every process and release."""
    return blake2b(session_id.encode(), digest_size=1).digest()[0]


def head(session_id: str) -> str:
    """Hash: the head of the newest incarnation."""
    return f"dx:{TAGS[partition_of(session_id)]}:head:{session_id}"


def marker(partition: int) -> str:
    """String with a time to live: written to learn whether what was written before it would survive."""
    return f"dx:{TAGS[partition]}:marker"


def ready(partition: int, model: str) -> str:
    """Sorted set: who may be claimed from when (unix ms). A claimed session waits for its lease to run out."""
    return f"dx:{TAGS[partition]}:ready:{model}"


def sessions(partition: int) -> str:
    """Sorted set: every session of the partition, by the unix ms at which it expires (``inf`` while open)."""
    return f"dx:{TAGS[partition]}:sessions"


def notes(session_id: str) -> str:
    """List with a time to live: what is to be known of the sessions of this id when they are gone themselves."""
    return f"dx:{TAGS[partition_of(session_id)]}:notes:{session_id}"


def sealing_key(session_id: str, name: str) -> str:
    """String without an end: the wrapped key that the archive seals a session with."""
    return f"dx:{TAGS[partition_of(session_id)]}:key:{name}"


def aside(key: str) -> str:
    """Where what is to take the place of ``key`` is written first; expires if it never does."""
    return f"{key}:aside"


def member(ref: SessionRef) -> str:
    """How sorted sets name a session."""
    return f"{ref.session_id}:{ref.incarnation}"


def parse_member(text: str) -> SessionRef:
    """Read what ``member`` wrote; ids may hold colons."""
    session_id, _, incarnation = text.rpartition(":")
    return SessionRef(session_id, int(incarnation))


def probe_channel(name: str) -> str:
    """Where one subscriber connection talks to itself."""
    return f"dx:probe:{name}"


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """One direction of a session: its records, their audio under the same ids, and where news of them goes."""

    records: str
    audio: str

    @property
    def channel(self) -> str:
        """Notifications of this stream. Shares the key's name, hence its slot."""
        return self.records


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """All keys of one life of a session."""

    ref: SessionRef
    partition: int
    head: str
    input: StreamKeys
    output: StreamKeys
    snap: str
    sessions: str
    member: str

    @classmethod
    def of(cls, ref: SessionRef) -> SessionKeys:
        """The keys of ``ref``."""
        partition = partition_of(ref.session_id)
        tag, name = TAGS[partition], member(ref)
        return cls(
            ref=ref,
            partition=partition,
            head=head(ref.session_id),
            input=StreamKeys(f"dx:{tag}:in:{name}", f"dx:{tag}:in-audio:{name}"),
            output=StreamKeys(f"dx:{tag}:out:{name}", f"dx:{tag}:out-audio:{name}"),
            snap=f"dx:{tag}:snap:{name}",
            sessions=sessions(partition),
            member=name,
        )

    @property
    def slot(self) -> int:
        """The cluster slot that all of them share."""
        return PARTITION_SLOTS[self.partition]

    def ready(self, model: str) -> str:
        """The queue in which this session waits for a worker of ``model``."""
        return ready(self.partition, model)
