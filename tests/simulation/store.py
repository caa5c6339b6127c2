"""A stand-in for a Redis node's data: the commands the log uses, on virtual time, and a history to go back in.

Speed comes before completeness: a command the log does not use is refused loudly. ``history`` holds every write in
order, so that the state some writes ago can be had by playing the rest again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .streams import WRONG_TYPE, Refused, Stream, read_id, score_bound, score_of, show, show_score

Reply = Any
Words = Sequence[bytes]
INFO = (
    b"redis_version:7.2.4\r\nrun_id:%b\r\nuptime_in_seconds:%d\r\nrole:master\r\nloading:0\r\n"
    b"maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:%d\r\nconnected_slaves:%d\r\n"
)


class Unsupported(Exception):
    """The stand-in does not know a command: extend it."""


class Store:
    """The keys of one node. ``now_ms`` is set by whoever runs commands; ``publish`` delivers notifications."""

    def __init__(self, publish: Callable[[bytes, bytes], int] | None = None) -> None:
        self.data: dict[bytes, Any] = {}
        self.expires: dict[bytes, float] = {}
        self.functions: dict[str, bytes] = {}
        self.ever_loaded: dict[str, bytes] = {}
        self.history: list[tuple[float, bytes, list[Words]]] = []
        self.now_ms = 0.0
        self.publish = publish or (lambda channel, data: 0)
        self.writes = 0
        self.run_id = b"1" * 40
        self.begun_ms = 0.0
        self.has_disk = True
        self.script: Callable[[Store, str, Words, Words], Reply] | None = None

    # -- keys --------------------------------------------------------------------------------------------------------

    def find(self, key: bytes, kind: type) -> Any:
        """The value of a key, ``None`` without one. Raises: Refused for another type."""
        if self.expires and self.expires.get(key, self.now_ms + 1) <= self.now_ms:
            self.forget(key)
        value = self.data.get(key)
        if value is not None and type(value) is not kind:
            raise Refused(WRONG_TYPE)
        return value

    def exists(self, key: bytes) -> bool:
        """Whether there is a value."""
        if self.expires and self.expires.get(key, self.now_ms + 1) <= self.now_ms:
            self.forget(key)
        return key in self.data

    def make(self, key: bytes, kind: type) -> Any:
        """The value of a key, a new empty one without."""
        value = self.find(key, kind)
        if value is None:
            value = self.data[key] = kind()
        self.writes += 1
        return value

    def forget(self, key: bytes) -> int:
        """Delete a key; how many there were."""
        self.expires.pop(key, None)
        if self.data.pop(key, None) is None:
            return 0
        self.writes += 1
        return 1

    def rewound(self, lost: int) -> Store:
        """The store as it was before the last ``lost`` writes."""
        kept = self.history[: len(self.history) - lost]
        earlier = Store()
        earlier.script, earlier.has_disk = self.script, self.has_disk
        earlier.functions = dict(self.ever_loaded)
        for now_ms, run_id, commands in kept:
            earlier.now_ms, earlier.run_id = now_ms, run_id
            for words in commands:
                with suppress(Refused):
                    run(earlier, words)
        earlier.history = kept
        earlier.functions, earlier.ever_loaded = dict(self.functions), self.ever_loaded
        earlier.writes = 0
        return earlier


def run(store: Store, words: Words) -> Reply:
    """The reply to one command. Raises: Refused, Unsupported."""
    command = COMMANDS.get(words[0])
    if command is None:
        command = COMMANDS.get(words[0].upper())
        if command is None:
            raise Unsupported(b" ".join(words[:4]).decode(errors="replace"))
    return command(store, words)


# -- streams ---------------------------------------------------------------------------------------------------------


def _xadd(store: Store, words: Words) -> Reply:
    at = 2
    if words[at] == b"NOMKSTREAM":
        at += 1
        if not store.exists(words[1]):
            return None
    stream = store.find(words[1], Stream)
    entry_id = read_id(words[at])
    if stream is None:
        stream = store.make(words[1], Stream)
    stream.add(entry_id, list(words[at + 1 :]))
    store.writes += 1
    return words[at]


def _xdel(store: Store, words: Words) -> Reply:
    stream = store.find(words[1], Stream)
    if stream is None:
        return 0
    store.writes += 1
    return sum(stream.drop(read_id(word)) for word in words[2:])


def _xrange(store: Store, words: Words) -> Reply:
    backward = words[0].upper() == b"XREVRANGE"
    stream = store.find(words[1], Stream)
    if stream is None:
        return []
    count = int(words[5]) if len(words) > 5 else None
    low, high = (words[3], words[2]) if backward else (words[2], words[3])
    return stream.between(low, high, count, backward=backward)


def _xtrim(store: Store, words: Words) -> Reply:
    stream = store.find(words[1], Stream)
    if stream is None:
        return 0
    rest = [word for word in words[3:] if word not in (b"=", b"~")]
    store.writes += 1
    if words[2].upper() == b"MINID":
        return stream.trim_below(read_id(rest[0]))
    surplus = len(stream.ids) - int(rest[0])
    return stream.trim_below(stream.ids[surplus] if surplus < len(stream.ids) else (2**64, 0)) if surplus > 0 else 0


def _xlen(store: Store, words: Words) -> Reply:
    stream = store.find(words[1], Stream)
    return 0 if stream is None else len(stream.ids)


def _xinfo(store: Store, words: Words) -> Reply:
    stream = store.find(words[2], Stream)
    if stream is None:
        raise Refused("ERR no such key")
    first = [show(stream.ids[0]), stream.bodies[0]] if stream.ids else None
    last = [show(stream.ids[-1]), stream.bodies[-1]] if stream.ids else None
    return [
        *(b"length", len(stream.ids), b"last-generated-id", show(stream.last)),
        *(b"max-deleted-entry-id", show(stream.deleted), b"entries-added", stream.added),
        *(b"first-entry", first, b"last-entry", last),
    ]


# -- hashes ----------------------------------------------------------------------------------------------------------


def _hset(store: Store, words: Words) -> Reply:
    fields = store.make(words[1], dict)
    before = len(fields)
    fields.update(zip(words[2::2], words[3::2], strict=True))
    return len(fields) - before


def _hsetnx(store: Store, words: Words) -> Reply:
    fields = store.find(words[1], dict)
    if fields and words[2] in fields:
        return 0
    return _hset(store, words)


def _hget(store: Store, words: Words) -> Reply:
    fields = store.find(words[1], dict)
    return fields.get(words[2]) if fields else None


def _hmget(store: Store, words: Words) -> Reply:
    fields = store.find(words[1], dict) or {}
    return [fields.get(name) for name in words[2:]]


def _hgetall(store: Store, words: Words) -> Reply:
    fields = store.find(words[1], dict) or {}
    return [part for pair in fields.items() for part in pair]


def _hdel(store: Store, words: Words) -> Reply:
    fields = store.find(words[1], dict)
    if not fields:
        return 0
    store.writes += 1
    gone = sum(fields.pop(name, None) is not None for name in words[2:])
    if not fields:
        store.forget(words[1])
    return gone


def _hexists(store: Store, words: Words) -> Reply:
    fields = store.find(words[1], dict)
    return int(bool(fields) and words[2] in fields)


def _hincrby(store: Store, words: Words) -> Reply:
    fields = store.make(words[1], dict)
    value = int(fields.get(words[2], b"0")) + int(words[3])
    fields[words[2]] = b"%d" % value
    return value


# -- sorted sets; a subtype of dict so that the types of keys differ -------------------------------------------------


class Scores(dict[bytes, float]):
    """Members and scores."""

    def ordered(self) -> list[tuple[bytes, float]]:
        """By score, then by member."""
        return sorted(self.items(), key=lambda pair: (pair[1], pair[0]))


class Members(dict[bytes, None]):
    """A set that keeps the order of arrival: the same in every run."""


def _zadd(store: Store, words: Words) -> Reply:
    at, options = 2, set()
    while words[at].upper() in (b"NX", b"XX", b"GT", b"LT", b"CH"):
        options.add(words[at].upper())
        at += 1
    scores = store.find(words[1], Scores)
    if scores is None:
        if b"XX" in options:
            return 0
        scores = store.make(words[1], Scores)
    store.writes += 1
    added = 0
    for text, name in zip(words[at::2], words[at + 1 :: 2], strict=True):
        score, old = score_of(text), scores.get(name)
        if old is None:
            if b"XX" not in options:
                scores[name] = score
                added += 1
        elif (
            b"NX" not in options and not (b"GT" in options and score <= old) and not (b"LT" in options and score >= old)
        ):
            scores[name] = score
    return added


def _zrem(store: Store, words: Words) -> Reply:
    scores = store.find(words[1], Scores)
    if scores is None:
        return 0
    gone = sum(scores.pop(name, None) is not None for name in words[2:])
    store.writes += 1
    if not scores:
        store.forget(words[1])
    return gone


def _zscore(store: Store, words: Words) -> Reply:
    scores = store.find(words[1], Scores)
    score = None if scores is None else scores.get(words[2])
    return None if score is None else show_score(score)


def _zrange(store: Store, words: Words) -> Reply:
    scores = store.find(words[1], Scores)
    if not scores:
        return []
    rest = [word.upper() for word in words[4:]]
    if b"BYSCORE" in rest:
        limit = words[4 + rest.index(b"LIMIT") + 1 :][:2] if b"LIMIT" in rest else ()
        found = _by_score(scores, words[2], words[3])
        if limit:
            found = found[int(limit[0]) :][: int(limit[1])]
    else:
        first, last = int(words[2]), int(words[3])
        found = scores.ordered()[first : last + 1 if last != -1 else None]
    if b"WITHSCORES" in rest:
        return [part for name, score in found for part in (name, show_score(score))]
    return [name for name, _ in found]


def _by_score(scores: Scores, low: bytes, high: bytes) -> list[tuple[bytes, float]]:
    (least, above), (most, below) = score_bound(low), score_bound(high)
    return [
        (name, score)
        for name, score in scores.ordered()
        if (score > least if above else score >= least) and (score < most if below else score <= most)
    ]


def _zrangebyscore(store: Store, words: Words) -> Reply:
    return _zrange(store, [b"ZRANGE", *words[1:4], b"BYSCORE", *words[4:]])


def _zcount(store: Store, words: Words) -> Reply:
    scores = store.find(words[1], Scores)
    return len(_by_score(scores, words[2], words[3])) if scores else 0


def _zcard(store: Store, words: Words) -> Reply:
    return len(store.find(words[1], Scores) or ())


def _zremrangebyscore(store: Store, words: Words) -> Reply:
    scores = store.find(words[1], Scores)
    gone = _by_score(scores, words[2], words[3]) if scores else []
    return _zrem(store, [b"ZREM", words[1], *(name for name, _ in gone)]) if gone else 0


# -- sets and strings ------------------------------------------------------------------------------------------------


def _sadd(store: Store, words: Words) -> Reply:
    members = store.make(words[1], Members)
    before = len(members)
    members.update(dict.fromkeys(words[2:]))
    return len(members) - before


def _srem(store: Store, words: Words) -> Reply:
    members = store.find(words[1], Members)
    if members is None:
        return 0
    store.writes += 1
    gone = [name for name in words[2:] if name in members]
    for name in gone:
        del members[name]
    if not members:
        store.forget(words[1])
    return len(gone)


def _smembers(store: Store, words: Words) -> Reply:
    return list(store.find(words[1], Members) or ())


def _sismember(store: Store, words: Words) -> Reply:
    return int(words[2] in (store.find(words[1], Members) or ()))


def _set(store: Store, words: Words) -> Reply:
    options = [word.upper() for word in words[3:]]
    there = store.exists(words[1])
    if (b"NX" in options and there) or (b"XX" in options and not there):
        return None
    store.data[words[1]] = bytes(words[2])
    store.expires.pop(words[1], None)
    for name, factor in ((b"PX", 1), (b"EX", 1000)):
        if name in options:
            store.expires[words[1]] = store.now_ms + int(words[3 + options.index(name) + 1]) * factor
    store.writes += 1
    return b"OK"


def _get(store: Store, words: Words) -> Reply:
    return store.find(words[1], bytes)


def _mget(store: Store, words: Words) -> Reply:
    return [store.find(key, bytes) for key in words[1:]]


def _incr(store: Store, words: Words) -> Reply:
    value = int(store.find(words[1], bytes) or b"0") + (int(words[2]) if len(words) > 2 else 1)
    store.data[words[1]] = b"%d" % value
    store.writes += 1
    return value


# -- any key ---------------------------------------------------------------------------------------------------------


def _del(store: Store, words: Words) -> Reply:
    return sum(store.forget(key) for key in words[1:])


def _exists(store: Store, words: Words) -> Reply:
    return sum(store.exists(key) for key in words[1:])


def _pexpire(store: Store, words: Words) -> Reply:
    if not store.exists(words[1]):
        return 0
    store.expires[words[1]] = store.now_ms + int(words[2]) * (1 if words[0].upper() == b"PEXPIRE" else 1000)
    store.writes += 1
    return 1


def _pttl(store: Store, words: Words) -> Reply:
    if not store.exists(words[1]):
        return -2
    return int(store.expires[words[1]] - store.now_ms) if words[1] in store.expires else -1


def _persist(store: Store, words: Words) -> Reply:
    store.writes += 1
    return int(store.expires.pop(words[1], None) is not None)


def _time(store: Store, words: Words) -> Reply:
    micros = int(store.now_ms * 1000)
    return [b"%d" % (micros // 1_000_000), b"%d" % (micros % 1_000_000)]


def _info(store: Store, words: Words) -> Reply:
    up_s = int((store.now_ms - store.begun_ms) / 1000)
    return INFO % (store.run_id, up_s, store.has_disk, not store.has_disk)


def _publish(store: Store, words: Words) -> Reply:
    return store.publish(words[1], words[2])


def _fcall(store: Store, words: Words) -> Reply:
    assert store.script is not None
    count = int(words[2])
    return store.script(store, words[1].decode(), words[3 : 3 + count], words[3 + count :])


COMMANDS: dict[bytes, Callable[[Store, Words], Reply]] = {
    **{b"XADD": _xadd, b"XDEL": _xdel, b"XRANGE": _xrange, b"XREVRANGE": _xrange, b"XTRIM": _xtrim},
    **{b"XLEN": _xlen, b"XINFO": _xinfo, b"HSET": _hset, b"HSETNX": _hsetnx, b"HGET": _hget, b"HMGET": _hmget},
    **{b"HGETALL": _hgetall, b"HDEL": _hdel, b"HEXISTS": _hexists, b"HINCRBY": _hincrby, b"ZADD": _zadd},
    **{b"ZREM": _zrem, b"ZSCORE": _zscore, b"ZRANGE": _zrange, b"ZRANGEBYSCORE": _zrangebyscore},
    **{b"ZCOUNT": _zcount, b"ZCARD": _zcard, b"ZREMRANGEBYSCORE": _zremrangebyscore, b"SADD": _sadd},
    **{b"SREM": _srem, b"SMEMBERS": _smembers, b"SISMEMBER": _sismember, b"SET": _set, b"GET": _get},
    **{b"MGET": _mget, b"INCR": _incr, b"INCRBY": _incr, b"DEL": _del, b"UNLINK": _del, b"EXISTS": _exists},
    **{b"PEXPIRE": _pexpire, b"EXPIRE": _pexpire, b"PTTL": _pttl, b"PERSIST": _persist, b"TIME": _time, b"INFO": _info},
    **{b"PUBLISH": _publish, b"SPUBLISH": _publish, b"FCALL": _fcall, b"FCALL_RO": _fcall},
}
WRITES = frozenset(
    b"XADD XDEL XTRIM HSET HSETNX HDEL HINCRBY ZADD ZREM ZREMRANGEBYSCORE SADD SREM SET INCR INCRBY DEL UNLINK"
    b" PEXPIRE EXPIRE PERSIST FUNCTION FLUSHALL".split()
)
"""Commands that a node which takes no writes refuses."""
