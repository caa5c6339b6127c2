"""The rows of the first-message table, over a real socket."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from duplex_es.log.memory import MemoryLog
from duplex_es.observability.tracing import TraceContext
from duplex_es.protocol import Heartbeat, OpenSession, RefuseCommand, SocketAttached
from tests.gateway.stage import Client, FakeWorker, Gateway, inputs_of, joined, running, types

pytestmark = pytest.mark.e2e


async def flat_ending(client: Client, code: str) -> dict[str, Any]:
    """The flat error ``code``, then a normal close."""
    error = await client.hear_type("error")
    assert isinstance(error["error"], str)
    assert error["code"] == code
    assert "server_event_seq" not in error
    assert await client.closed() == (1000, "")
    return error


async def test_a_model_in_the_query_starts_a_session_before_the_client_says_anything(gateway: Gateway) -> None:
    async with joined(gateway.url("duplex=1&model=cascade&session_id=mine")) as client:
        created = await client.hear_type("session.created")
        assert created["session"]["id"] == "mine"
        await client.say("session.heartbeat")
        ack = await client.hear_type("session.heartbeat_ack")
        assert ack["server_event_seq"] == 1, "no session.updated came between"


@pytest.mark.parametrize("query", ["", "duplex=1", "autostart=0"])
async def test_a_session_update_opens_and_is_answered_as_one(gateway: Gateway, query: str) -> None:
    async with joined(gateway.url(query)) as client:
        await client.say("session.update", event_id="e1", session={"session_id": "mine"})
        created = await client.hear_type("session.created")
        assert "server_event_seq" not in created
        assert created["event_id"].startswith("event_")
        assert (created["incarnation"], created["attachment_generation"]) == (0, 1)
        assert created["resume_token"].startswith("rt_")
        updated = await client.hear_type("session.updated")
        assert updated["server_event_seq"] == 1
        assert updated["session"] == created["session"]
        first, opening = await inputs_of(gateway.service.log, "mine")
        assert isinstance(first, SocketAttached)
        assert (first.generation, first.gateway) == (1, "gateway-1")
        assert TraceContext.read(first.traceparent) is not None
        assert opening == OpenSession(session={"session_id": "mine"}, model="cascade", event_id="e1")


async def test_fields_at_the_top_level_of_the_update_are_the_session(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.say("session.update", id="top")
        assert (await client.hear_type("session.created"))["session"]["id"] == "top"


async def test_any_other_first_event_starts_a_default_session_and_is_then_executed(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url("session_id=mine")) as client:
        await client.say("session.heartbeat", event_id="e1")
        await client.hear_type("session.created")
        await client.hear_type("session.heartbeat_ack")
        assert worker.heard["mine"][1:] == [
            OpenSession(session={}, model="cascade", updated=False),
            Heartbeat(event_id="e1"),
        ]


async def test_an_unknown_first_event_starts_a_default_session_and_is_refused_in_it(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.say("no.such.event", event_id="e1")
        await client.hear_type("session.created")
        error = (await client.hear_type("error"))["error"]
        assert (error["code"], error["event_id"]) == ("unknown_event", "e1")


@pytest.mark.parametrize("name", ["native_duplex=1", "minicpmo45_native_duplex=yes"])
async def test_native_duplex_in_the_query_reaches_a_session_that_starts_by_itself(gateway: Gateway, name: str) -> None:
    async with joined(gateway.url(f"duplex=1&model=cascade&{name}")) as client:
        created = await client.hear_type("session.created")
        assert created["session"]["extra_body"] == {"native_duplex": True}


async def test_native_duplex_in_the_query_is_ignored_by_an_explicit_update(gateway: Gateway) -> None:
    async with joined(gateway.url("native_duplex=1")) as client:
        assert (await client.open())["session"]["extra_body"] is None


async def test_an_id_nobody_chose_is_made_up(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        session_id = (await client.open(session_id=""))["session"]["id"]
        assert session_id.startswith("duplex-")
        assert len(session_id) == len("duplex-") + 32


@pytest.mark.parametrize("switch", ["autostart=0", "resume=1", "model=cascade&autostart=off"])
async def test_a_resume_only_socket_may_still_open_by_update(gateway: Gateway, switch: str) -> None:
    async with joined(gateway.url(switch)) as client:
        await client.open()


async def test_a_resume_only_socket_refuses_anything_else(gateway: Gateway) -> None:
    async with joined(gateway.url("autostart=0")) as client:
        await client.say("session.heartbeat")
        await flat_ending(client, "bad_event")
    assert await gateway.service.log.sessions() == []


async def test_a_resume_only_socket_refuses_an_unknown_event(gateway: Gateway) -> None:
    async with joined(gateway.url("resume=1")) as client:
        await client.say("no.such.event")
        await flat_ending(client, "bad_event")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("not json", "invalid_json"),
        ('{"type": "session.update"', "invalid_json"),
        ("[1, 2]", "bad_event"),
        ('{"no": "type"}', "bad_event"),
        ('{"type": 7}', "bad_event"),
        ('{"type": "input_audio_buffer.append"}', "bad_event"),
        ('{"type": "session.resume", "session_id": ""}', "invalid_session_resume"),
        (b"\x00\x01", "internal_error"),
    ],
)
@pytest.mark.parametrize("query", ["", "duplex=1"])
async def test_a_first_frame_that_cannot_be_read_ends_the_connection(
    gateway: Gateway, frame: str | bytes, code: str, query: str
) -> None:
    async with joined(gateway.url(query)) as client:
        await client.socket.send(frame)
        await flat_ending(client, code)
    assert await gateway.service.log.sessions() == []


async def test_silence_ends_the_connection(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, config_timeout_s=0.05) as gateway, joined(gateway.url()) as client:
        await flat_ending(client, "config_timeout")


async def test_a_rejected_turn_detection_may_be_corrected_on_the_same_socket(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.say("session.update", event_id="e1", session={"turn_detection": {"type": "model_native"}})
        error = await client.hear_type("error")
        assert error["error"]["code"] == "unsupported_turn_detection"
        assert error["error"]["event_id"] == "e1"
        assert "server_event_seq" not in error
        await client.open()


async def test_a_rejected_audio_format_may_be_corrected_on_the_same_socket(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.say("session.update", session={"input_audio_format": "mp3"})
        assert (await client.hear_type("error"))["error"]["code"] == "unsupported_audio_format"
        await client.open()


async def test_a_correction_does_not_get_a_new_window(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, config_timeout_s=1.5) as gateway, joined(gateway.url()) as client:
        codes = []
        while "config_timeout" not in codes:
            with suppress(ConnectionClosed):  # it may be closing already; what it said before is still to be heard
                await client.say("session.update", session={"input_audio_format": "mp3"})
            error = await client.hear_type("error")
            codes.append(error["error"]["code"] if isinstance(error["error"], dict) else error["code"])
        assert set(codes) == {"unsupported_audio_format", "config_timeout"}


async def test_an_oversize_first_frame_is_skipped_and_the_next_one_opens(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, max_event_bytes=1000) as gateway, joined(gateway.url()) as client:
        await client.say("session.update", session={"instructions": "x" * 2000})
        error = await client.hear_type("error")
        assert error["code"] == "event_too_large"
        await client.open()


async def test_bad_audio_as_the_first_event_is_refused_inside_the_session_it_started(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url("session_id=mine")) as client:
        await client.say("input_audio_buffer.append", audio="not base64!")
        await client.hear_type("session.created")
        assert (await client.hear_type("error"))["error"]["code"] == "bad_audio"
        assert types(worker.heard["mine"]) == ["SocketAttached", "OpenSession", "RefuseCommand"]
        assert isinstance(worker.heard["mine"][2], RefuseCommand)


async def test_a_client_that_leaves_during_the_handshake_leaves_nothing_behind(gateway: Gateway) -> None:
    async with joined(gateway.url()):
        pass
    assert await gateway.service.log.sessions() == []


async def test_frames_sent_before_the_session_is_created_are_all_executed_in_order(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url()) as client:
        await client.socket.send(json.dumps({"type": "session.update", "session": {"session_id": "mine"}}))
        for index in range(20):
            await client.say("input.text.append", text=f"text {index}")
        await client.say("session.heartbeat")
        assert [(await client.hear())["type"] for _ in range(3)] == [
            "session.created",
            "session.updated",
            "session.heartbeat_ack",
        ]
        texts = [getattr(said, "text", None) for said in worker.heard["mine"][2:-1]]
        assert texts == [f"text {index}" for index in range(20)]
