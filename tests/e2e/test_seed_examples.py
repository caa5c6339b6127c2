"""Every worked example of the API against a live server: what a client says is taken, what a server says is heard.

Client examples are sent as they are printed, with the ids of the live session in them; server examples are provoked and
compared key by key. ``STAND_IN`` names those that no real worker can be made to show, and why.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duplex_es.log.api import SessionLog
from duplex_es.log.memory import MemoryLog
from duplex_es.log.opening import open_log
from duplex_es.protocol import ResponseMessage, RuntimeControl
from tests.gateway.stage import FakeWorker, joined, running
from tests.support.calls import pcm16
from tests.support.examples import CLIENT, SERVER, Wire, assert_shows, said
from tests.support.ordering import check_order
from tests.support.processes import StoreProcess
from tests.support.services import Deployment
from tests.support.talking import Caller, calling, conversing, question_pcm
from workers.models.scripted.profiles import PROFILES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

STAND_IN: dict[str, str] = {
    "session.expired": "an attached session ends by idle_timeout_s, with session.closed; nothing reaps it from outside",
    "runtime.control": "no model plug-in reports that a control signal was carried out in part",
}
"""Example → why it takes a stand-in for the worker to show it: the gateway, its socket and the log are real."""

SUNNY: Wire = {"audio_ms": 2400, "text": "It is sunny, 24 degrees.", "chunk_ms": 1000, "pace": "fast"}
ANSWER: list[Wire] = [SUNNY, {"finish": True}]
UNENDING: list[Wire] = [SUNNY, {"wait_ms": 60_000}, {"finish": True}]
TURN_BASED = PROFILES["qwen3_omni"].info.name
WEATHER = "what is the weather today"


def errors(caller: Caller) -> list[Wire]:
    return [frame["error"] for frame in caller.heard if frame["type"] == "error"]


async def settle(caller: Caller) -> None:
    """Return once everything said so far was taken, and assert that none of it was refused."""
    await caller.say(**said("session.heartbeat"))
    await caller.hear_until("session.heartbeat_ack")
    assert errors(caller) == []


@asynccontextmanager
async def call(deployment: Deployment, *steps: Wire, model: str = "scripted", **session: Any) -> AsyncIterator[Caller]:
    """An open call to a model that plays ``steps`` and answers only when asked; nothing in it may be refused."""
    extra_body = {"auto_response": False, "script": list(steps), **session.pop("extra_body", {})}
    async with conversing(deployment.urls[0], model=model, extra_body=extra_body, **session) as caller:
        yield caller
        await settle(caller)
    check_order(caller.heard)


async def speak(caller: Caller, ms: int = 200, **fields: Any) -> None:
    """Append a tone as one piece, spelled as the first example spells it."""
    audio = base64.b64encode(pcm16(ms)).decode()
    await caller.say(**said("input_audio_buffer.append", audio=audio, duration_ms=ms, **fields))


async def answered(caller: Caller, **options: Any) -> Wire:
    """Ask for a response and wait for its ``response.created``."""
    await caller.say(type="response.create", **options)
    return await caller.hear_until("response.created")


def about_item(caller: Caller, item_id: str) -> list[Wire]:
    """The frames that name an item, in order."""
    return [frame for frame in caller.heard if item_id in (frame.get("item_id"), frame.get("item", {}).get("id", None))]


def about_response(caller: Caller, response_id: str) -> list[Wire]:
    """The frames of a response and of its item, in order."""
    places = (response_id, f"item_{response_id}")
    return [
        frame
        for frame in caller.heard
        if frame.get("response_id") in places or frame.get("item", {}).get("id") in places
    ]


# -- session lifecycle -----------------------------------------------------------------------------------------------


@pytest.mark.shows("session.update", "session.created", "session.updated")
async def test_the_first_session_update_opens_the_session_and_both_frames_describe_it(scripted: Deployment):
    session_id = f"sess_{secrets.token_hex(6)}"
    wanted = {**CLIENT["session.update", 1]["session"], "model": "scripted", "session_id": session_id}
    async with calling(scripted.urls[0], query="?duplex=1&autostart=0") as caller:
        await caller.say(**said("session.update", session=wanted))
        created, updated = await caller.hear(), await caller.hear()
        await settle(caller)
        await caller.say(**said("session.close"))
        await caller.hear_until("session.closed")

    assert_shows(created, "session.created")
    assert_shows(updated, "session.updated")
    assert updated["session"] == created["session"]
    assert created["session"]["id"] == session_id
    for field in ("modalities", "instructions", "temperature", "overlap_policy", "playback_commit_policy"):
        assert created["session"][field] == wanted[field]
    assert "server_event_seq" not in created and updated["server_event_seq"] == 1


@pytest.mark.shows("session.update", "session.updated")
async def test_server_vad_is_configured_by_a_later_update(scripted: Deployment):
    async with call(scripted) as caller:
        await caller.say(**said("session.update", 2))
        updated = await caller.hear_until("session.updated")

    assert_shows(updated, "session.updated")
    wanted = CLIENT["session.update", 2]["session"]
    assert wanted["turn_detection"].items() <= updated["session"]["turn_detection"].items()
    assert updated["session"]["overlap_policy"] == wanted["overlap_policy"]


@pytest.mark.shows("session.heartbeat", "session.heartbeat_ack")
async def test_a_heartbeat_is_answered(scripted: Deployment):
    async with call(scripted) as caller:
        await caller.say(**said("session.heartbeat"))
        acknowledged = await caller.hear()

    assert_shows(acknowledged, "session.heartbeat_ack")


@pytest.mark.shows("session.event_ack")
async def test_an_acknowledgement_of_what_was_received_is_taken_without_an_answer(scripted: Deployment):
    async with call(scripted) as caller:
        await caller.say(**said("session.event_ack", server_event_seq=caller.seqs[-1]))
        await caller.say(type="session.heartbeat")
        assert (await caller.hear())["type"] == "session.heartbeat_ack"


@pytest.mark.shows("session.close", "session.closed")
async def test_a_close_is_answered_with_the_last_frame(scripted: Deployment):
    async with conversing(scripted.urls[0], model="scripted") as caller:
        await caller.say(**said("session.close"))
        closed = await caller.hear_until("session.closed")
        await caller.socket.wait_closed()

    assert_shows(closed, "session.closed")
    assert caller.heard[-1] == closed and caller.socket.close_code == 1000


@pytest.mark.shows("session.resume", "session.resumed", "session.replaced")
async def test_a_resume_elsewhere_is_activated_replayed_and_told_to_the_old_socket(scripted: Deployment):
    async with conversing(scripted.urls[0], model="scripted") as first:
        created = first.heard[0]
        for _ in range(3):
            await first.say(type="session.heartbeat")
            await first.hear_until("session.heartbeat_ack")
        async with calling(scripted.urls[1], query="?duplex=1&autostart=0") as second:
            await second.say(
                **said(
                    "session.resume",
                    session_id=created["session"]["id"],
                    incarnation=created["incarnation"],
                    resume_token=created["resume_token"],
                    last_received_server_event_seq=2,
                )
            )
            resumed = await second.hear()
            replayed = [await second.hear() for _ in range(2)]
            replaced = await first.hear_until("session.replaced")
            await first.socket.wait_closed()
            await second.say(type="session.close")
            await second.hear_until("session.closed")

    assert_shows(resumed, "session.resumed")
    assert resumed["resume_token"] != created["resume_token"]
    assert replayed == [frame for frame in first.heard if frame.get("server_event_seq", 0) > 2]
    assert_shows(replaced, "session.replaced")
    assert first.socket.close_reason == "session_replaced"


@pytest.mark.shows("session.resync_required")
async def test_a_resume_from_before_what_was_acknowledged_needs_a_new_session(scripted: Deployment):
    async with conversing(scripted.urls[0], model="scripted") as first:
        created = first.heard[0]
        for _ in range(3):
            await first.say(type="session.heartbeat")
            await first.hear_until("session.heartbeat_ack")
        await first.say(**said("session.event_ack", server_event_seq=3))
        await acknowledged(scripted, created["session"]["id"], 3)
        async with calling(scripted.urls[1], query="?autostart=0") as second:
            token = {key: created[key] for key in ("incarnation", "resume_token")}
            session_id = created["session"]["id"]
            await second.say(type="session.resume", session_id=session_id, **token, last_received_server_event_seq=1)
            resync = await second.hear()
            await second.socket.wait_closed()
        await settle(first)

    assert_shows(resync, "session.resync_required")


async def acknowledged(deployment: Deployment, session_id: str, seq: int) -> None:
    """Return once the log holds that everything up to ``seq`` was acknowledged."""
    async with watching(deployment) as log, asyncio.timeout(30):
        while (await log.head(session_id)).acknowledged_seq < seq:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def watching(deployment: Deployment) -> AsyncIterator[SessionLog]:
    """The deployment's log, to look at."""
    log = open_log(deployment.redis_url)
    await log.connect()
    try:
        yield log
    finally:
        await log.close_connections()


@asynccontextmanager
async def stand_in() -> AsyncIterator[tuple[FakeWorker, Any, str]]:
    """A real gateway and an open socket, with a stand-in for the worker that shows whatever a test tells it to."""
    log = MemoryLog()
    async with (
        running(log) as gateway,
        FakeWorker(log).working() as worker,
        joined(gateway.url("autostart=0")) as client,
    ):
        created = await client.open(model="cascade")
        yield worker, client, created["session"]["id"]


@pytest.mark.shows("session.expired")
async def test_a_session_that_was_reaped_says_so_before_the_socket_closes():
    async with stand_in() as (worker, client, session_id):
        await worker.end(session_id, "disconnect_grace_expired")
        expired = await client.hear()
        await client.socket.wait_closed()

    assert_shows(expired, "session.expired")
    assert (client.socket.close_code, client.socket.close_reason) == (1000, "session_expired")


@pytest.mark.shows("runtime.control")
async def test_a_report_of_a_partly_supported_control_signal_passes_through():
    async with stand_in() as (worker, client, session_id):
        report = RuntimeControl(session_id=session_id, epoch=1, result={"unsupported": ["fence"]})
        await worker.show(session_id, report)
        control = await client.hear()

    assert_shows(control, "runtime.control")
    assert control["server_event_seq"] == 2 and control["result"] == report.result


# -- input -----------------------------------------------------------------------------------------------------------


@pytest.mark.shows(
    "input_audio_buffer.append",
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.commit",
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.done",
)
async def test_a_committed_utterance_fans_out_in_the_published_order(scripted: Deployment):
    async with call(scripted) as caller:
        await speak(caller, transcript=WEATHER)
        await caller.say(**said("input_audio_buffer.commit"))
        done = await caller.hear_until("conversation.item.done")

    frames = about_item(caller, done["item"]["id"])
    started, stopped, added, made, committed, transcribed, _ = frames
    assert_shows(started, "input_audio_buffer.speech_started")
    assert_shows(stopped, "input_audio_buffer.speech_stopped")
    assert_shows(added, "conversation.item.added")
    assert_shows(made, "conversation.item.created")
    assert_shows(committed, "input_audio_buffer.committed")
    assert_shows(transcribed, "conversation.item.input_audio_transcription.completed")
    assert_shows(done, "conversation.item.done")
    assert transcribed["transcript"] == WEATHER
    assert committed["event"]["realtime_item_id"] == done["item"]["id"]


@pytest.mark.shows("conversation.item.input_audio_transcription.completed", "conversation.item.done")
async def test_the_transcript_of_the_model_completes_the_item_later(scripted: Deployment):
    async with call(scripted, {"on": "end_turn", "transcript": WEATHER, "do": []}) as caller:
        await speak(caller)
        await caller.say(**said("input_audio_buffer.commit"))
        committed = await caller.hear_until("input_audio_buffer.committed")
        transcribed, done = await caller.hear(), await caller.hear()

    assert_shows(transcribed, "conversation.item.input_audio_transcription.completed")
    assert_shows(done, "conversation.item.done")
    assert transcribed["item_id"] == done["item"]["id"] == committed["item_id"]


@pytest.mark.shows("input_audio_buffer.append")
@pytest.mark.parametrize("number", [2, 3], ids=["camera_frames", "annotated_by_a_detector"])
async def test_an_append_with_more_than_audio_is_taken(scripted: Deployment, number: int):
    async with call(scripted) as caller:
        audio = base64.b64encode(pcm16(200)).decode()
        extended = said("input_audio_buffer.append", 2, audio=audio) if number == 2 else None
        await caller.say(**(extended or said("input_audio_buffer.append", 3, audio=audio)))
        await caller.say(type="input_audio_buffer.commit")
        committed = await caller.hear_until("input_audio_buffer.committed")

    assert committed["item_id"]


@pytest.mark.shows("input.commit")
async def test_the_short_commit_asks_for_a_response_by_itself(scripted: Deployment):
    async with call(scripted, {"on": "end_turn", "transcript": WEATHER, "do": ANSWER}) as caller:
        await speak(caller)
        await caller.say(**said("input.commit"))
        await caller.hear_until("input_audio_buffer.committed")
        done = await caller.hear_until("response.done")

    assert done["response"]["status"] == "completed"


@pytest.mark.shows("input_audio_buffer.commit", "response.listen")
async def test_a_commit_declared_silent_is_answered_with_a_decision_to_listen(scripted: Deployment):
    async with call(scripted, {"on": "end_turn", "do": ANSWER}) as caller:
        await speak(caller)
        await caller.say(**said("input_audio_buffer.commit", 2))
        listened = await caller.hear_until("response.listen")

    assert listened["response"]["metadata"]["reason"] == "silence_or_noise"
    assert "response_id" not in listened
    assert not [frame for frame in caller.heard if frame["type"] == "response.created"]


@pytest.mark.shows("input_audio_buffer.committed")
async def test_a_commit_declared_silent_is_still_acknowledged_as_a_commit(scripted: Deployment):
    async with call(scripted) as caller:
        await speak(caller)
        await caller.say(**said("input_audio_buffer.commit", 2))
        await settle(caller)

    committed = next((frame for frame in caller.heard if frame["type"] == "input_audio_buffer.committed"), None)
    assert committed is not None, "no input_audio_buffer.committed"
    assert {"empty": True, "is_speech": False, "no_response": True}.items() <= committed["event"].items()


@pytest.mark.shows("input_audio_buffer.committed")
async def test_a_commit_during_an_answer_is_deferred(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": UNENDING}) as caller:
        await speak(caller, transcript=WEATHER)
        await caller.say(type="input_audio_buffer.commit")
        await answered(caller)
        await caller.hear_until("response.output_audio.delta")
        await speak(caller, 1000, transcript="and tomorrow")
        await caller.say(type="input_audio_buffer.commit", response_create=True)
        committed = await caller.hear_until("input_audio_buffer.committed")

    assert_shows(committed, "input_audio_buffer.committed", 2)


@pytest.mark.shows("input_audio_buffer.clear", "input_audio_buffer.cleared")
async def test_a_clear_drops_the_buffer(scripted: Deployment):
    async with call(scripted) as caller:
        await speak(caller)
        await caller.say(**said("input_audio_buffer.clear"))
        cleared = await caller.hear_until("input_audio_buffer.cleared")

    assert_shows(cleared, "input_audio_buffer.cleared")


@pytest.mark.shows("input.cancel", "input_audio_buffer.cleared")
async def test_a_cancel_drops_the_buffer_and_moves_the_epoch(scripted: Deployment):
    async with call(scripted) as caller:
        await speak(caller)
        await caller.say(**said("input.cancel"))
        cleared = await caller.hear_until("input_audio_buffer.cleared")
        await caller.say(type="session.update", session={})
        updated = await caller.hear_until("session.updated")

    assert_shows(cleared, "input_audio_buffer.cleared")
    assert updated["session"]["epoch"] == 1


@pytest.mark.shows("input.text.append")
async def test_text_is_appended_to_the_open_item_of_a_turn_based_model(profiled: Deployment):
    async with call(profiled, {"on": "end_turn", "do": ANSWER}, model=TURN_BASED) as caller:
        await caller.say(**said("input.text.append"))
        await settle(caller)
        await caller.say(type="input.commit")
        added = await caller.hear_until("conversation.item.added")
        await caller.hear_until("rate_limits.updated")

    assert added["item"]["content"] == [{"type": "input_text", "text": CLIENT["input.text.append", 1]["text"]}]


# -- conversation items ----------------------------------------------------------------------------------------------


@pytest.mark.shows("conversation.item.create", "conversation.item.delete", "conversation.item.deleted")
async def test_a_text_item_is_created_and_deleted(scripted: Deployment):
    async with call(scripted) as caller:
        await caller.say(**said("conversation.item.create"))
        done = await caller.hear_until("conversation.item.done")
        item_id = done["item"]["id"]
        await caller.say(**said("conversation.item.delete", item_id=item_id))
        deleted = await caller.hear()

    kinds = [frame["type"] for frame in about_item(caller, item_id)]
    assert kinds == [f"conversation.item.{what}" for what in ("added", "created", "done", "deleted")]
    assert done["item"]["content"] == CLIENT["conversation.item.create", 1]["item"]["content"]
    assert_shows(deleted, "conversation.item.deleted")


@pytest.mark.shows("conversation.item.create")
async def test_the_answer_to_a_function_call_is_taken_and_the_model_goes_on(scripted: Deployment):
    weather = {"name": "get_weather", "call_id": "call_7d1f", "arguments": {"city": "Hong Kong"}}
    steps = ({"on": "generate", "do": [{"function_call": weather}]}, {"on": "tool_output", "do": ANSWER})
    async with call(scripted, *steps) as caller:
        await caller.say(type="response.create")
        await caller.hear_until("response.function_call_arguments.done")
        await caller.say(**said("conversation.item.create", 2))
        added = await caller.hear_until(
            "conversation.item.added", where=lambda frame: frame["item"]["type"] == "function_call_output"
        )
        await caller.hear_until(
            "response.done", where=lambda frame: frame["response"]["output"][0]["type"] == "message"
        )

    wanted = CLIENT["conversation.item.create", 2]["item"]
    assert wanted.items() <= added["item"].items()


@pytest.mark.shows("conversation.item.create")
async def test_a_spoken_item_is_created_and_committed(scripted: Deployment):
    part = {"type": "input_audio", "audio": base64.b64encode(pcm16(400)).decode()}
    async with call(scripted) as caller:
        await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await settle(caller)

    assert "input_audio_buffer.committed" in [frame["type"] for frame in caller.heard]


@pytest.mark.shows(
    "conversation.item.retrieve",
    "conversation.item.retrieved",
    "conversation.item.truncate",
    "conversation.item.truncated",
)
async def test_an_answer_is_retrieved_and_truncated(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": ANSWER}) as caller:
        item_id = f"item_{(await answered(caller))['response_id']}"
        await caller.hear_until("rate_limits.updated")
        await caller.say(**said("conversation.item.retrieve", item_id=item_id))
        retrieved = await caller.hear()
        await caller.say(**said("conversation.item.truncate", item_id=item_id))
        truncated, acknowledged = await caller.hear(), await caller.hear()

    assert_shows(retrieved, "conversation.item.retrieved")
    assert retrieved["item"]["content"][0]["transcript"] == SUNNY["text"]
    assert_shows(truncated, "conversation.item.truncated")
    assert truncated["audio_end_ms"] == 1850
    assert acknowledged["type"] == "playback.acknowledged" and acknowledged["event"]["truncate"] is True


# -- response lifecycle ----------------------------------------------------------------------------------------------

SPOKEN = {
    "response.created": 1,
    "conversation.item.added": 2,
    "conversation.item.created": 1,
    "response.output_item.added": 1,
    "response.content_part.added": 1,
    "response.speak": 1,
    "response.output_audio.delta": 1,
    "response.output_audio_transcript.delta": 1,
    "response.output_audio.done": 1,
    "response.output_audio_transcript.done": 1,
    "response.content_part.done": 1,
    "response.output_item.done": 1,
    "conversation.item.done": 2,
    "response.done": 1,
}
"""The frames of a spoken answer, in the order of the API's text, and which example shows each."""


@pytest.mark.shows(
    "response.create",
    "response.created",
    "conversation.item.added",
    "conversation.item.created",
    "response.output_item.added",
    "response.content_part.added",
    "response.speak",
    "response.output_audio.delta",
    "response.output_audio_transcript.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
)
async def test_a_spoken_answer_comes_in_the_published_order(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": ANSWER}) as caller:
        await speak(caller, transcript=WEATHER)
        await caller.say(type="input_audio_buffer.commit")
        await caller.hear_until("conversation.item.done")
        await caller.say(**said("response.create"))
        limits = await caller.hear_until("rate_limits.updated")

    created = next(frame for frame in caller.heard if frame["type"] == "response.created")
    frames = about_response(caller, created["response_id"])
    kinds = [frame["type"] for frame in frames]
    assert list(dict.fromkeys(kinds)) == list(SPOKEN)
    assert kinds.count("response.output_audio.delta") == 3
    for kind, number in SPOKEN.items():
        # A user's item and an answer's have the same frames; the one of "created" is printed for a user's.
        assert_shows(frames[kinds.index(kind)], kind, number, loose={"previous_item_id", "part.transcript"})
    assert_shows(limits, "rate_limits.updated")
    assert created["response"]["metadata"]["trace"] == "turn-3"
    assert frames[kinds.index("response.output_audio_transcript.done")]["transcript"] == SUNNY["text"]


@pytest.mark.shows("response.output_audio.delta")
async def test_durations_marks_and_the_ledger_of_audio_are_cumulative(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": ANSWER}) as caller:
        await answered(caller)
        await caller.hear_until("rate_limits.updated")

    deltas = [frame for frame in caller.heard if frame["type"] == "response.output_audio.delta"]
    assert [len(base64.b64decode(delta["delta"])) for delta in deltas] == [48_000, 48_000, 19_200]
    metadata = [delta["metadata"] for delta in deltas]
    assert [one["audio_duration_ms"] for one in metadata] == [1000, 2000, 2400]
    assert [one["playback"]["sent_ms"] for one in metadata] == [1000, 2000, 2400]
    marks = [mark for one in metadata for mark in one["audio_text_marks"]]
    assert marks[-1]["text_chars"] == len(SUNNY["text"])
    assert [mark["audio_end_ms"] for mark in marks] == sorted(mark["audio_end_ms"] for mark in marks)


@pytest.mark.shows("response.output_text.delta", "response.output_text.done")
async def test_a_written_answer_has_text_frames(scripted: Deployment):
    steps = [{"text": "Tomorrow looks"}, {"text": " cloudy."}, {"finish": True}]
    async with call(scripted, {"on": "generate", "do": steps}, modalities=["text"]) as caller:
        await answered(caller)
        delta = await caller.hear_until("response.output_text.delta")
        done = await caller.hear_until("response.output_text.done")
        await caller.hear_until("rate_limits.updated")

    assert_shows(delta, "response.output_text.delta")
    assert_shows(done, "response.output_text.done")
    assert done["text"] == "Tomorrow looks cloudy."
    assert not [frame for frame in caller.heard if "audio" in frame["type"]]


@pytest.mark.shows("response.listen")
async def test_a_model_that_keeps_listening_says_so_without_a_response(scripted: Deployment):
    async with call(scripted, {"on": "end_turn", "do": [{"listen": "model_listen"}]}) as caller:
        await speak(caller)
        await caller.say(type="input_audio_buffer.commit")
        listened = await caller.hear_until("response.listen")

    assert_shows(listened, "response.listen")
    assert "response_id" not in listened


# -- interrupt -------------------------------------------------------------------------------------------------------


@pytest.mark.shows("barge_in", "turn.signal", "response.done")
@pytest.mark.parametrize("name", ["barge_in", "turn.signal"])
async def test_a_barge_in_cancels_the_answer(scripted: Deployment, name: str):
    async with call(scripted, {"on": "generate", "do": UNENDING}) as caller:
        await answered(caller)
        await caller.hear_until("response.output_audio.delta")
        await caller.say(**(said("barge_in") if name == "barge_in" else said("turn.signal")))
        done = await caller.hear_until("response.done")

    assert_shows(done, "response.done", 2)


@pytest.mark.shows("response.cancel", "response.done")
async def test_a_cancel_names_the_response_it_ends(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": UNENDING}) as caller:
        response_id = (await answered(caller))["response_id"]
        await caller.hear_until("response.output_audio.delta")
        await caller.say(**said("response.cancel", response_id=response_id))
        done = await caller.hear_until("response.done")

    assert done["response_id"] == response_id
    assert done["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}


@pytest.mark.shows("output_audio_buffer.clear", "output_audio_buffer.cleared")
async def test_clearing_the_output_ends_the_answer_after_saying_so(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": UNENDING}) as caller:
        response_id = (await answered(caller))["response_id"]
        await caller.hear_until("response.output_audio.delta")
        await caller.say(**said("output_audio_buffer.clear"))
        cleared = await caller.hear_until("output_audio_buffer.cleared")
        done = await caller.hear_until("response.done")

    assert_shows(cleared, "output_audio_buffer.cleared")
    assert cleared["response_id"] == done["response_id"] == response_id
    assert done["response"]["status_details"]["reason"] == "output_audio_buffer_clear"


# -- function calls --------------------------------------------------------------------------------------------------

CALLED = {
    "response.created": None,
    "conversation.item.added": None,
    "conversation.item.created": None,
    "response.output_item.added": 2,
    "response.function_call_arguments.delta": 1,
    "response.function_call_arguments.done": 1,
    "response.output_item.done": None,
    "conversation.item.done": None,
    "response.done": None,
}


@pytest.mark.shows(
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
)
async def test_a_function_call_is_a_response_of_its_own(scripted: Deployment):
    weather = {"name": "get_weather", "call_id": "call_7d1f", "arguments": '{"city":"Hong Kong"}'}
    async with call(scripted, {"on": "end_turn", "do": [{"function_call": weather}]}) as caller:
        await speak(caller)
        await caller.say(type="input_audio_buffer.commit", response_create=True)
        called = await caller.hear_until("response.function_call_arguments.done")
        await caller.hear_until("rate_limits.updated")
        if [frame["type"] for frame in caller.heard].count("response.created") > 1:
            await caller.say(type="response.cancel")
            await caller.hear_until("rate_limits.updated")

    frames = about_response(caller, called["response_id"])
    assert [frame["type"] for frame in frames] == list(CALLED)
    for frame, number in zip(frames, CALLED.values(), strict=True):
        if number is not None:
            assert_shows(frame, frame["type"], number)
    assert called["arguments"] == weather["arguments"]


@pytest.mark.shows("duplex.function_call.done")
async def test_a_malformed_function_call_is_passed_on_raw(scripted: Deployment):
    broken = {"call_id": None, "name": None, "arguments": "{"}
    async with call(scripted, {"on": "end_turn", "do": [{"function_call": broken}]}) as caller:
        await speak(caller)
        await caller.say(type="input_audio_buffer.commit", response_create=True)
        raw = await caller.hear_until("duplex.function_call.done")
        await caller.say(type="response.cancel")
        await caller.hear_until("rate_limits.updated")

    assert_shows(raw, "duplex.function_call.done")


# -- playback --------------------------------------------------------------------------------------------------------


@pytest.mark.shows("playback.ack", "playback.acknowledged")
async def test_playback_is_acknowledged_while_the_answer_goes_on(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": UNENDING}, playback_commit_policy="ack_only") as caller:
        response_id = (await answered(caller))["response_id"]
        await caller.hear_until(
            "response.output_audio.delta", where=lambda frame: frame["metadata"]["audio_duration_ms"] == 2400
        )
        await caller.say(**said("playback.ack", response_id=response_id, item_id=f"item_{response_id}"))
        acknowledged = await caller.hear_until("playback.acknowledged")

    assert_shows(acknowledged, "playback.acknowledged")
    wanted = {"generated_ms": 2400, "sent_ms": 2400, "played_ms": 1000, "committed_ms": 1000}
    assert acknowledged["event"]["playback"] == wanted


@pytest.mark.shows("playback.ack", "playback.acknowledged")
async def test_a_truncating_acknowledgement_says_what_was_heard_of_an_interrupted_answer(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": UNENDING}, playback_commit_policy="ack_only") as caller:
        response_id = (await answered(caller))["response_id"]
        await caller.hear_until(
            "response.output_audio.delta", where=lambda frame: frame["metadata"]["audio_duration_ms"] == 2400
        )
        await caller.say(type="barge_in")
        await caller.hear_until("rate_limits.updated")
        await caller.say(**said("playback.ack", 2, response_id=response_id))
        acknowledged = await caller.hear_until("playback.acknowledged")
        await caller.say(type="conversation.item.retrieve", item_id=f"item_{response_id}")
        item = (await caller.hear_until("conversation.item.retrieved"))["item"]

    assert acknowledged["event"]["truncate"] is True and acknowledged["event"]["history_committed"] is True
    assert acknowledged["event"]["playback"]["committed_ms"] == 1850
    heard = item["content"][0]["transcript"]
    assert heard and heard != SUNNY["text"] and SUNNY["text"].startswith(heard)


# -- overlap ---------------------------------------------------------------------------------------------------------


@pytest.mark.shows("overlap.decision")
async def test_long_speech_over_an_answer_is_listened_to_and_reported(scripted: Deployment):
    async with call(scripted, {"on": "generate", "do": UNENDING}, overlap_policy="listen_only") as caller:
        await answered(caller)
        await caller.hear_until("response.output_audio.delta")
        for _ in range(2):
            await speak(caller, 700)
        decision = await caller.hear_until("overlap.decision", where=lambda frame: frame["overlap_ms"] > 700)

    assert_shows(decision, "overlap.decision")
    assert decision["overlap_ms"] == 1400
    assert [frame["reason"] for frame in caller.heard if frame["type"] == "overlap.decision"] == [
        "short_ack",
        "long_overlap_speech",
    ]


@pytest.mark.shows("overlap.decision", "response.done")
async def test_speech_over_an_answer_barges_in_where_the_policy_says_so(scripted: Deployment):
    update = CLIENT["session.update", 2]["session"]
    async with call(scripted, {"on": "generate", "do": UNENDING}, **update) as caller:
        await answered(caller)
        await caller.hear_until("response.output_audio.delta")
        await caller.play(question_pcm(), realtime=False)
        decision = await caller.hear_until("overlap.decision", where=lambda frame: frame["action"] != "drop")
        done = await caller.hear_until("response.done")

    # The printed reason is that of speech that goes on; the one of its onset is what stops the answer.
    assert_shows(decision, "overlap.decision", 2, loose={"reason"})
    assert decision["reason"] == "server_vad_speech_started"
    assert_shows(done, "response.done", 2, loose={"response.status_details.reason"})
    assert done["response"]["status_details"]["reason"] == "turn_detected"


# -- other names and extensions --------------------------------------------------------------------------------------

ALIASED: dict[str, Wire] = {
    "push_chunk": {"audio": base64.b64encode(pcm16(200)).decode(), "format": "pcm16"},
    "input.audio.append": {"data": base64.b64encode(pcm16(200)).decode(), "format": "pcm16"},
    "signal_turn": {"event": "user_started"},
    "audio.playback_ack": {"audio_ms": 0},
}
"""Alias → a payload, under other names of its fields where there are some."""


@pytest.mark.shows("input_audio_buffer.append", "turn.signal", "playback.ack", "duplex.turn.event")
async def test_an_alias_and_the_other_names_of_fields_say_the_same(scripted: Deployment):
    heard = {"signal_turn": "duplex.turn.event", "audio.playback_ack": "playback.acknowledged"}
    async with call(scripted, {"on": "generate", "do": ANSWER}) as caller:
        await answered(caller)
        await caller.hear_until("rate_limits.updated")
        for alias, fields in ALIASED.items():
            await caller.say(type=alias, **fields)
            if alias in heard:
                await caller.hear_until(heard[alias])
        await caller.say(type="input_audio_buffer.commit")
        committed = await caller.hear_until("input_audio_buffer.committed")

    assert committed["item_id"]
    event = next(frame for frame in caller.heard if frame["type"] == "duplex.turn.event")["event"]
    assert (event["type"], event["event"], event["turn_state"]) == ("turn.event", "user_started", "user_speaking")


@pytest.mark.shows("session.close", "session.closed")
@pytest.mark.parametrize("alias", ["close", "close_session", "session_close"])
async def test_a_close_by_any_name_ends_the_session(scripted: Deployment, alias: str):
    async with conversing(scripted.urls[0], model="scripted") as caller:
        await caller.say(type=alias)
        closed = await caller.hear_until("session.closed")

    assert closed["reason"] == "session_close"


@pytest.mark.shows("response.message")
async def test_what_has_no_place_in_a_response_passes_through():
    async with stand_in() as (worker, client, session_id):
        await worker.show(session_id, ResponseMessage(message={"object": "chat.completion.chunk"}))
        raw = await client.hear()

    assert (raw["type"], raw["message"]) == ("response.message", {"object": "chat.completion.chunk"})


@pytest.mark.shows("session.going_away")
async def test_a_gateway_that_stops_tells_its_clients_first(scripted: Deployment):
    gateway = scripted.add_gateway()
    gateway.wait_until_ready()
    try:
        async with conversing(scripted.urls.pop(), model="scripted") as caller:
            gateway.process.terminate()
            leaving = await caller.hear_until("session.going_away")
            await caller.say(type="session.close")
            await caller.hear_until("session.closed")
    finally:
        scripted.gateways.remove(gateway)
        gateway.stop()

    assert leaving["reason"] == "gateway_stopping" and leaving["grace_ms"] > 0
    assert "server_event_seq" not in leaving


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.shows("error")
async def test_a_commit_of_nothing_is_refused_with_the_id_of_the_event(scripted: Deployment):
    async with conversing(scripted.urls[0], model="scripted") as caller:
        await caller.say(**said("input_audio_buffer.commit"))
        refused = await caller.hear_until("error")

    assert_shows(refused, "error", 1)
    assert refused["error"]["event_id"] == CLIENT["input_audio_buffer.commit", 1]["event_id"]


@pytest.mark.shows("error")
async def test_a_detector_that_may_not_interrupt_is_refused_with_the_field(scripted: Deployment):
    async with conversing(scripted.urls[0], model="scripted") as caller:
        detection = {"type": "server_vad", "interrupt_response": False}
        await caller.say(**said("session.update", session={"turn_detection": detection}))
        refused = await caller.hear_until("error")

    assert_shows(refused, "error", 2)


@pytest.mark.shows("error")
async def test_a_fault_of_the_model_is_reported_with_its_own_code(scripted: Deployment):
    fault = {"code": "runtime_append_failed", "message": "stale epoch: expected 1, got 0"}
    steps = {"on": "audio_ms", "at": 200, "do": [{"fail": fault}]}
    async with conversing(scripted.urls[0], model="scripted", extra_body={"script": [steps]}) as caller:
        await speak(caller)
        failed = await caller.hear_until("error")

    assert_shows(failed, "error", 3)
    assert failed["error"]["message"] == fault["message"]


@pytest.mark.shows("error")
async def test_a_full_deployment_refuses_the_next_session_and_names_the_limit(own_valkey: StoreProcess):
    with Deployment(own_valkey.url, model="scripted", options=("--slots", "1")) as small:
        async with conversing(small.urls[0], model="scripted"), calling(small.urls[0], query="?autostart=0") as late:
            await late.say(type="session.update", session={"model": "scripted"})
            busy = await late.hear()
            await late.socket.wait_closed()

    assert_shows(busy, "error", 4)
    assert "max_sessions=1" in busy["error"]["message"]


@pytest.mark.shows("error")
async def test_a_resume_of_an_unknown_session_is_refused_in_the_flat_shape(scripted: Deployment):
    async with calling(scripted.urls[0], query="?autostart=0") as caller:
        await caller.say(**said("session.resume", session_id=f"sess_{secrets.token_hex(6)}"))
        refused = await caller.hear()
        await caller.socket.wait_closed()

    assert_shows(refused, "error", 5)
    assert caller.socket.close_code == 1000


# -- nothing is left out ---------------------------------------------------------------------------------------------


def used(function: str) -> set[tuple[str, int]]:
    """The examples that calls of ``function`` in this file name."""
    found: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(Path(__file__).read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
            words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            names = [word for word in words if isinstance(word, str)]
            numbers = [word for word in words if isinstance(word, int)]
            found.update((name, (numbers or [1])[0]) for name in names)
    return found


def test_every_client_example_is_sent_and_every_server_example_is_looked_for():
    assert used("said") == set(CLIENT)
    printed = set(SPOKEN.items()) | {(name, number) for name, number in CALLED.items() if number}
    assert used("assert_shows") | printed == set(SERVER)


def test_what_takes_a_stand_in_is_an_example_of_a_server():
    assert STAND_IN.keys() <= {name for name, _ in SERVER}
