"""Every error code over a live socket: what provokes it, what the frame says, whether the socket stays, what changed.

``REFUSED`` are events that an open session refuses, ``REPORTED`` faults that a model reports, ``AT_THE_DOOR`` sockets
that never hold a session, ``UNABLE`` what depends on the model, ``DEPLOYED`` what has a test of its own. ``NEVER`` says
why there is nothing to provoke; a code that none of them has fails the last test.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from duplex_es.log.opening import open_log
from duplex_es.protocol import ERRORS, MAX_EVENT_BYTES
from duplex_es.protocol.dialects import stock_code
from tests.support.calls import pcm16
from tests.support.examples import Wire
from tests.support.processes import StoreProcess, free_port, start_store
from tests.support.services import Deployment, Service
from tests.support.talking import Caller, calling, conversing
from workers.models.scripted.profiles import PROFILES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EVENT_ID = "evt_wrong"
SPOKEN: Wire = {"audio_ms": 480, "text": "It is sunny.", "pace": "fast"}
ANSWER: list[Wire] = [SPOKEN, {"finish": True}]
UNENDING: list[Wire] = [SPOKEN, {"wait_ms": 60_000}, {"finish": True}]
TONE = base64.b64encode(pcm16(200)).decode()

Prepare = Callable[[Caller], Awaitable[Wire]]


# -- what an open session refuses ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """``event`` (or the raw ``text``) is refused with ``code`` and ``param``; ``prepare`` leads there and adds fields.

    ``steps`` are played by the model; ``model`` when it must be another than ``scripted``. ``afterwards`` comes before
    the session has to show that it goes on.
    """

    code: str
    param: str | None = None
    event: Wire = field(default_factory=dict)
    text: str | None = None
    prepare: Prepare | None = None
    steps: tuple[Wire, ...] = ()
    model: str = "scripted"
    afterwards: Wire | None = None

    @property
    def case(self) -> Any:
        """The row as a test case."""
        return pytest.param(self, id=f"{self.code}-{self.event.get('type', 'raw')}-{self.param}")


async def answering(caller: Caller) -> Wire:
    """An answer is being given, all its audio is out."""
    await caller.say(type="response.create")
    await caller.hear_until(
        "response.output_audio.delta", where=lambda frame: frame["metadata"]["audio_duration_ms"] == 480
    )
    await caller.hear_until("response.output_audio_transcript.delta")
    return {}


async def with_four_turns_waiting(caller: Caller) -> Wire:
    """An answer is being given, and four turns were committed behind it."""
    await answering(caller)
    for _ in range(4):
        for _ in range(4):
            await caller.say(**append())
        await caller.say(type="input_audio_buffer.commit", response_create=True)
        committed = await caller.hear_until("input_audio_buffer.committed")
        assert committed["event"]["response_create_deferred"] is True
    for _ in range(4):
        await caller.say(**append())
    await caller.hear_until("overlap.decision", where=lambda frame: frame["reason"] == "accumulating_overlap_speech")
    return {}


async def having_answered(caller: Caller) -> Wire:
    """An answer was given."""
    await caller.say(type="response.create")
    done = await caller.hear_until("response.done")
    await caller.hear_until("rate_limits.updated")
    return {"response_id": done["response_id"]}


async def naming_two_things(caller: Caller) -> Wire:
    """An answer was given, and the event also names an item that is not its."""
    answer = await having_answered(caller)
    await caller.say(type="conversation.item.create", item=message("hello"))
    return {**answer, "item_id": (await caller.hear_until("conversation.item.done"))["item"]["id"]}


async def having_spoken_in_a_voice(caller: Caller) -> Wire:
    """An answer was given; the event does not name it."""
    await having_answered(caller)
    return {}


async def naming_an_answer(caller: Caller) -> Wire:
    """An answer was given, the event names its item."""
    return {"item_id": f"item_{(await having_answered(caller))['response_id']}"}


async def naming_a_question(caller: Caller) -> Wire:
    """The event names an item of the caller's own."""
    await caller.say(type="conversation.item.create", item=message("hello"))
    return {"item_id": (await caller.hear_until("conversation.item.done"))["item"]["id"]}


async def having_only_called(caller: Caller) -> Wire:
    """A function was called."""
    await caller.say(type="response.create")
    await caller.hear_until("response.done", where=lambda frame: frame["response"]["output"][0].get("call_id") == "c1")
    await caller.hear_until("rate_limits.updated")
    await caller.say(type="response.cancel")
    await caller.hear_until("rate_limits.updated")
    return {}


async def having_been_overtaken(caller: Caller) -> Wire:
    """A function was called, the answer was interrupted, and the client wants late outputs refused."""
    await having_only_called(caller)
    await caller.say(type="session.update", session={"extra_body": {"stale_function_outputs": "refuse"}})
    await caller.hear_until("session.updated")
    return {}


async def having_called(caller: Caller) -> Wire:
    """A function was called, and its call was answered."""
    await having_only_called(caller)
    await caller.say(type="conversation.item.create", item=output("c1", "{}"))
    await caller.hear_until("conversation.item.done")
    return {}


async def with_nothing_buffered(caller: Caller) -> Wire:
    """The buffer is empty."""
    await caller.say(type="input_audio_buffer.clear")
    await caller.hear_until("input_audio_buffer.cleared")
    return {}


async def in_the_native_lane(caller: Caller) -> Wire:
    """The session opted in to the model-native lane."""
    await caller.say(type="session.update", session={"extra_body": {"native_duplex": True}})
    await caller.hear_until("session.updated")
    return {}


def message(text: str) -> Wire:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def spoken(audio: str) -> Wire:
    return {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}


def output(call_id: str, text: Any) -> Wire:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def append(**fields: Any) -> Wire:
    return {"type": "input_audio_buffer.append", "audio": TONE, **fields}


def update(**session: Any) -> Wire:
    return {"type": "session.update", "session": session}


def create(item: Any, **fields: Any) -> Wire:
    return {"type": "conversation.item.create", "item": item, **fields}


CALL: Wire = {"on": "generate", "do": [{"function_call": {"name": "f", "call_id": "c1", "arguments": {}}}]}
GENERATE: Wire = {"on": "generate", "do": ANSWER}
JPEG = "/9j/4AAQSkZJRg"

REFUSED: list[Refused] = [
    # frames
    Refused("invalid_json", text="{"),
    Refused("bad_event", text="[]"),
    Refused("bad_event", "type", {"no": "type"}),
    Refused("unknown_event", "type", {"type": "input_audio_buffer.explode"}),
    Refused("event_too_large", None, append(audio="A" * MAX_EVENT_BYTES)),
    # audio
    Refused("bad_event", "audio", {"type": "input_audio_buffer.append"}),
    Refused("bad_event", "sample_rate_hz", append(sample_rate_hz=4_000)),
    Refused("bad_event", "sample_rate_hz", append(sample_rate=16_000.5)),
    Refused("bad_audio", "audio", append(audio="not base64!")),
    Refused("bad_audio", "audio", append(audio=base64.b64encode(b"odd").decode())),
    Refused("unsupported_audio_format", "format", append(format="audio/mpeg")),
    Refused("invalid_video_frames", "video_frames", append(video_frames=[JPEG] * 3)),
    Refused("invalid_video_frames", "video_frames[0]", append(video_frames=["R0lGODlhAQABAA"])),
    Refused("invalid_video_frames", "max_slice_nums", append(max_slice_nums=2)),
    Refused("input_audio_buffer_empty", None, {"type": "input_audio_buffer.commit"}, prepare=with_nothing_buffered),
    Refused(
        "input_backpressure",
        None,
        {"type": "input_audio_buffer.commit"},
        prepare=with_four_turns_waiting,
        afterwards={"type": "response.cancel"},
        steps=({"on": "generate", "do": UNENDING},),
    ),
    Refused("native_text_append_unsupported", "type", {"type": "input.text.append", "text": "and tomorrow?"}),
    Refused("bad_event", "text", {"type": "input.text.append"}),
    # settings
    Refused("unsupported_turn_detection", "turn_detection", update(turn_detection={"type": "mind_reading"})),
    Refused("unsupported_turn_detection", "turn_detection", update(turn_detection={"type": "server_vad", "mood": 1})),
    Refused(
        "unsupported_turn_detection", "turn_detection", update(turn_detection={"type": "server_vad", "threshold": 2})
    ),
    Refused(
        "unsupported_turn_detection",
        "turn_detection",
        update(turn_detection={"type": "server_vad"}, audio={"input": {"turn_detection": None}}),
    ),
    Refused("unsupported_turn_detection", "turn_detection", update(overlap_policy="barge_in_on_speech")),
    Refused("unsupported_audio_format", "audio.input.format", update(input_audio_format="audio/mpeg")),
    Refused("unsupported_audio_format", "audio.input.format", update(input_audio_format="pcm16", sample_rate_hz=7)),
    Refused("unsupported_audio_format", "audio.output.format", update(output_audio_format="audio/mpeg")),
    Refused("model_update_unsupported", "session.model", update(model="another")),
    Refused(
        "voice_update_after_audio_unsupported",
        "session.voice",
        update(voice="another"),
        prepare=having_spoken_in_a_voice,
        steps=(GENERATE,),
    ),
    Refused("ref_audio_update_unsupported", "session.ref_audio", update(ref_audio="data:audio/wav;base64,AA==")),
    Refused(
        "unsupported_ref_audio_path",
        "session.extra_body.ref_audio_path",
        update(extra_body={"ref_audio_path": "/etc/passwd"}),
    ),
    Refused(
        "invalid_request_error", "session.extra_body.native_duplex", update(extra_body={"native_duplex": "certainly"})
    ),
    Refused(
        "native_duplex_mode_update_unsupported",
        "session.extra_body.native_duplex",
        update(extra_body={"native_duplex": False}),
        prepare=in_the_native_lane,
    ),
    # responses
    Refused(
        "response_already_active",
        None,
        {"type": "response.create"},
        prepare=answering,
        steps=({"on": "generate", "do": UNENDING},),
    ),
    Refused("response_not_active", "response_id", {"type": "response.cancel"}),
    Refused("response_not_active", "response_id", {"type": "response.cancel", "response_id": "resp_of_nobody"}),
    Refused(
        "response_not_active",
        "response_id",
        {"type": "response.cancel"},
        prepare=having_answered,
        steps=(GENERATE,),
    ),
    Refused(
        "unsupported_audio_format",
        "audio.output.format",
        {"type": "response.create", "response": {"output_audio_format": "audio/mpeg"}},
    ),
    Refused(
        "unsupported_native_response_options",
        "response.instructions",
        {"type": "response.create", "response": {"instructions": "Be brief."}},
        model="echo",
    ),
    Refused("bad_event", "event", {"type": "turn.signal"}),
    # items
    *(
        Refused(code, "item_id", {"type": f"conversation.item.{verb}", "audio_end_ms": 0, **named})
        for verb in ("retrieve", "delete", "truncate")
        for code, named in (("missing_item_id", {}), ("item_not_found", {"item_id": "item_of_nobody"}))
    ),
    Refused("item_not_found", "previous_item_id", create(message("hello"), previous_item_id="item_of_nobody")),
    Refused("bad_event", "item", {"type": "conversation.item.create"}),
    Refused("bad_event", "item.content", create(message(""))),
    Refused(
        "bad_event", "audio_end_ms", {"type": "conversation.item.truncate", "item_id": "x", "audio_end_ms": "late"}
    ),
    Refused("invalid_function_call_output", "item.call_id", create(output("call_of_nobody", "{}"))),
    Refused(
        "invalid_function_call_output",
        "item.output",
        create(output("c1", "{}")),
        prepare=having_called,
        steps=(CALL,),
    ),
    Refused(
        "bad_event", "item_id", {"type": "conversation.item.truncate", "audio_end_ms": 0}, prepare=naming_a_question
    ),
    Refused(
        "bad_event",
        "content_index",
        {"type": "conversation.item.truncate", "audio_end_ms": 0, "content_index": 5},
        prepare=naming_an_answer,
        steps=(GENERATE,),
    ),
    Refused(
        "bad_event",
        "audio_end_ms",
        {"type": "conversation.item.truncate", "audio_end_ms": -1},
        prepare=naming_an_answer,
        steps=(GENERATE,),
    ),
    Refused(
        "invalid_function_call_output",
        "item.output",
        create(output("c1", 24)),
        prepare=having_only_called,
        steps=(CALL,),
    ),
    Refused(
        "stale_function_call_output",
        "item.call_id",
        create(output("c1", "{}")),
        prepare=having_been_overtaken,
        steps=(CALL,),
    ),
    Refused("bad_audio", "item.content.audio", create(spoken("not base64!"))),
    Refused("bad_audio", "item.content.audio", create(spoken(""))),
    # playback and acknowledgements
    Refused("playback_item_not_found", "item_id", {"type": "playback.ack", "response_id": "resp_of_nobody"}),
    Refused(
        "playback_item_mismatch",
        "item_id",
        {"type": "playback.ack", "played_ms": 100},
        prepare=naming_two_things,
        steps=(GENERATE,),
    ),
    Refused("bad_event", "played_ms", {"type": "playback.ack", "played_ms": "some"}),
    Refused("invalid_event_ack", "server_event_seq", {"type": "session.event_ack", "server_event_seq": 10_000}),
    Refused("invalid_event_ack", "server_event_seq", {"type": "session.event_ack", "server_event_seq": -1}),
    Refused("invalid_event_ack", "server_event_seq", {"type": "session.event_ack"}),
    # a socket that holds a session cannot take up another
    Refused(
        "unsupported_session_resume",
        "type",
        {"type": "session.resume", "session_id": "x", "incarnation": 0, "resume_token": "rt_x"},
    ),
]


@asynccontextmanager
async def opened(
    deployment: Deployment, *steps: Wire, model: str = "scripted", **session: Any
) -> AsyncIterator[Caller]:
    """An open session that answers when asked, with 200 ms of speech in its buffer."""
    extra_body = {"auto_response": False, "script": list(steps)}
    async with conversing(deployment.urls[0], model=model, extra_body=extra_body, **session) as caller:
        await caller.say(**append())
        await caller.hear_until("input_audio_buffer.speech_started")
        yield caller


async def state_of(caller: Caller) -> Wire:
    """The session as it describes itself: the very next frame, so that nothing happened in between."""
    await caller.say(type="session.update", session={})
    frame = await caller.hear()
    assert frame["type"] == "session.updated", frame
    session: Wire = frame["session"]
    return session


async def assert_commits(caller: Caller) -> None:
    """More speech is taken and committed: the session works as if nothing had been said."""
    await caller.say(**append())
    await caller.say(type="input_audio_buffer.commit")
    await caller.hear_until("input_audio_buffer.committed")


@pytest.mark.shows("error")
@pytest.mark.parametrize("row", [row.case for row in REFUSED])
async def test_a_refused_event_says_why_and_changes_nothing(scripted: Deployment, pair: Deployment, row: Refused):
    async with opened(pair if row.model == "echo" else scripted, *row.steps, model=row.model) as caller:
        fields = await row.prepare(caller) if row.prepare else {}
        before = await state_of(caller)
        await caller.socket.send(row.text or json.dumps({**row.event, **fields, "event_id": EVENT_ID}))
        frame = await caller.hear()
        after = await state_of(caller)
        if row.afterwards:
            await caller.say(**row.afterwards)
        await assert_commits(caller)

    assert frame["type"] == "error", frame
    expected = {"type": ERRORS[row.code].type, "code": row.code, "message": frame["error"]["message"]}
    if row.param is not None:
        expected["param"] = row.param
    if row.text is None:
        expected["event_id"] = EVENT_ID
    assert frame["error"] == expected
    assert expected["message"]
    assert "server_event_seq" in frame
    assert after == before


# -- what depends on the model ----------------------------------------------------------------------------------------

MINICPM, PERSONAPLEX, NEMOTRON, QWEN = (PROFILES[name].info.name for name in PROFILES)
NATIVE: Wire = {"extra_body": {"native_duplex": True, "script": []}, "ref_audio": "data:audio/wav;base64,AA=="}
ALONE: Wire = {"extra_body": {"auto_response": True, "script": []}}
BY_TURNS: Wire = {"extra_body": {"script": []}}
DETECTED: Wire = {**BY_TURNS, "turn_detection": {"type": "server_vad"}}
PIECE: Wire = {"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm16(80)).decode()}


@dataclass(frozen=True)
class Unable:
    """A session of ``model`` with these settings refuses ``event``; ``heard``: once it took audio, ``answered``: once

    an answer was given.
    """

    code: str
    param: str | None
    model: str
    session: Wire
    event: Wire
    heard: bool = False
    answered: bool = False

    @property
    def case(self) -> Any:
        """The row as a test case."""
        return pytest.param(self, id=f"{self.code}-{self.event['type']}-{self.param}")


UNABLE: list[Unable] = [
    Unable("barge_in_unsupported", None, NEMOTRON, ALONE, {"type": "barge_in"}),
    Unable("barge_in_unsupported", None, NEMOTRON, ALONE, {"type": "turn.signal", "event": "barge_in"}),
    Unable(
        "bad_event",
        "truncate",
        NEMOTRON,
        {"extra_body": {"auto_response": True, "script": [{"on": "open", "do": ANSWER}]}},
        {"type": "playback.ack", "played_ms": 0, "truncate": True},
        answered=True,
    ),
    Unable("bad_event", "audio", NEMOTRON, ALONE, append()),
    Unable(
        "instructions_update_unsupported",
        "session.instructions",
        NEMOTRON,
        ALONE,
        update(instructions="Be brief."),
        True,
    ),
    Unable("response_create_without_input", None, MINICPM, NATIVE, {"type": "response.create"}),
    Unable(
        "unsupported_native_response_options",
        "response.temperature",
        MINICPM,
        NATIVE,
        {"type": "response.create", "response": {"temperature": 0.1}},
    ),
    Unable("native_text_append_unsupported", "type", MINICPM, NATIVE, {"type": "input.text.append", "text": "hello"}),
    Unable(
        "server_vad_requires_native_duplex",
        "turn_detection",
        QWEN,
        BY_TURNS,
        update(turn_detection={"type": "server_vad", "interrupt_response": True}),
    ),
    Unable(
        "unsupported_turn_detection",
        "turn_detection",
        QWEN,
        BY_TURNS,
        update(turn_detection={"type": "server_vad", "min_speech_duration_ms": 100}),
    ),
    Unable("server_vad_manual_commit_unsupported", "type", QWEN, DETECTED, {"type": "input_audio_buffer.commit"}, True),
    Unable(
        "unsupported_response_modality",
        "response.modalities",
        QWEN,
        BY_TURNS,
        {"type": "response.create", "response": {"modalities": ["scent"]}},
    ),
]


@pytest.mark.shows("error")
@pytest.mark.parametrize("row", [row.case for row in UNABLE])
async def test_what_a_model_cannot_do_is_refused_and_changes_nothing(profiled: Deployment, row: Unable):
    async with conversing(profiled.urls[0], model=row.model, **row.session) as caller:
        if row.heard:
            await caller.say(**PIECE)
        if row.answered:
            await caller.hear_until("rate_limits.updated")
        before = await state_after(caller)
        await caller.say(**{**row.event, "event_id": EVENT_ID})
        after = await state_after(caller)

    frame = next((frame for frame in caller.heard if frame["type"] == "error"), None)
    assert frame is not None, "not refused"
    expected = {"type": ERRORS[row.code].type, "code": row.code, "message": frame["error"]["message"]}
    assert frame["error"] == {**expected, "event_id": EVENT_ID, **({"param": row.param} if row.param else {})}
    assert after == before


async def state_after(caller: Caller) -> Wire:
    """The session as it describes itself, whatever a detector says meanwhile."""
    await caller.say(type="session.update", session={})
    session: Wire = (await caller.hear_until("session.updated"))["session"]
    return session


# -- what a model reports --------------------------------------------------------------------------------------------

REPORTED = {
    False: (
        *("runtime_append_failed", "runtime_signal_failed", "runtime_abort_failed"),
        *("runtime_data_plane_text_without_audio", "server_vad_inference_failed", "server_vad_unavailable"),
        *("chat_error", "response_error", "commit_aborted"),
        *("stale_fence", "not_found", "invalid_argument", "invalid_capability", "failed_precondition", "timeout"),
    ),
    True: ("runtime_append_task_failed", "runtime_data_plane_stream_failed", "context_exhausted"),
}
"""Whether it ends the session → codes that belong to the model and to what runs it; a plug-in is both here."""


def failing(code: str, *, fatal: bool) -> Wire:
    fault = {"fail": {"code": code, "message": "as the script says", "fatal": fatal}}
    return {"on": "generate", "do": [SPOKEN, fault]}


@pytest.mark.shows("error")
@pytest.mark.parametrize("code", REPORTED[False])
async def test_a_fault_of_the_model_fails_the_answer_and_the_session_goes_on(scripted: Deployment, code: str):
    async with opened(scripted, failing(code, fatal=False)) as caller:
        await caller.say(type="response.create", event_id="evt_fine")
        error = (await caller.hear_until("error"))["error"]
        done = await caller.hear_until("response.done")
        await caller.hear_until("rate_limits.updated")
        after = await state_of(caller)
        await assert_commits(caller)

    assert error == {"type": ERRORS[code].type, "code": code, "message": "as the script says"}
    assert done["response"]["status"] == "failed"
    assert done["response"]["status_details"] == {"type": "failed", "reason": code}
    assert (after["state"], after["turn_state"], after["epoch"]) == ("open", "idle", 0)


@pytest.mark.shows("error")
@pytest.mark.parametrize("code", REPORTED[True])
async def test_a_fatal_fault_of_the_model_ends_the_session_in_good_order(scripted: Deployment, code: str):
    async with opened(scripted, failing(code, fatal=True)) as caller:
        await caller.say(type="response.create")
        error = (await caller.hear_until("error"))["error"]
        done = await caller.hear_until("response.done")
        closed = await caller.hear_until("session.closed")
        await caller.socket.wait_closed()

    assert error == {"type": ERRORS[code].type, "code": code, "message": "as the script says"}
    assert done["response"]["status_details"] == {"type": "failed", "reason": code}
    assert closed["reason"] == code and caller.heard[-1] == closed
    assert caller.socket.close_code == 1000


# -- sockets that never hold a session -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtTheDoor:
    """The first ``said`` on a socket with this ``query`` is refused, and the connection ends."""

    code: str
    said: Wire | str | bytes | None = None
    query: str = "?autostart=0"
    flat: bool = True
    param: str | None = None

    @property
    def case(self) -> Any:
        """The row as a test case."""
        said = self.said.get("type") if isinstance(self.said, dict) else type(self.said).__name__
        return pytest.param(self, id=f"{self.code}-{said}")


AT_THE_DOOR = [
    AtTheDoor("invalid_json", "{"),
    AtTheDoor("bad_event", "[]"),
    AtTheDoor("bad_event", {"type": "session.heartbeat"}),
    AtTheDoor("internal_error", b"\x00"),
    AtTheDoor("unsupported", None, "?dialect=klingon"),
    AtTheDoor("invalid_request_error", update(model="nobodys"), flat=False, param="session.model"),
    AtTheDoor(
        "invalid_duplex_runtime_config",
        update(model="scripted", extra_body={"script": [{"on": "monday"}]}),
        flat=False,
        param="session.extra_body.script",
    ),
    AtTheDoor(
        "ref_audio_required",
        update(model=MINICPM, extra_body={"native_duplex": True}),
        flat=False,
        param="session.ref_audio",
    ),
    AtTheDoor(
        "unsupported_nemotron_duplex_mode",
        update(model=NEMOTRON),
        flat=False,
        param="session.extra_body.auto_response",
    ),
    AtTheDoor(
        "invalid_duplex_runtime_config",
        update(model=PERSONAPLEX, voice="nobody.pt"),
        flat=False,
        param="session.voice",
    ),
    AtTheDoor(
        "server_vad_requires_native_duplex",
        update(model=QWEN, turn_detection={"type": "server_vad", "interrupt_response": True}),
        flat=False,
        param="turn_detection",
    ),
    AtTheDoor(
        "unsupported_ref_audio_path",
        update(model="scripted", extra_body={"ref_audio_path": "/etc/passwd"}),
        flat=False,
        param="session.extra_body.ref_audio_path",
    ),
]


@pytest.mark.shows("error")
@pytest.mark.parametrize("row", [row.case for row in AT_THE_DOOR])
async def test_a_socket_that_is_refused_at_the_door_hears_one_error_and_is_closed(profiled: Deployment, row: AtTheDoor):
    async with calling(profiled.urls[0], query=row.query) as caller:
        if row.said is not None:
            said = {**row.said, "event_id": EVENT_ID} if isinstance(row.said, dict) else row.said
            await caller.socket.send(json.dumps(said) if isinstance(said, dict) else said)
        frame = await caller.hear()
        await caller.socket.wait_closed()

    assert_refused(frame, row.code, flat=row.flat, param=row.param)
    assert caller.socket.close_code == 1000


def assert_refused(frame: Wire, code: str, *, flat: bool, param: str | None = None) -> None:
    """The one error of a handshake, in its shape, in no sequence."""
    assert frame["type"] == "error" and "server_event_seq" not in frame
    if flat:
        assert frame["code"] == code and isinstance(frame["error"], str)
        return
    expected = {"type": ERRORS[code].type, "code": code, "message": frame["error"]["message"], "event_id": EVENT_ID}
    assert frame["error"] == {**expected, **({"param": param} if param else {})}


@pytest.mark.parametrize(
    ("code", "param", "session"),
    [
        ("unsupported_turn_detection", "turn_detection", {"turn_detection": {"type": "mind_reading"}}),
        ("unsupported_audio_format", "audio.input.format", {"input_audio_format": "audio/mpeg"}),
    ],
)
async def test_settings_with_a_slip_may_be_sent_again_on_the_same_socket(
    scripted: Deployment, code: str, param: str, session: Wire
):
    async with calling(scripted.urls[0], query="?autostart=0") as caller:
        await caller.say(type="session.update", event_id=EVENT_ID, session={"model": "scripted", **session})
        frame = await caller.hear()
        await caller.say(type="session.update", session={"model": "scripted"})
        created = await caller.hear()
        await caller.say(type="session.close")
        await caller.hear_until("session.closed")

    assert_refused(frame, code, flat=False, param=param)
    assert created["type"] == "session.created"


async def test_an_id_that_is_taken_is_refused_and_its_session_unharmed(scripted: Deployment):
    session_id = f"sess_{secrets.token_hex(6)}"
    async with opened(scripted, session_id=session_id) as holder:
        async with calling(scripted.urls[1], query="?autostart=0") as caller:
            wanted = {"model": "scripted", "session_id": session_id}
            await caller.say(type="session.update", event_id=EVENT_ID, session=wanted)
            frame = await caller.hear()
            await caller.socket.wait_closed()
        await assert_commits(holder)

    assert_refused(frame, "internal_error", flat=False, param="session.session_id")


RESUMES: list[tuple[str, Wire]] = [
    ("invalid_session_resume", {"resume_token": ""}),
    ("invalid_session_resume", {"incarnation": -1}),
    ("invalid_session_resume", {"last_received_server_event_seq": "all"}),
    ("session_resume_expired", {"session_id": "sess_of_nobody"}),
    ("session_resume_conflict", {"incarnation": 7}),
    ("session_resume_conflict", {"last_received_server_event_seq": 10_000}),
    ("invalid_resume_token", {"resume_token": "rt_guessed"}),
]


@pytest.mark.parametrize(("code", "wrong"), RESUMES, ids=[f"{code}-{next(iter(wrong))}" for code, wrong in RESUMES])
async def test_a_refused_resume_ends_that_socket_and_leaves_the_session_to_its_holder(
    scripted: Deployment, code: str, wrong: Wire
):
    async with opened(scripted) as holder:
        before = await state_of(holder)
        async with calling(scripted.urls[1], query="?autostart=0") as caller:
            await caller.say(**{**resume_of(holder), **wrong})
            frame = await caller.hear()
            await caller.socket.wait_closed()
        assert await state_of(holder) == before
        await assert_commits(holder)

    assert_refused(frame, code, flat=True)
    assert caller.socket.close_code == 1000


async def test_a_session_of_a_model_that_cannot_be_resumed_has_no_token_and_is_refused(profiled: Deployment):
    async with conversing(profiled.urls[0], model=PERSONAPLEX, extra_body={"script": []}) as holder:
        created = holder.heard[0]
        async with calling(profiled.urls[1], query="?autostart=0") as caller:
            wanted = {"incarnation": 0, "resume_token": "rt_none", "session_id": created["session"]["id"]}
            await caller.say(type="session.resume", **wanted)
            frame = await caller.hear()
            await caller.socket.wait_closed()
        await state_after(holder)

    assert_refused(frame, "unsupported_session_resume", flat=True)
    assert not {"incarnation", "attachment_generation", "resume_token"} & created.keys()


def resume_of(holder: Caller) -> Wire:
    """The event that takes the session over from where its holder is."""
    created = holder.heard[0]
    return {
        "type": "session.resume",
        "session_id": created["session"]["id"],
        "incarnation": created["incarnation"],
        "resume_token": created["resume_token"],
        "last_received_server_event_seq": holder.seqs[-1],
    }


# -- what takes a deployment of its own ------------------------------------------------------------------------------


async def test_an_item_id_that_is_taken_is_refused_to_a_stock_client_under_the_code_it_knows(scripted: Deployment):
    async with calling(scripted.urls[0], query="?model=scripted") as caller:
        await caller.hear_until("session.created")
        for event_id in ("evt_fine", EVENT_ID):
            await caller.say(event_id=event_id, **create({**message("hello"), "id": "item_mine"}))
        frame = await caller.hear_until("error")
        await caller.say(type="session.close")
        await caller.socket.wait_closed()

    assert frame["error"]["code"] == stock_code("item_exists")
    assert (frame["error"]["event_id"], frame["error"]["type"]) == (EVENT_ID, "invalid_request_error")


async def test_a_binary_frame_costs_the_socket_but_not_the_session(scripted: Deployment):
    async with opened(scripted) as caller:
        before = await state_of(caller)
        await caller.socket.send(b"\x00\x01")
        error = (await caller.hear())["error"]
        await caller.socket.wait_closed()
        async with calling(scripted.urls[1], query="?autostart=0") as second:
            await second.say(**resume_of(caller))
            assert (await second.hear())["type"] == "session.resumed"
            assert await state_of(second) == before
            await assert_commits(second)
            await second.say(type="session.close")
            await second.hear_until("session.closed")

    assert (error["code"], error["type"]) == ("realtime_input_failed", "invalid_request_error")
    assert caller.socket.close_code == 1003


@pytest.fixture(scope="module")
def small() -> Iterator[Deployment]:
    """One hasty gateway and one worker of one slot, over a store of their own."""
    store = start_store("valkey")
    try:
        worker = Deployment(store.url, gateways=0, model="scripted", options=("--slots", "1"))
        with worker as deployment, hasty_gateway(deployment):
            yield deployment
    finally:
        store.stop()


@contextmanager
def hasty_gateway(deployment: Deployment) -> Iterator[None]:
    """A gateway that waits for nothing longer than some seconds, the first of ``deployment.urls`` inside."""
    port = free_port()
    patience = ("--config-timeout-s", "2", "--opening-timeout-s", "4", "--log-patience-s", "1")
    where = ("--redis-url", deployment.redis_url, "--port", str(port), "--name", "hasty", "--default-model", "scripted")
    gateway = Service("duplex-es-gateway", *where, *patience, ready_port=port)
    try:
        gateway.wait_until_ready()
        deployment.urls.insert(0, f"ws://127.0.0.1:{port}/v1/realtime")
        yield
    finally:
        gateway.stop()


async def until_free(deployment: Deployment) -> None:
    """Return once the one worker's card says that no slot is taken."""
    log = open_log(deployment.redis_url)
    await log.connect()
    try:
        async with asyncio.timeout(30):
            while [card.used for card in await log.fleet()] != [0]:
                await asyncio.sleep(0.02)
    finally:
        await log.close_connections()


async def test_a_socket_that_says_nothing_is_timed_out(small: Deployment):
    async with calling(small.urls[0], query="?autostart=0") as caller:
        frame = await caller.hear()
        await caller.socket.wait_closed()

    assert_refused(frame, "config_timeout", flat=True)


async def test_a_deployment_that_has_just_become_full_turns_the_next_caller_away(small: Deployment):
    await until_free(small)
    async with opened(small) as holder:
        async with calling(small.urls[0], query="?autostart=0") as caller:
            await caller.say(type="session.update", event_id=EVENT_ID, session={"model": "scripted"})
            frame = await caller.hear()
            await caller.socket.wait_closed()
        await assert_commits(holder)

    assert 1_000 <= frame["error"].pop("retry_after_ms") <= 3_000
    assert_refused(frame, "duplex_session_busy", flat=False)


async def test_an_opening_that_no_worker_takes_up_fails_in_time(small: Deployment):
    await until_free(small)
    worker = small.workers[0].process
    worker.send_signal(signal.SIGSTOP)
    try:
        async with calling(small.urls[0], query="?autostart=0") as caller:
            await caller.say(type="session.update", event_id=EVENT_ID, session={"model": "scripted"})
            frame = await caller.hear()
            await caller.socket.wait_closed()
    finally:
        worker.send_signal(signal.SIGCONT)

    assert frame["error"]["code"] == "runtime_open_failed" and frame["error"]["type"] == "server_error"


async def test_an_answer_that_was_owed_by_a_lost_worker_has_to_be_asked_for(own_valkey: StoreProcess):
    owing = {"on": "audio_ms", "at": 20, "do": [{"heard": ""}, {"wait_ms": 60_000}, *ANSWER]}
    with Deployment(own_valkey.url, model="scripted") as deployment:
        extra_body = {"auto_response": True, "script": [owing]}
        async with conversing(deployment.urls[0], model="scripted", extra_body=extra_body) as caller:
            await caller.say(**append())
            await caller.hear_until("conversation.item.done")
            deployment.workers[0].process.kill()
            deployment.add_worker().wait_until_ready()
            error = (await caller.hear_until("error"))["error"]
            await assert_commits(caller)

    assert (error["code"], error["type"]) == ("worker_lost", "server_error")
    assert "event_id" not in error and "param" not in error


async def test_a_log_that_stopped_answering_costs_the_socket_but_not_the_session(own_valkey: StoreProcess):
    with Deployment(own_valkey.url, gateways=0, model="scripted") as deployment, hasty_gateway(deployment):
        async with opened(deployment) as caller:
            own_valkey.freeze()
            try:
                await caller.say(type="session.heartbeat")
                error = (await caller.hear_until("error"))["error"]
                await caller.socket.wait_closed()
            finally:
                own_valkey.thaw()
            async with calling(deployment.urls[0], query="?autostart=0") as second:
                await second.say(**resume_of(caller))
                assert (await second.hear())["type"] == "session.resumed"
                await assert_commits(second)
                await second.say(type="session.close")
                await second.hear_until("session.closed")

    assert (error["code"], error["type"]) == ("log_unavailable", "server_error")
    assert caller.socket.close_code == 1013


DEPLOYED = {
    "item_exists",
    "realtime_input_failed",
    "config_timeout",
    "duplex_session_busy",
    "runtime_open_failed",
    "worker_lost",
    "log_unavailable",
}
"""Codes with a test of their own above."""

NEVER: dict[str, str] = {
    "session_update_aborted": "an append cannot fail after it was taken: the log has it",
    "playback_ack_too_late": "every answer keeps its place in the history, so no report comes too late",
    "resource_exhausted": "the gateway's own limit is met first, and says duplex_session_busy",
    "session_exists": "the published code for an id that is taken is internal_error",
    "duplex_error": "stands in for a code that is not in the table, and every code said here is",
    "server_vad_initialization_failed": "a worker without its detector never becomes ready",
    "runtime_resume_failed": "needs a log that answers and refuses; tests/gateway/test_resuming.py has one",
    **dict.fromkeys(
        ("runtime_resume_unsupported", "runtime_touch_failed", "runtime_touch_unsupported"),
        "leases are the log's: every session of a resumable model can be touched and resumed",
    ),
    **dict.fromkeys(
        ("runtime_open_unsupported", "runtime_contract_invalid"),
        "a plug-in that breaks the contract stops its worker at the start",
    ),
    "runtime_close_failed": "closing is a record in the log; a model that fails at it is only logged",
    **dict.fromkeys(
        ("runtime_native_stage_role_required", "runtime_native_runner_kv_required"),
        "faults of a deployment with stages, which there are none of here",
    ),
}
"""Codes that cannot be provoked, by design."""


def test_every_code_is_provoked_or_excused_once():
    provoked = {
        *(row.code for row in (*REFUSED, *UNABLE)),
        *(row.code for row in AT_THE_DOOR),
        *(code for code, _ in RESUMES),
        *REPORTED[False],
        *REPORTED[True],
        *DEPLOYED,
    }
    assert provoked | NEVER.keys() == ERRORS.keys()
    assert not provoked & NEVER.keys()


def test_the_page_says_which_codes_are_never_said():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "realtime-api.md").read_text()
    table = page.partition("Published codes that are never said here")[2].partition("<!-- generated: errors -->")[0]
    listed = set(re.findall(r"`([a-z0-9_]+)`", table)) & ERRORS.keys()
    said_elsewhere = {"runtime_resume_failed", "duplex_session_busy", "internal_error"}
    assert listed - said_elsewhere == NEVER.keys() - said_elsewhere
