"""Models that cannot give an answer again: when their worker dies in one, the client is told and the call goes on."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from duplex_es.model import Model
from duplex_es.protocol import CommitInput
from tests.support.calls import Caller, HinderedLog, check_log, pcm16
from tests.support.chat_server import audio_chunk, chat_server, metadata, sound, text_chunk
from tests.workers.test_actor_senses import Running
from workers.models.chat import ChatModel
from workers.models.minicpmo import MiniCPMModel
from workers.models.qwen3omni import QwenModel
from workers.models.scripted import ScriptedModel

pytestmark = pytest.mark.unit


def voice_url() -> str:
    """Half a second of a client's voice."""
    data = io.BytesIO()
    with wave.open(data, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(16_000)
        wav.writeframes(pcm16(500))
    return "data:audio/wav;base64," + base64.b64encode(data.getvalue()).decode()


VOICE = voice_url()
NATIVE = {"ref_audio": VOICE, "extra_body": {"native_duplex": True, "auto_response": True}}


@dataclass(frozen=True)
class Case:
    """How two workers get the same model, how a session of it opens, and whether its answers end."""

    make: Callable[[Path], Model]
    session: dict[str, Any] = field(default_factory=dict)
    answers_end: bool = True


def profile(name: str) -> Callable[[Path], Model]:
    return lambda folder: ScriptedModel({"profile": name, "lead_ms": "300"})


CASES = {
    # Its answers take seconds: several units of the double's, by these dice.
    "MiniCPM-o 4.5": Case(
        lambda folder: MiniCPMModel({"fake": "yes", "seed": "1"}),
        {"ref_audio": VOICE, "extra_body": {"native_duplex": True}},
    ),
    "Qwen3-Omni": Case(lambda folder: QwenModel({"weights": str(folder / "whole")}, "tests.support.toy_chat:ToyChat")),
    "chat": Case(lambda folder: ChatModel({"chat_url": (folder / "url").read_text(), "lead_ms": "300"})),
    "the shape of MiniCPM-o 4.5": Case(profile("minicpmo_4_5"), NATIVE),
    "the shape of MiniCPM-o 4.5 in the chat lane": Case(profile("minicpmo_4_5")),
    "the shape of PersonaPlex": Case(
        profile("personaplex"), {"sample_rate_hz": 24_000, "input_audio_format": "pcm_f32le"}, answers_end=False
    ),
    "the shape of Nemotron VoiceChat": Case(profile("nemotron_voicechat"), {"extra_body": {"auto_response": True}}),
    "the shape of Qwen3-Omni": Case(profile("qwen3_omni")),
}


@asynccontextmanager
async def loaded(case: Case, folder: Path) -> AsyncIterator[list[Model]]:
    """The model of two workers, loaded."""
    piece = sound(250)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            chat_server([text_chunk("Once upon a time."), *[audio_chunk(piece, metadata(piece))] * 8])
        )
        (folder / "url").write_text(server.url)
        models = [case.make(folder) for _ in range(2)]
        for model in models:
            await model.load()
            stack.push_async_callback(model.unload)
        yield models


async def speak(caller: Caller, *, commits: bool) -> None:
    """A second and a half of speech, in pieces that every model takes, and the end of the turn."""
    for _ in range(20):
        await caller.append(pcm16(75) if commits else bytes(24 * 75 * 4))
    if commits:
        await caller.say(CommitInput(response_create=True))


@pytest.mark.parametrize("name", CASES)
async def test_an_answer_that_cannot_be_given_again_ends_as_failed_and_the_next_turn_is_answered(
    name: str, tmp_path: Path
) -> None:  # V58
    case, log = CASES[name], HinderedLog()
    async with loaded(case, tmp_path) as (first, second):
        caller = await Caller.open(log, first.info.name, **case.session)
        running = await Running.on(log, first)
        await caller.answer()
        await speak(caller, commits=case.answers_end)
        await caller.hears("response.output_audio.delta")
        await running.die()
        await log.release(running.actor.claim)
        successor = await Running.on(log, second, "w2")
        (lost,) = await caller.hears("response.done")
        assert (lost.response.status, lost.response.status_details.reason) == ("failed", "worker_lost")
        await speak(caller, commits=case.answers_end)
        await caller.hears("response.created", 2)
        if case.answers_end:
            done = (await caller.hears("response.done", 2))[1]
            assert done.response.status == "completed"
        ids = [created.response.id for created in caller.heard("response.created")]
        assert len(set(ids)) == len(ids)
        await check_log(log, caller.ref)
        await successor.die()
