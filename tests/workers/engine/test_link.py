"""The engine's end of the socket: it never waits, and knows when the worker is gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from workers.engine.link import Link
from workers.engine.wire import Unpacker, pack

pytestmark = pytest.mark.unit


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(30)
        yield Link(ours), theirs


def test_messages_go_both_ways(ends: tuple[Link, socket.socket]) -> None:
    link, worker = ends
    assert list(link.received()) == []
    worker.sendall(pack({"do": "stop"}, b"x"))
    assert list(link.received()) == [({"do": "stop"}, b"x")]
    link.tell({"is": "ready"})
    assert list(Unpacker().feed(worker.recv(1_000))) == [({"is": "ready"}, b"")]
    assert not link.has_more


def test_whoever_asks_whether_somebody_is_there_is_answered(ends: tuple[Link, socket.socket]) -> None:
    link, worker = ends
    worker.sendall(pack({"do": "ping"}) + pack({"do": "stop"}))
    assert list(link.received()) == [({"do": "stop"}, b"")]
    assert list(Unpacker().feed(worker.recv(1_000))) == [({"is": "pong"}, b"")]


def test_what_the_socket_does_not_take_waits_and_nothing_of_it_is_lost(ends: tuple[Link, socket.socket]) -> None:
    link, worker = ends
    blob = bytes(8_000_000)
    link.tell({"is": "tick"}, blob)
    assert link.has_more
    unpacker, found = Unpacker(), []
    while not found:
        found += unpacker.feed(worker.recv(1 << 20))
        link.flush()
    assert found == [({"is": "tick"}, blob)]
    assert not link.has_more


def test_a_worker_that_is_gone_breaks_it_whether_it_reads_or_writes(ends: tuple[Link, socket.socket]) -> None:
    link, worker = ends
    worker.close()
    assert list(link.received()) == []
    assert link.is_broken
    link.is_broken = False
    link.tell({"is": "ready"})
    assert link.is_broken
