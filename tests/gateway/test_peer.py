"""A peer that is gone is an answer, not an exception."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.websockets import WebSocket

from duplex_es.protocol import ProtocolError, ResponseSpeak
from duplex_es.protocol.dialects import GA
from gateway import peer as module
from gateway.dialects import Voice
from gateway.peer import Gone, Peer
from tests.gateway.stage import audio_delta

pytestmark = pytest.mark.unit

LAST = ProtocolError("bad_event", "the end")


class Wire:
    """The server's side of ASGI: plays ``incoming``, keeps what is sent; sending fails or blocks when told."""

    def __init__(self, *incoming: dict[str, Any], offered: tuple[str, ...] = ()) -> None:
        self.incoming = [{"type": "websocket.connect"}, *incoming]
        self.sent: list[dict[str, Any]] = []
        self.failure: Exception | None = None
        self.blocks = False
        self.scope = {"type": "websocket", "subprotocols": list(offered), "headers": [], "path": "/"}

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        return self.incoming.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        """Take a message."""
        if self.blocks:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        self.sent.append(message)

    async def peer(self) -> Peer:
        """The accepted peer."""
        peer = Peer(WebSocket(self.scope, self.receive, self.send))  # type: ignore[arg-type]
        await peer.accept()
        return peer


async def test_text_and_binary_frames_are_told_apart_and_counted() -> None:
    wire = Wire({"type": "websocket.receive", "text": "hi"}, {"type": "websocket.receive", "bytes": b"\x00"})
    peer = await wire.peer()
    assert [await peer.receive(), await peer.receive()] == ["hi", b"\x00"]
    assert peer.said == 2


async def test_gone_stays_gone() -> None:
    peer = await Wire({"type": "websocket.disconnect", "code": 1001}).peer()
    assert [await peer.receive(), await peer.receive()] == [Gone(1001), Gone(1001)]


@pytest.mark.parametrize(
    ("code", "said_goodbye"),
    [(1000, True), (1001, True), (4000, True), (1005, False), (1006, False), (1011, False), (1012, False)],
)
def test_only_a_close_of_the_peers_own_is_a_goodbye(code: int, said_goodbye: bool) -> None:
    assert Gone(code).said_goodbye is said_goodbye


@pytest.mark.parametrize("failure", [OSError("reset"), RuntimeError("after close")])
async def test_sending_to_nobody_says_so(failure: Exception) -> None:
    wire = Wire()
    peer = await wire.peer()
    wire.failure = failure
    assert await peer.send("x") is False
    await peer.close(1000, "", last=LAST)
    assert [message["type"] for message in wire.sent] == ["websocket.accept"]


async def test_a_close_carries_the_last_frame_before_it() -> None:
    wire = Wire()
    await (await wire.peer()).close(1012, "bye", last=LAST)
    assert wire.sent[1:] == [
        {"type": "websocket.send", "text": '{"type":"error","error":"the end","code":"bad_event"}'},
        {"type": "websocket.close", "code": 1012, "reason": "bye"},
    ]


async def test_what_a_frame_becomes_is_sent_piece_by_piece_or_not_at_all() -> None:
    wire = Wire()
    peer = await wire.peer()
    peer.voice = Voice(GA)
    assert await peer.tell(ResponseSpeak(response_id="resp_1", item_id="item_resp_1"))
    assert wire.sent[1:] == []
    assert await peer.tell(audio_delta(bytes(1_000_000)))
    assert len(wire.sent[1:]) == 3
    wire.failure = RuntimeError("closed")
    assert not await peer.tell(audio_delta(bytes(1_000_000)))


async def test_a_peer_that_takes_nothing_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAREWELL_S", 0.01)
    wire = Wire()
    peer = await wire.peer()
    wire.blocks = True
    await asyncio.wait_for(peer.close(1000, "", last=LAST), 30)
    assert await peer.receive() == Gone(1006)


async def test_the_subprotocol_is_taken_only_where_offered() -> None:
    for offered, accepted in ((("a", "realtime"), "realtime"), (("a",), None)):
        wire = Wire(offered=offered)
        await wire.peer()
        assert wire.sent[0]["subprotocol"] == accepted


async def test_a_peer_that_leaves_during_the_upgrade_is_gone() -> None:
    wire = Wire()
    wire.failure = RuntimeError("closed")
    assert await (await wire.peer()).receive() == Gone(1006)


class Talking(Wire):
    """A wire that has nothing to say until told."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def receive(self) -> dict[str, Any]:
        """The next message, whenever there is one."""
        return self.incoming.pop(0) if self.incoming else await self.messages.get()


async def test_work_for_a_peer_is_given_up_when_it_goes() -> None:
    wire = Talking()
    peer = await wire.peer()
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    doing = asyncio.create_task(peer.while_here(work()))
    await asyncio.sleep(0)
    wire.messages.put_nowait({"type": "websocket.disconnect", "code": 1001})
    assert await doing == Gone(1001)
    assert cancelled.is_set()
    assert await peer.receive() == Gone(1001)


async def test_what_a_peer_says_meanwhile_is_received_afterwards_in_order() -> None:
    wire = Talking()
    peer = await wire.peer()
    go = asyncio.Event()

    async def work() -> None:
        await go.wait()

    doing = asyncio.create_task(peer.while_here(work()))
    for text in ("one", "two"):
        wire.messages.put_nowait({"type": "websocket.receive", "text": text})
    await asyncio.sleep(0.01)
    go.set()
    assert await doing is None
    assert [await peer.receive(), await peer.receive()] == ["one", "two"]
    assert await peer.while_here(work()) is None
    wire.messages.put_nowait({"type": "websocket.receive", "text": "three"})
    assert await peer.receive() == "three"


async def test_what_fails_while_the_peer_is_there_fails() -> None:
    peer = await Talking().peer()

    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await peer.while_here(work())


async def test_it_knows_for_how_long_a_peer_has_taken_nothing() -> None:
    wire = Wire()
    peer = await wire.peer()
    await peer.send("x")
    assert peer.blocked_for_s() == 0.0
    wire.blocks = True
    first, second = (asyncio.create_task(peer.send(text)) for text in "ab")
    await asyncio.sleep(0.02)
    assert peer.blocked_for_s() >= 0.01
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert peer.blocked_for_s() >= 0.01, "the first one still waits"
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert peer.blocked_for_s() == 0.0
