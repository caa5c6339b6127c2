"""Random lives of a session: what callers, models and hosts may say, sensible or not, told relative to the state.

A *program* is a list of moves; each move is a name and two small numbers, so that a failing program shrinks to a few
readable lines. ``play`` turns a move into one input for the session as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from duplex_es.model import (
    ModelCalledFunction,
    ModelDroppedInput,
    ModelFailed,
    ModelFinished,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    ModelHeardWords,
    ModelInterrupted,
    ModelListened,
    ModelMeasured,
    ModelPassedOn,
    ModelProducedAudio,
    ModelProducedText,
    ModelRemembered,
    ModelSpoke,
    Recipe,
    StageMetrics,
)
from duplex_es.protocol import (
    ForkSession,
    OpenSession,
    ProtocolError,
    RefuseCommand,
    SocketAttached,
    SocketDetached,
    decode_command,
)
from duplex_es.protocol.commands import AppendAudio
from duplex_es.session.inputs import (
    AnswerDiverged,
    AudioArrived,
    Input,
    ModelLost,
    OpenAs,
    SpeechReady,
    TimerFired,
    VadVerdict,
    WorkerTookOver,
)
from duplex_es.session.state import Session
from tests.session.cast import EAGER, NATIVE, PATIENT, PLAIN, TURN_BASED

STEPPING = msgspec.structs.replace(NATIVE, name="stepping", memory_bytes=16)
MODELS = (PATIENT, EAGER, PLAIN, TURN_BASED, NATIVE, STEPPING)
SETTINGS: tuple[dict[str, object], ...] = (
    {},
    {"playback_commit_policy": "ack_only"},
    {"modalities": ["text"]},
    {"extra_body": {"auto_response": True, "return_stage_metrics": True}},
    {"extra_body": {"auto_response": False, "return_stage_metrics": 1}, "playback_commit_policy": "ack_only"},
    {"turn_detection": {"type": "server_vad"}},
    {"turn_detection": {"type": "server_vad"}, "extra_body": {"auto_response": False, "force_listen_count": 3}},
    {"turn_detection": None, "input_audio_format": "g711_ulaw", "idle_timeout_s": 0.5},
    {"modalities": ["audio"], "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}},
)
WORDS = ("", "Yes. ", "It is sunny, ", "twenty-four degrees. ", "ünïcödé 漢字 ", " ", "and", "ok")

Move = tuple[str, int, int]


def wire(event: dict[str, Any]) -> Input:
    """The input that a client's JSON object becomes on its way through the gateway."""
    try:
        said = decode_command(msgspec.json.encode(event))
    except ProtocolError as error:
        return RefuseCommand.of(error)
    return AudioArrived(command=said, rms=0.1) if isinstance(said, AppendAudio) else said


# -- what a client may say, of which much makes no sense -----------------------------------------------------------

SILLY: tuple[dict[str, Any], ...] = (
    {"type": "session.update", "session": {"model": "another"}},
    {"type": "session.update", "session": {"voice": "anna", "temperature": "hot", "speed": None}},
    {"type": "session.update", "session": {"playback_commit_policy": "ack_only", "modalities": ["text", 3]}},
    {"type": "session.update", "session": {"output_modalities": ["text"], "tools": [{"name": "f"}], "tracing": None}},
    {"type": "session.update", "session": {"turn_detection": {"type": "server_vad"}, "audio": {"output": 5}}},
    {"type": "session.update", "session": {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}},
    {"type": "session.update", "session": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5000}}},
    {"type": "session.update", "session": {"turn_detection": {"type": "banana"}}},
    {"type": "session.update", "session": {"input_audio_format": "mp3"}},
    {"type": "session.update", "session": {"sample_rate_hz": 8000, "idle_timeout_s": -1, "metadata": {"a": [1, None]}}},
    {"type": "session.update", "session": {"extra_body": {"auto_response": True, "ref_audio_path": "/etc/passwd"}}},
    {"type": "session.update", "session": {"extra_body": {"auto_response": False, "native_duplex": 1}}},
    {"type": "session.update"},
    {"type": "session.heartbeat", "event_id": "h"},
    {"type": "session.event_ack", "server_event_seq": 10**9},
    {"type": "session.resume", "session_id": "s1", "incarnation": 0, "resume_token": "t"},
    {"type": "input_audio_buffer.append", "audio": ""},
    {"type": "input_audio_buffer.append", "audio": "AAA="},
    {"type": "input_audio_buffer.append", "audio": "AAAAAA==", "format": "wav"},
    {"type": "input_audio_buffer.append", "audio": "AAAA", "format": "pcm_f32le"},
    {"type": "input_audio_buffer.append", "audio": "AAAAAAAA", "channels": 2},
    {"type": "input_audio_buffer.append", "audio": "AAAAAAAA", "audio_start_ms": -5, "transcript": " hello "},
    {"type": "input_audio_buffer.append", "audio": "AAAA", "format": "g711_alaw", "vad": {"is_speech": False}},
    {"type": "input_audio_buffer.commit", "audio_end_ms": -7},
    {"type": "input_audio_buffer.commit", "is_speech": False},
    {"type": "input_audio_buffer.commit", "response_create": True},
    {"type": "input.commit"},
    {"type": "input.commit", "response_create": False},
    {"type": "input.text.append", "text": "hi"},
    {"type": "conversation.item.create", "item": {"type": "message", "content": [{"type": "input_text", "text": "a"}]}},
    {"type": "conversation.item.create", "item": {"type": "message", "role": "assistant", "content": []}},
    {
        "type": "conversation.item.create",
        "item": {"id": "mine", "role": "assistant", "content": [{"type": "text", "text": "I said"}]},
    },
    {"type": "conversation.item.create", "item": {"type": "message", "content": [{"type": "audio", "audio": "AAAA"}]}},
    {
        "type": "conversation.item.create",
        "item": {"content": [{"type": "input_text", "text": "b"}, {"type": "audio", "audio": "AAAAAA==", "id": "q"}]},
    },
    {"type": "conversation.item.create", "item": {"id": "mine", "content": [{"type": "audio", "audio": "AAAAAAAA"}]}},
    {"type": "conversation.item.create", "item": {"type": "function_call", "call_id": "c1", "name": "f"}},
    {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "c1", "output": "1"}},
    {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "?", "output": 1}},
    {"type": "conversation.item.create", "item": {"type": "banana"}},
    {
        "type": "conversation.item.create",
        "previous_item_id": "nowhere",
        "item": {"content": [{"type": "input_text", "text": "b"}]},
    },
    {"type": "conversation.item.retrieve"},
    {"type": "conversation.item.delete", "item_id": "nothing"},
    {"type": "conversation.item.truncate", "item_id": "nothing", "audio_end_ms": 5},
    {"type": "conversation.item.truncate", "item_id": "mine", "audio_end_ms": 0},
    {"type": "response.create"},
    {"type": "response.create", "response": {"conversation": "none", "metadata": {"k": "v"}}},
    {"type": "response.create", "response": {"modalities": ["text"], "instructions": "sing"}},
    {"type": "response.create", "response": {"output_audio_format": "mp3"}},
    {"type": "response.cancel"},
    {"type": "response.cancel", "response_id": "resp_other"},
    {"type": "output_audio_buffer.clear"},
    {"type": "barge_in"},
    {"type": "input.cancel"},
    {"type": "input_audio_buffer.clear"},
    {"type": "turn.signal", "event": "response.cancel"},
    {"type": "turn.signal", "event": "barge_in", "payload": {"source": "client_vad"}},
    {"type": "turn.signal", "event": "user_started"},
    {"type": "turn.signal", "event": "whatever"},
    {"type": "playback.ack"},
    {"type": "playback.ack", "played_ms": -3, "response_id": "resp_other"},
    {"type": "not.an.event"},
    {"type": 5},
)


def _silly(session: Session, a: int, b: int) -> Input:
    return wire({**SILLY[(a * 256 + b) % len(SILLY)], "event_id": f"evt_{a}_{b}"})


def _item(session: Session, a: int) -> str:
    return session.items[a % len(session.items)].id if session.items else "nothing"


def _about_item(verb: str) -> Callable[[Session, int, int], Input]:
    def said(session: Session, a: int, b: int) -> Input:
        return wire({"type": f"conversation.item.{verb}", "item_id": _item(session, a), "audio_end_ms": b * 40})

    return said


def _typed(session: Session, a: int, b: int) -> Input:
    item: dict[str, Any] = {"content": [{"type": "input_text", "text": WORDS[a % len(WORDS)] + "?"}]}
    if b % 5 == 0:
        item["id"] = _item(session, a)
    return wire({"type": "conversation.item.create", "item": item})


def _output(session: Session, a: int, b: int) -> Input:
    calls = [item.call_id for item in session.items if item.type == "function_call"]
    item = {"type": "function_call_output", "call_id": calls[a % len(calls)] if calls else "c", "output": str(b)}
    return wire({"type": "conversation.item.create", "item": item})


def _append(session: Session, a: int, b: int) -> Input:
    hints: tuple[dict[str, Any], ...] = (
        {},
        {"is_speech": True},
        {"is_speech": False},
        {"transcript": WORDS[b % len(WORDS)]},
        {"sample_rate_hz": 24_000},
        {"format": "g711_ulaw"},
        {"speech_probability": 0.7},
    )
    command = AppendAudio(audio=bytes(4 * (a + 1)), **hints[b % len(hints)])
    return AudioArrived(command=command, rms=(None, 0.0, 0.2)[a % 3])


def _overlap(session: Session, a: int, b: int) -> Input:
    """An append with a wish of its own, told of speech over an answer."""
    hints: tuple[dict[str, Any], ...] = (
        {"overlap_action": "barge_in"},
        {"overlap_action": "listen"},
        {"overlap_action": "drop"},
        {"force_barge_in": True},
        {"force_listen": True},
        {"transcript": "ok"},
        {"transcript": "but"},
        {"duration_ms": 900},
    )
    return AudioArrived(
        command=AppendAudio(audio=bytes(64 * (a % 512 + 1)), **hints[b % 8]), rms=(0.2, 0.0)[a % 4 == 0]
    )


def _detected(session: Session, a: int, b: int) -> Input:
    """Audio with a detector's verdict: an utterance begins, goes on, ends, or there is none."""
    begun = session.input.speech_started and not session.input.speech_stopped
    now_ms = session.input.clock.ms
    vad = VadVerdict(
        is_speech=b % 3 > 0,
        speech_active=begun if b % 3 == 0 else True,
        speech_started=not begun and b % 3 == 1,
        speech_stopped=begun and b % 3 == 2,
        probability=(b % 10) / 10,
        start_ms=max(0, now_ms - a) if b % 2 else None,
        end_ms=now_ms + a if b % 2 else None,
    )
    command = AppendAudio(audio=bytes(64 * (a + 1)), **({"sample_rate_hz": 24_000} if a % 9 == 0 else {}))
    return AudioArrived(command=command, rms=0.1, vad=vad)


def _ack(session: Session, a: int, b: int) -> Input:
    event: dict[str, Any] = {"type": "playback.ack", "played_ms": b * 25}
    answers = list(session.answers())
    if answers and a % 3:
        one = answers[a % len(answers)]
        event["response_id" if a % 2 else "item_id"] = one.response_id if a % 2 else one.id
    if a % 5 == 0:
        event["truncate"] = True
    if a % 7 == 0:
        event["committed_ms"] = b * 10
    return wire(event)


def _clear_output(session: Session, a: int, b: int) -> Input:
    event = {"type": "output_audio_buffer.clear"}
    if a % 3 == 0 and session.last_response_id:
        event["response_id"] = session.last_response_id
    return wire(event)


# -- what a model may report ---------------------------------------------------------------------------------------


def _epoch(session: Session, b: int) -> int:
    """Mostly the right one."""
    return session.epoch if b % 8 else max(0, session.epoch - 1 + b // 8 % 3)


def _turn(session: Session, b: int) -> int:
    """Mostly the turn that is being given."""
    live, begun = session.response, session.begun
    now = begun.turn if begun is not None else session.turn_id
    now = live.turn if live is not None and live.turn is not None else now
    return now if b % 7 else now + b // 7 % 3 - 1


def _spoke(session: Session, a: int, b: int) -> Input:
    live = session.response
    named = (None, live.id if live else None, session.last_response_id, "resp_other")[a % 4] if a % 5 == 0 else None
    if live is not None and live.requested and a % 3:
        named = live.id
    after = 1 if session.begun is not None or (live is not None and live.turn is not None) else 0
    recipe = Recipe(notes={"words": a}) if b % 2 else None
    return ModelSpoke(epoch=_epoch(session, b), turn=_turn(session, b) + after, response_id=named, recipe=recipe)


def _audio(session: Session, a: int, b: int) -> Input:
    text = WORDS[a % len(WORDS)]
    return ModelProducedAudio(epoch=_epoch(session, b), turn=_turn(session, b), pcm=bytes(480 * (a % 32)), text=text)


def _ready(session: Session, a: int, b: int) -> Input:
    return SpeechReady(
        epoch=_epoch(session, b),
        turn=_turn(session, b),
        samples=240 * (a % 16),
        model_rate_hz=24_000,
        audio=bytes(80 * (a % 17)),
        format="g711_ulaw",
        rate_hz=8_000,
        text=WORDS[b % len(WORDS)],
    )


def _text(session: Session, a: int, b: int) -> Input:
    return ModelProducedText(epoch=_epoch(session, b), turn=_turn(session, b), text=WORDS[a % len(WORDS)])


def _finish(session: Session, a: int, b: int) -> Input:
    return ModelFinished(epoch=_epoch(session, b), turn=_turn(session, b), input_tokens=a if a % 2 else None)


def _measured(session: Session, a: int, b: int) -> Input:
    told = StageMetrics(
        num_tokens_out=a - 9,
        vllm_ttft_ms=a / 7,
        vllm_tpot_ms=(b / 3, float("nan"), 0.0)[a % 3],
        vllm_itls_ms=(a / 3,) * (b % 4),
        other={"replica_id": a, "nested": {}},
    )
    return ModelMeasured(epoch=_epoch(session, b), turn=_turn(session, b), stages={str(a % 3): told})


def _listened(session: Session, a: int, b: int) -> Input:
    live = session.response
    return ModelListened(epoch=_epoch(session, b), response_id=live.id if live is not None and a % 2 else None)


def _heard_turn(session: Session, a: int, b: int) -> Input:
    waiting = [item.id for item in session.items if item.transcribing]
    named = waiting[a % len(waiting)] if waiting and a % 3 else _item(session, a) if a % 7 == 0 else None
    failed = "broken" if a % 11 == 0 else None
    words = "" if failed else WORDS[b % len(WORDS)]
    return ModelHeardTurn(epoch=_epoch(session, b), transcript=words, item_id=named, failed=failed)


def _called(session: Session, a: int, b: int) -> Input:
    call_id = None if a % 9 == 0 else f"call_{a % 40}"
    return ModelCalledFunction(
        epoch=_epoch(session, b), turn=_turn(session, b), call_id=call_id, name="f" if a % 8 else "", arguments="{}"
    )


def _heard_speech(session: Session, a: int, b: int) -> Input:
    return ModelHeardSpeech(epoch=_epoch(session, b), start_ms=session.input.clock.ms - (a % 4) * 100)


def _heard_speech_end(session: Session, a: int, b: int) -> Input:
    return ModelHeardSpeechEnd(epoch=_epoch(session, b), end_ms=session.input.clock.ms, is_turn=bool(a % 3))


# -- the host, and the whole table ---------------------------------------------------------------------------------


def _socket(session: Session, a: int, b: int) -> Input:
    generation = max(0, session.generation + (1 if a % 3 else 0) - (1 if b % 9 == 0 else 0))
    if session.attached and b % 2:
        return SocketDetached(generation=session.generation, reason="lost")
    return SocketAttached(generation=generation, gateway="g", dialect=("duplex", "ga", "beta")[b % 3])


def _sounding(session: Session, a: int) -> tuple[str, ...]:
    return tuple(item.id for item in session.items if item.part == "audio") if a % 3 else ()


def _diverged(session: Session, a: int, b: int) -> Input:
    live = session.response
    return AnswerDiverged(live.id if live is not None and a % 4 else "resp_other")


def _simple(event: dict[str, Any]) -> Callable[[Session, int, int], Input]:
    return lambda session, a, b: wire(event)


MOVES: dict[str, Callable[[Session, int, int], Input]] = {
    "append": _append,
    "commit": _simple({"type": "input_audio_buffer.commit"}),
    "commit and ask": _simple({"type": "input.commit"}),
    "create": _simple({"type": "response.create", "event_id": "evt_create"}),
    "cancel": _simple({"type": "response.cancel"}),
    "barge in": _simple({"type": "input.cancel"}),
    "clear output": _clear_output,
    "type": _typed,
    "output": _output,
    "ack": _ack,
    "truncate": _about_item("truncate"),
    "delete": _about_item("delete"),
    "retrieve": _about_item("retrieve"),
    "silly": _silly,
    "spoke": _spoke,
    "audio": _audio,
    "text": _text,
    "finish": _finish,
    "overlap": _overlap,
    "detected": _detected,
    "ready": _ready,
    "passed on": lambda session, a, b: ModelPassedOn(
        epoch=_epoch(session, b), turn=_turn(session, b), message={"a": a}
    ),
    "remembered": lambda session, a, b: ModelRemembered(epoch=_epoch(session, b), data=bytes(a % 5), anew=b % 7 == 0),
    "measured": _measured,
    "dropped": lambda session, a, b: ModelDroppedInput(epoch=_epoch(session, b), duration_ms=20 * (a % 4)),
    "listened": _listened,
    "heard speech": _heard_speech,
    "heard speech end": _heard_speech_end,
    "heard turn": _heard_turn,
    "heard words": lambda session, a, b: ModelHeardWords(epoch=_epoch(session, b), text=WORDS[a % len(WORDS)]),
    "called": _called,
    "interrupted": lambda session, a, b: ModelInterrupted(epoch=_epoch(session, b), turn=_turn(session, b)),
    "failed": lambda session, a, b: ModelFailed(
        epoch=_epoch(session, b), code=("response_error", "odd")[a % 2], message="m", fatal=a % 40 == 0
    ),
    "took over": lambda session, a, b: WorkerTookOver(fence=a, can_rebuild=b % 4 > 0, sounding=_sounding(session, a)),
    "diverged": _diverged,
    "socket": _socket,
    "forked": lambda session, a, b: ForkSession(session_id="s0", incarnation=a % 3, seq=b),
    "expiry": lambda session, a, b: TimerFired("session_expiry_warning"),
    "quiet": lambda session, a, b: TimerFired("caller_silence"),
    "timer": lambda session, a, b: TimerFired(("idle", "disconnect_grace", "?")[a % 3 if b % 16 == 0 else 2]),
    "model lost": lambda session, a, b: ModelLost(code="internal_error", message="m", opening=b % 2 == 0),
    "close": _simple({"type": "session.close", "event_id": "evt_close"}),
    "open again": lambda session, a, b: opening(a, b),
}
"""Every move there is."""

USUAL = tuple(name for name in MOVES if name not in ("model lost", "close", "open again", "timer"))
"""Those that do not end the session."""
OFTEN = (
    "overlap",
    "detected",
    "spoke",
    "audio",
    "audio",
    "audio",
    "finish",
    "append",
    "append",
    "commit",
    "create",
    "ack",
    "silly",
    "silly",
)


def opening(a: int, b: int) -> OpenAs:
    """One of the openings that are accepted."""
    model = MODELS[a % len(MODELS)]
    settings = SETTINGS[b % len(SETTINGS)]
    return OpenAs(
        command=OpenSession(session=settings, updated=bool(a % 2)),
        session_id="s1",
        incarnation=0,
        model=model.name,
        info=model,
        max_session_s=b if a % 2 else None,
    )


def play(session: Session, move: Move) -> Input:
    """The input that a move is for the session as it stands."""
    name, a, b = move
    return MOVES[name](session, a, b)
