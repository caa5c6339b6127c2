"""Sound on the wire, as voice services are known to get it wrong; each test has the number of its case.

Bytes that are no whole sample, base64 as clients spell it, formats and rates, empty buffers, frames that are too large.
"""

from __future__ import annotations

import base64
import io
import json
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soxr
import websockets
from websockets.asyncio.server import ServerConnection, serve

from duplex_es.client.transport import websocket_connector
from duplex_es.protocol import MAX_EVENT_BYTES
from tests.support.calls import pcm16
from tests.support.examples import Wire
from tests.support.services import Deployment
from tests.support.talking import Caller, conversing, question_pcm
from workers import g711
from workers.models.scripted.profiles import PROFILES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

MAX_FRAME_BYTES = 512 * 1024
TONE_HZ = 440
TONE: list[Wire] = [{"audio_ms": 1_000, "text": "A tone.", "tone_hz": TONE_HZ, "pace": "fast"}, {"finish": True}]
LONG: list[Wire] = [{"audio_ms": 30_000, "text": "On. " * 100, "chunk_ms": 30_000, "pace": "fast"}, {"finish": True}]
PCMU: Wire = {"type": "audio/pcmu"}
Samples = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def stock(scripted: Deployment) -> Iterator[str]:
    """The address of a session for stock clients, first answered by a tone of one second, then by 30 s at once."""
    script = json.dumps([{"on": "generate", "do": TONE}, {"on": "generate", "do": LONG}])
    options = ("--slots", "16", "--model-option", "name=sounding", "--model-option", f"script={script}")
    with Deployment(scripted.redis_url, gateways=0, model="scripted", options=options):
        yield f"{scripted.urls[0]}?model=sounding&dialect=ga"


@asynccontextmanager
async def stock_call(url: str, **session: Any) -> AsyncIterator[Caller]:
    """An open session of a client that takes no frame above 512 KiB, changed by ``session``; hung up at the end."""
    async with websockets.connect(url, max_size=MAX_FRAME_BYTES) as socket:
        caller = Caller(socket)
        await caller.hear_until("session.created")
        if session:
            await caller.say(type="session.update", session={"type": "realtime", **session})
            await caller.hear_until("session.updated")
        yield caller
        with suppress(websockets.ConnectionClosed):
            await caller.say(type="session.close")
            async for frame in socket:
                caller.heard.append(json.loads(frame))


@asynccontextmanager
async def call(deployment: Deployment, *steps: Wire, model: str = "scripted", **session: Any) -> AsyncIterator[Caller]:
    """An open call to a model that plays ``steps`` when it is asked."""
    extra_body = {"auto_response": False, "script": list(steps)} if model == "scripted" else {}
    async with conversing(deployment.urls[0], model=model, **{"extra_body": extra_body, **session}) as caller:
        yield caller


async def append(caller: Caller, audio: bytes | str, **fields: Any) -> None:
    text = audio if isinstance(audio, str) else base64.b64encode(audio).decode()
    await caller.say(type="input_audio_buffer.append", audio=text, **fields)


async def settle(caller: Caller) -> None:
    """Return once everything said so far was answered."""
    await caller.say(type="session.update", session={})
    await caller.hear_until("session.updated")


async def committed_ms(caller: Caller) -> int:
    """Commit; how much sound the turn had."""
    await caller.say(type="input_audio_buffer.commit")
    stopped = await caller.hear_until("input_audio_buffer.speech_stopped")
    await caller.hear_until("input_audio_buffer.committed")
    return int(stopped["audio_end_ms"])


def heard(caller: Caller, kind: str) -> list[Wire]:
    return [frame for frame in caller.heard if frame["type"] == kind]


def errors(caller: Caller) -> dict[str, str]:
    """The code of each refused event."""
    return {frame["error"]["event_id"]: frame["error"]["code"] for frame in heard(caller, "error")}


def pitch_hz(samples: npt.NDArray[Any], rate_hz: int) -> float:
    """The strongest tone of a sound."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(spectrum.argmax() * rate_hz / len(samples))


def likeness(sound: npt.NDArray[Any], reference: npt.NDArray[Any]) -> float:
    """The correlation of two sounds of one rate where they fit best; 1 for the same."""
    one, other = sound.astype(np.float64), reference.astype(np.float64)
    size = len(one) + len(other)
    along = np.fft.irfft(np.fft.rfft(one, size) * np.conj(np.fft.rfft(other, size)), size)
    return float(along.max() / (np.linalg.norm(one) * np.linalg.norm(other)))


def speech(ms: int) -> bytes:
    """The beginning of the recorded question, 16 kHz PCM16, from its first loud sample on."""
    samples = np.frombuffer(question_pcm(), "<i2")
    loud = int(np.flatnonzero(np.abs(samples) > 500)[0])
    return samples[loud : loud + 16 * ms].tobytes()


async def echo_of(caller: Caller) -> tuple[bytes, int]:
    """End the turn; what comes back and its rate."""
    await caller.say(type="input_audio_buffer.commit", response_create=True)
    await caller.hear_until("response.done")
    (rate_hz,) = {frame["sample_rate_hz"] for frame in heard(caller, "response.output_audio.delta")}
    return caller.answer_pcm, rate_hz


# -- bytes and base64 ------------------------------------------------------------------------------------------------


async def test_half_a_sample_is_refused_and_shifts_nothing(pair: Deployment):  # V26
    said, at = speech(1_000), 0
    async with call(pair, model="echo") as caller:
        while at < len(said):
            for size in (1, 3, 4_801):
                await append(caller, said[at : at + size].ljust(size, b"\0"), event_id=f"evt_{at}_{size}")
            await append(caller, said[at : at + 4_800])
            at += 4_800
        echo, rate_hz = await echo_of(caller)

    assert set(errors(caller).values()) == {"bad_audio"} and len(errors(caller)) == 3 * -(-len(said) // 4_800)
    back = soxr.resample(np.frombuffer(echo, "<i2").astype(np.float64), rate_hz, 16_000)
    assert likeness(back, np.frombuffer(said, "<i2")) > 0.99


async def test_base64_is_taken_in_every_usual_spelling_and_nothing_else(scripted: Deployment):  # V27
    sound = pcm16(200)[:-2] + b"\xfb\xff"
    plain = base64.b64encode(sound).decode()
    assert {"+", "/", "="} <= set(plain)
    taken = (
        plain,
        plain[:100] + "\n " + plain[100:],
        plain.rstrip("="),
        plain.replace("+", "-").replace("/", "_"),
    )
    refused = {"short": "a===", "foreign": plain[:100] + "é" + plain[100:], "stars": "****"}
    async with call(scripted) as caller:
        for spelling in taken:
            await append(caller, spelling)
        for event_id, spelling in refused.items():
            await append(caller, spelling, event_id=event_id)
        duration_ms = await committed_ms(caller)

    assert errors(caller) == dict.fromkeys(refused, "bad_audio")
    assert duration_ms == 200 * len(taken)


async def test_the_prefix_of_a_data_url_is_no_part_of_the_data(profiled: Deployment):  # V28
    name = PROFILES["minicpmo_4_5"].info.name
    voice = "data:audio/wav;base64," + base64.b64encode(wav(pcm16(1_000))).decode()
    native = {"native_duplex": True, "script": []}
    async with call(profiled, model=name, ref_audio=voice, extra_body=native) as caller:
        await settle(caller)
        assert not errors(caller)
    async with call(profiled) as caller:
        await append(caller, "data:audio/pcm;base64," + base64.b64encode(pcm16(200)).decode())
        await append(caller, pcm16(200), video_frames=["data:image/jpeg;base64,/9j/4AAQSkZJRg=="])
        duration_ms = await committed_ms(caller)

    assert not heard(caller, "error")
    assert duration_ms == 400


def wav(pcm: bytes) -> bytes:
    """A WAV file of 16 kHz PCM16."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        sound.writeframes(pcm)
    return file.getvalue()


# -- formats and rates -----------------------------------------------------------------------------------------------


async def test_telephone_sound_comes_back_as_it_went(pair: Deployment):  # V29
    said = soxr.resample(np.frombuffer(speech(1_000), "<i2").astype(np.float64), 16_000, 8_000).astype("<i2")
    line = g711.encode("g711_ulaw", said)
    async with call(pair, model="echo", audio={"input": {"format": PCMU}, "output": {"format": PCMU}}) as caller:
        for at in range(0, len(line), 160):
            await append(caller, line[at : at + 160])
        echo, rate_hz = await echo_of(caller)

    assert rate_hz == 8_000
    assert likeness(g711.decode("g711_ulaw", echo), said) > 0.95  # 8 bits twice, and the top of the band is gone


async def test_a_rate_that_does_not_exist_is_refused(stock: str):  # V29
    async with stock_call(stock) as caller:
        unknown = {"input": {"format": {"type": "audio/pcm", "rate": 7}}}
        await caller.say(type="session.update", event_id="evt_rate", session={"type": "realtime", "audio": unknown})
        await caller.hear_until("error")
        await settle(caller)

    assert errors(caller) == {"evt_rate": "unsupported_audio_format"}


async def test_a_telephone_format_that_was_asked_for_is_kept_and_spoken(stock: str):  # V30
    async with stock_call(stock, audio={"input": {"format": PCMU}, "output": {"format": PCMU}}) as caller:
        await caller.say(type="response.create")
        await caller.hear_until("response.done")

    audio = heard(caller, "session.updated")[0]["session"]["audio"]
    assert audio["input"]["format"] == audio["output"]["format"] == PCMU
    pieces = [base64.b64decode(frame["delta"]) for frame in heard(caller, "response.output_audio.delta")]
    assert pieces and not [len(piece) for piece in pieces if len(piece) % 160]
    assert pitch_hz(g711.decode("g711_ulaw", b"".join(pieces)), 8_000) == pytest.approx(TONE_HZ, abs=3)


async def test_sound_has_the_rate_that_was_declared_whatever_the_model_speaks_at(profiled: Deployment):  # V35
    name = PROFILES["nemotron_voicechat"].info.name
    script = [{"on": "open", "do": [{"audio_ms": 1_040, "text": "A tone.", "tone_hz": TONE_HZ}, {"finish": True}]}]
    declared = {"output": {"format": {"type": "audio/pcm", "rate": 24_000}}}
    extra_body = {"auto_response": True, "script": script}
    async with call(profiled, model=name, audio=declared, extra_body=extra_body) as caller:
        for _ in range(16):
            await append(caller, pcm16(80, level=0.0))
        await caller.hear_until("response.done")

    deltas = heard(caller, "response.output_audio.delta")
    assert {frame["sample_rate_hz"] for frame in deltas} == {24_000}
    assert len(caller.answer_pcm) / 48 == pytest.approx(deltas[-1]["metadata"]["audio_duration_ms"], abs=1)
    assert pitch_hz(np.frombuffer(caller.answer_pcm, "<i2"), 24_000) == pytest.approx(TONE_HZ, abs=3)


# -- buffers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ms", [0, 99])
async def test_a_commit_of_too_little_sound_is_refused_and_makes_no_item(stock: str, ms: int):  # V31
    async with stock_call(stock, audio={"input": {"turn_detection": None}}) as caller:
        if ms:
            await append(caller, pcm16(ms, rate_hz=24_000))
        await caller.say(type="input_audio_buffer.commit", event_id="evt_commit")
        await settle(caller)

    assert errors(caller) == {"evt_commit": "input_audio_buffer_commit_empty"}
    assert not heard(caller, "conversation.item.added")


async def test_a_commit_that_is_declared_silent_makes_nothing_and_empties_the_buffer(scripted: Deployment):  # V32
    async with call(scripted, {"on": "end_turn", "do": TONE}) as caller:
        await append(caller, pcm16(400))
        await caller.say(type="input_audio_buffer.commit", is_speech=False)
        await caller.say(type="input_audio_buffer.commit", event_id="evt_again")
        await caller.hear_until("error")

    made = [frame["type"] for frame in caller.heard if frame["type"].startswith(("conversation.", "response.created"))]
    assert made == []
    assert errors(caller) == {"evt_again": "input_audio_buffer_empty"}


# -- frames ----------------------------------------------------------------------------------------------------------


async def test_no_frame_to_a_stock_client_is_larger_than_512_kib(stock: str):  # V33
    words = "word " * 200_000
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 1_000_000}
    async with stock_call(stock, instructions=words) as caller:
        await caller.say(type="conversation.item.create", item=message)
        await caller.hear_until("conversation.item.done")
        await caller.say(type="conversation.item.create", item={**message, "content": [message["content"][0], image]})
        for _ in range(2):
            await caller.say(type="response.create")
            await caller.hear_until("response.done")
        await settle(caller)

    assert len(caller.answer_pcm) == 31 * 48_000
    assert caller.socket.close_code == 1000


async def test_a_long_voice_is_not_repeated_in_a_frame_above_512_kib(profiled: Deployment):  # V33
    voice = "data:audio/wav;base64," + base64.b64encode(wav(pcm16(20_000))).decode()
    native = {"native_duplex": True, "script": []}
    async with call(profiled, model=PROFILES["minicpmo_4_5"].info.name, ref_audio=voice, extra_body=native) as caller:
        sizes = [len(json.dumps(frame)) for frame in caller.heard]

    assert len(voice) > MAX_FRAME_BYTES >= max(sizes)


async def test_a_large_event_is_taken_and_one_too_large_is_refused_by_name(scripted: Deployment):  # V33
    empty = len(json.dumps({"type": "session.heartbeat", "padding": ""}))
    async with call(scripted) as caller:
        await caller.say(type="session.heartbeat", padding="A" * (MAX_EVENT_BYTES - empty))
        await caller.hear_until("session.heartbeat_ack")
        await caller.say(type="session.heartbeat", padding="A" * (MAX_EVENT_BYTES - empty + 1), event_id="evt_large")
        refused = await caller.hear_until("error")
        await settle(caller)

    assert refused["error"]["code"] == "event_too_large"


async def test_an_event_far_beyond_the_limit_is_refused_by_name_too(scripted: Deployment):  # V33
    async with call(scripted) as caller:
        await caller.say(type="session.heartbeat", padding="A" * (17 * 1024 * 1024))
        refused = await caller.hear()

    assert refused["error"]["code"] == "event_too_large"


async def test_an_event_in_fragments_is_put_together(scripted: Deployment):  # V34
    text = json.dumps({"type": "session.heartbeat", "padding": "A" * 100_000})
    async with call(scripted) as caller:
        await caller.socket.send([text[at : at + 7_919] for at in range(0, len(text), 7_919)])
        await caller.hear_until("session.heartbeat_ack")

    assert not heard(caller, "error")


async def test_a_frame_in_fragments_is_put_together():  # V34
    frame = json.dumps({"type": "session.heartbeat_ack", "padding": "A" * 1_000_000})

    async def talk(socket: ServerConnection) -> None:
        await socket.send([frame[at : at + 7_919] for at in range(0, len(frame), 7_919)])

    async with serve(talk, "127.0.0.1", 0) as server:
        transport = await websocket_connector(open_timeout_s=5)(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        received = await transport.recv()
        await transport.close()

    assert received == frame
