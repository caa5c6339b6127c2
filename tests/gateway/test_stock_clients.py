"""What stock clients meet at this gateway: their own handshake, shapes, codes and close codes, over real sockets."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import (
    CloseSession,
    CommitInput,
    OpenSession,
    ResponseOutputAudioTranscriptDelta,
    SessionClosed,
    SocketAttached,
    SocketDetached,
    UpdateSession,
)
from duplex_es.protocol.dialects import BETA, DUPLEX, GA, NATIVE, opening_settings
from gateway import handshake
from tests.gateway.stage import (
    Client,
    FakeWorker,
    Gateway,
    audio_delta,
    error_frame,
    inputs_of,
    joined,
    running,
    types,
    until,
)

pytestmark = pytest.mark.e2e

PCM = {"type": "audio/pcm", "rate": 24_000}
BETA_HEADER = {"OpenAI-Beta": "realtime=v1"}


async def created(client: Client) -> dict[str, Any]:
    """``session.created`` of a stock client, complete and unprompted."""
    frame = await client.hear_type("session.created")
    assert frame["event_id"].startswith("event_")
    assert "server_event_seq" not in frame
    return frame


async def refused(client: Client) -> dict[str, Any]:
    """The inside of the next frame, an error of the stock shape: nothing missing, nothing null."""
    frame = await client.hear_type("error")
    assert frame["event_id"].startswith("event_")
    assert frame.keys() == {"type", "event_id", "error"}
    error: dict[str, Any] = frame["error"]
    assert {"type", "code", "message"} <= error.keys() <= {"type", "code", "message", "param", "event_id"}
    assert None not in error.values()
    return error


async def opened(gateway: Gateway, session_id: str) -> tuple[SocketAttached, OpenSession]:
    """The first two records of a session."""
    attached, opening = (await inputs_of(gateway.service.log, session_id))[:2]
    assert isinstance(attached, SocketAttached)
    assert isinstance(opening, OpenSession)
    return attached, opening


# -- the handshake -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["model=cascade", "dialect=ga", "dialect=ga&autostart=0", "duplex=0"])
async def test_the_session_is_created_at_once_whatever_the_query_says(
    gateway: Gateway, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "UNASKED_S", 60.0)
    async with joined(gateway.url(query)) as client, asyncio.timeout(30):
        session = (await created(client))["session"]
    assert (session["type"], session["object"], session["model"]) == ("realtime", "realtime.session", "cascade")
    assert (session["audio"]["input"]["format"], session["audio"]["output"]["format"]) == (PCM, PCM)
    attached, opening = await opened(gateway, session["id"])
    assert (attached.dialect, opening.dialect) == (GA, GA)
    assert opening == OpenSession(session=opening_settings(GA), model="cascade", updated=False, dialect=GA)


async def test_a_socket_that_says_nothing_at_all_is_taken_for_a_stock_client_within_a_second(gateway: Gateway) -> None:
    assert handshake.UNASKED_S < 1.0
    async with joined(gateway.url("")) as client, asyncio.timeout(30):
        session = (await created(client))["session"]
    assert (await opened(gateway, session["id"]))[1].dialect == GA


async def test_a_seed_client_is_not_taken_for_one_however_long_it_thinks(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "UNASKED_S", 0.0)
    for query in ("duplex=1", "autostart=0", "resume=1"):
        async with joined(gateway.url(query)) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.hear()


async def test_an_update_that_comes_before_the_session_opens_it(log: MemoryLog) -> None:
    async with (
        FakeWorker(log, models=("cascade", "echo")).working(),
        running(log) as gateway,
        joined(gateway.url("")) as client,
    ):
        await client.say("session.update", event_id="e1", session={"type": "realtime", "model": "echo"})
        session = (await created(client))["session"]
        updated = await client.hear_type("session.updated")
        opening = (await opened(gateway, session["id"]))[1]
    assert session["model"] == "echo"
    assert "server_event_seq" not in updated
    assert opening == OpenSession(
        session={**opening_settings(GA), "model": "echo"}, model="echo", event_id="e1", dialect=GA
    )


async def test_an_update_that_comes_after_it_is_a_change_in_the_sessions_own_terms(
    gateway: Gateway, worker: FakeWorker
) -> None:
    said = {
        "type": "realtime",
        "model": "gpt-realtime",
        "instructions": "be brief",
        "audio": {"input": {"format": PCM}},
    }
    async with joined(gateway.url("model=cascade&session_id=mine")) as client:
        await created(client)
        await client.say("session.update", session=said)
        await client.say("input_audio_buffer.commit")
        await until(lambda: len(worker.heard["mine"]) == 4)
    update, commit = worker.heard["mine"][2:]
    assert update == UpdateSession(session={"instructions": "be brief", "input_audio_format": PCM})
    assert commit == CommitInput(is_speech=True)


@pytest.mark.parametrize("query", ["", "model=cascade"])
@pytest.mark.parametrize("fields", [{"overlap_policy": "listen_only"}, {"extensions": ["duplex"]}])
async def test_a_first_update_with_a_seed_field_makes_it_a_seed_client(
    gateway: Gateway, query: str, fields: dict[str, Any]
) -> None:
    async with joined(gateway.url(query)) as client:
        if query:
            await created(client)
        await client.say("session.update", session=fields)
        if not query:
            await client.hear_type("session.created")
            await client.hear_type("session.updated")
        await client.say("session.heartbeat")
        ack = await client.hear_type("session.heartbeat_ack")
        assert ack["server_event_seq"] == (1 if query else 2)


async def test_only_the_first_event_can_make_it_one(gateway: Gateway) -> None:
    async with joined(gateway.url("model=cascade")) as client:
        await created(client)
        await client.say("session.update", session={"instructions": "be brief"})
        await client.say("session.heartbeat")
        await client.say("no.such.event")
        assert (await refused(client))["code"] == "invalid_value"


@pytest.mark.parametrize("offered", [["realtime"], ["realtime", "openai-insecure-api-key.k", "openai-agents-sdk.1"]])
async def test_a_browsers_subprotocols_are_answered(gateway: Gateway, offered: list[str]) -> None:
    async with joined(gateway.url("model=cascade"), subprotocols=offered) as client:
        assert client.socket.subprotocol == "realtime"
        await created(client)


# -- what it hears -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "code", "event_id"),
    [
        ("{oops", "invalid_event", None),
        ('{"event_id": "e1"}', "invalid_event", "e1"),
        ('{"type": "no.such", "event_id": "e1"}', "invalid_value", "e1"),
        ('{"type": "input_audio_buffer.append", "audio": "&&&&"}', "bad_audio", None),
        ('{"type": "session.event_ack", "server_event_seq": 0, "event_id": "e1"}', "invalid_value", "e1"),
    ],
)
async def test_errors_have_the_stock_shape_and_codes(
    gateway: Gateway, frame: str, code: str, event_id: str | None
) -> None:
    async with joined(gateway.url("dialect=ga")) as client:
        await created(client)
        await client.socket.send(frame)
        error = await refused(client)
        assert (error["code"], error.get("event_id")) == (code, event_id)


async def test_no_frame_is_longer_than_512_kib(gateway: Gateway, worker: FakeWorker) -> None:
    sound = bytes(range(256)) * 4096
    async with joined(gateway.url("model=cascade&session_id=mine")) as client:
        await created(client)
        await worker.show("mine", audio_delta(sound))
        heard, ids = b"", set()
        while len(heard) < len(sound):
            text = await client.socket.recv()
            assert len(text) <= 512 * 1024
            frame = json.loads(text)
            ids.add(frame["event_id"])
            heard += base64.b64decode(frame["delta"])
    assert heard == sound
    assert len(ids) == 3


async def test_the_beta_has_its_own_names(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url("model=cascade&session_id=mine"), additional_headers=BETA_HEADER) as client:
        assert (await created(client))["session"]["input_audio_format"] == "pcm16"
        await worker.show(
            "mine",
            ResponseOutputAudioTranscriptDelta(response_id="resp_1", item_id="item_resp_1", delta="hi"),
            audio_delta(b"\x01\x02"),
        )
        assert (await client.hear())["type"] == "response.audio_transcript.delta"
        assert (await client.hear())["type"] == "response.audio.delta"
    assert (await opened(gateway, "mine"))[0].dialect == BETA


# -- how it ends ---------------------------------------------------------------------------------------------------


async def test_a_full_fleet_is_a_rate_limit_that_says_come_back(log: MemoryLog) -> None:
    worker = FakeWorker(log, slots=1, used=1)
    async with worker.working(), running(log) as gateway, joined(gateway.url("model=cascade")) as client:
        error = await refused(client)
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert await client.closed() == (1013, "")


async def test_a_log_that_is_not_there_is_told_in_the_stock_shape(gateway: Gateway) -> None:
    gateway.service.fault = "the store is away"
    async with joined(gateway.url("model=cascade")) as client:
        assert (await refused(client))["code"] == "log_unavailable"
        assert await client.closed() == (1013, "log_unavailable")
    gateway.service.fault = None


async def test_a_stopping_gateway_goes_away_without_a_word(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url("model=cascade&session_id=mine")) as client:
        await created(client)
        gateway.server.should_exit = True
        assert await client.closed() == (1001, "gateway_stopping")
    assert worker.heard["mine"][-1] == SocketDetached(generation=1, reason="gateway_stopping")


async def test_a_session_that_failed_closes_1011_after_its_error(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url("model=cascade&session_id=mine")) as client:
        await created(client)
        reason = "runtime_append_task_failed"
        await worker.end("mine", reason, error_frame(reason), SessionClosed(session_id="mine", reason=reason))
        assert (await refused(client))["code"] == reason
        assert (await client.closed())[0] == 1011


async def test_a_session_that_timed_out_is_an_expired_one(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url("model=cascade&session_id=mine")) as client:
        await created(client)
        await worker.end("mine", "timeout", SessionClosed(session_id="mine", reason="timeout"))
        assert (await refused(client))["code"] == "session_expired"
        assert (await client.closed())[0] == 1000


async def test_hanging_up_ends_the_session_and_being_cut_off_does_not(gateway: Gateway, worker: FakeWorker) -> None:
    for session_id, hangs_up in (("polite", True), ("cut", False)):
        async with joined(gateway.url(f"model=cascade&session_id={session_id}")) as client:
            await created(client)
            if not hangs_up:
                client.socket.transport.abort()
        await until(lambda: not gateway.service.connections)
        said = await inputs_of(gateway.service.log, session_id)
        assert (CloseSession() in said) is hangs_up


# -- one session, several dialects ---------------------------------------------------------------------------------


async def test_a_session_opened_by_a_stock_client_is_resumed_by_a_seed_client(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url("dialect=ga&session_id=mine")) as stock, joined(gateway.url("")) as seed:
        first = await created(stock)
        await stock.say("input.text.append", text="say 2")
        assert [(await stock.hear())["delta"] for _ in range(2)] == ["word 0", "word 1"]
        await seed.resume({"session_id": "mine", **first["duplex"]}, 1)
        assert (await seed.hear_type("session.resumed"))["attachment_generation"] == 2
        replayed = await seed.hear_type("response.output_text.delta")
        assert (replayed["server_event_seq"], replayed["delta"]) == (2, "word 1")
        assert await stock.closed() == (1000, "session_replaced")
    attached = [said for said in await inputs_of(gateway.service.log, "mine") if isinstance(said, SocketAttached)]
    assert [one.dialect for one in attached] == [GA, DUPLEX]


async def test_a_session_opened_by_a_seed_client_is_resumed_in_the_words_of_a_stock_one(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url()) as seed, joined(gateway.url("dialect=ga&resume=1")) as stock:
        first = await seed.open(session_id="mine")
        await seed.say("input.text.append", text="say 1")
        shown = await seed.hear_type("response.output_text.delta")
        await stock.resume(first, 0)
        again = await created(stock)
        assert again["session"]["id"] == "mine"
        assert again["duplex"]["attachment_generation"] == 2
        assert again["duplex"]["resume_token"] != first["resume_token"]
        await stock.hear_type("session.updated")
        replayed = await stock.hear_type("response.output_text.delta")
        assert (replayed["event_id"], replayed["delta"]) == (shown["event_id"], shown["delta"])
        assert "server_event_seq" not in replayed


async def test_what_is_gone_is_a_failure_to_a_stock_client_that_resumes(gateway: Gateway) -> None:
    async with joined(gateway.url()) as seed, joined(gateway.url("dialect=ga&resume=1")) as stock:
        first = await seed.open(session_id="mine")
        await seed.say("session.event_ack", server_event_seq=1)
        async with asyncio.timeout(30):
            while (await gateway.service.log.head("mine")).acknowledged_seq < 1:
                await asyncio.sleep(0.005)
        await stock.resume(first, 0)
        assert (await refused(stock))["type"] == "server_error"
        assert (await stock.closed())[0] == 1011


# -- native --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["session.create", "open_session", "session.config", "session.update"])
async def test_a_native_session_has_four_ways_to_open(gateway: Gateway, name: str) -> None:
    async with joined(gateway.url("", "/v1/duplex")) as client:
        await client.say(name, session={"session_id": "mine"})
        frame = await client.hear_type("session.created")
        assert frame["session_id"] == "mine"
        assert not {"incarnation", "attachment_generation", "resume_token"} & frame.keys()
        await client.say("session.heartbeat")
        assert (await client.hear_type("session.heartbeat_ack"))["server_event_seq"] == 1
    attached, opening = await opened(gateway, "mine")
    assert (attached.dialect, opening.dialect, opening.updated) == (NATIVE, NATIVE, False)


async def test_a_native_session_cannot_be_resumed_and_ends_with_its_socket(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url("", "/v1/duplex")) as client:
        await client.say("session.create", session={"session_id": "mine"})
        await client.hear_type("session.created")
        client.socket.transport.abort()
    await until(lambda: "CloseSession" in types(worker.heard["mine"]))
    async with joined(gateway.url("", "/v1/duplex")) as client:
        await client.resume({"session_id": "mine", "incarnation": 0, "resume_token": "rt_x"}, 0)
        error = await client.hear_type("error")
        assert (error["code"], type(error["error"])) == ("unsupported_session_resume", str)
        assert await client.closed() == (1000, "")


# -- the client itself ---------------------------------------------------------------------------------------------


def openai_client(gateway: Gateway) -> AsyncOpenAI:
    """The stock client of OpenAI, unmodified."""
    base = f"://127.0.0.1:{gateway.port}/v1"
    return AsyncOpenAI(api_key="none", base_url=f"http{base}", websocket_base_url=f"ws{base}")


async def test_the_openai_client_connects_configures_and_branches_on_codes(gateway: Gateway) -> None:
    async with openai_client(gateway).realtime.connect(model="cascade") as connection, asyncio.timeout(30):
        first = await connection.recv()
        assert first.type == "session.created"
        assert first.session.type == "realtime"
        await connection.session.update(session={"type": "realtime", "instructions": "be brief"})
        await connection.send({"type": "no.such.event", "event_id": "e1"})  # type: ignore[arg-type]
        error = await connection.recv()
        assert error.type == "error"
        assert (error.error.code, error.error.event_id) == ("invalid_value", "e1")
    session_id = first.session.id  # type: ignore[union-attr]
    await until(lambda: not gateway.service.connections)
    assert types(await inputs_of(gateway.service.log, str(session_id)))[:4] == [
        "SocketAttached",
        "OpenSession",
        "UpdateSession",
        "RefuseCommand",
    ]


async def test_the_openai_client_of_the_beta_is_heard_as_one(gateway: Gateway) -> None:
    async with openai_client(gateway).beta.realtime.connect(model="cascade") as connection, asyncio.timeout(30):
        first = await connection.recv()
    assert first.type == "session.created"
    assert first.session.input_audio_format == "pcm16"
