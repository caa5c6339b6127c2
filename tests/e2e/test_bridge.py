"""A realtime server behind the bridge, which is this service itself: gateway and worker behind gateway and worker."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.ordering import check_order
from tests.support.processes import StoreProcess
from tests.support.services import Deployment
from tests.support.talking import Caller, calling, conversing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

MODEL = "vllm-omni"
VOICE = np.random.default_rng(5).integers(-9_000, 9_000, 4 * 16_000, dtype="<i2").tobytes()


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "bridge.key"
    path.write_bytes(base64.b64encode(secrets.token_bytes(32)))
    return path


@contextmanager
def bridged(
    store: StoreProcess, secret_file: Path, *, model: str = "echo", options: tuple[str, ...] = (), **bridge: str
) -> Iterator[tuple[Deployment, Deployment]]:
    """A service with ``model``, and one whose only model is the bridge to it."""
    with Deployment(store.url, model=model, options=options) as there:
        said = {"url": there.urls[0], "model": model, "secret_file": str(secret_file), **bridge}
        words = tuple(word for name, value in said.items() for word in ("--model-option", f"{name}={value}"))
        with Deployment(store.url, model=MODEL, options=words) as here:
            yield here, there


async def speak_and_commit(caller: Caller) -> None:
    await caller.play(VOICE, realtime=False)
    await caller.say(type="input_audio_buffer.commit")


def sound_of(frames: list[dict[str, Any]]) -> bytes:
    deltas = (frame for frame in frames if frame["type"] == "response.output_audio.delta")
    return b"".join(base64.b64decode(frame["delta"]) for frame in deltas)


def kinds(caller: Caller) -> list[str]:
    return [frame["type"] for frame in caller.heard]


async def test_a_conversation_goes_through_both_services(own_valkey: StoreProcess, secret_file: Path):
    with bridged(own_valkey, secret_file) as (here, there):
        async with conversing(there.urls[0], model="echo") as direct:
            await speak_and_commit(direct)
            await direct.hear_until("rate_limits.updated")
        async with conversing(here.urls[0], model=MODEL) as caller:
            await speak_and_commit(caller)
            await caller.hear_until("rate_limits.updated")
            await caller.say(
                type="conversation.item.create",
                item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello you"}]},
            )
            await caller.say(type="response.create")
            done = await caller.hear_until("response.done")
    assert sound_of(caller.heard)[: len(VOICE)]
    assert len(sound_of(caller.heard)) > len(sound_of(direct.heard)) * 0.99
    assert done["response"]["status"] == "completed"
    assert done["response"]["output"][0]["content"][0]["transcript"] == "hello you"
    assert not [frame for frame in caller.heard if frame["type"] == "error"]
    check_order(caller.heard)


async def test_an_answer_goes_on_when_the_worker_of_the_bridge_is_killed(own_valkey: StoreProcess, secret_file: Path):
    with bridged(own_valkey, secret_file) as (here, _):
        async with conversing(here.urls[0], model=MODEL) as whole:
            await speak_and_commit(whole)
            await whole.hear_until("rate_limits.updated")
        async with conversing(here.urls[0], model=MODEL) as caller:
            here.add_worker().wait_until_ready()
            await speak_and_commit(caller)
            for _ in range(4):
                await caller.hear_until("response.output_audio.delta")
            here.workers[0].process.kill()
            before = len(caller.answer_pcm)
            await caller.hear_until("rate_limits.updated")
            first = list(caller.heard)

            await speak_and_commit(caller)  # The call goes on, too.
            await caller.hear_until("rate_limits.updated")
    (done,) = [frame for frame in first if frame["type"] == "response.done"]
    assert done["response"]["status"] == "completed", here
    assert 0 < before < len(whole.answer_pcm)
    assert sound_of(first) == whole.answer_pcm
    assert caller.seqs == list(range(1, len(caller.seqs) + 1))
    assert not [frame for frame in caller.heard if frame["type"] == "error"]
    check_order(caller.heard)


async def test_two_callers_have_two_sessions_of_the_server(own_valkey: StoreProcess, secret_file: Path):
    with bridged(own_valkey, secret_file) as (here, _):
        async with (
            conversing(here.urls[0], model=MODEL) as one,
            conversing(here.urls[0], model=MODEL) as other,
        ):
            for caller, words in ((one, "first here"), (other, "second there")):
                await caller.say(
                    type="conversation.item.create",
                    item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]},
                )
                await caller.say(type="response.create")
            said = [await caller.hear_until("response.done") for caller in (one, other)]
    assert [done["response"]["output"][0]["content"][0]["transcript"] for done in said] == [
        "first here",
        "second there",
    ]


async def test_a_server_with_no_room_is_an_admission_error_here(own_valkey: StoreProcess, secret_file: Path):
    with bridged(own_valkey, secret_file, options=("--slots", "1")) as (here, there):
        async with (
            conversing(there.urls[0], model="echo"),
            calling(here.urls[0], query="?autostart=0") as caller,
        ):
            await caller.say(type="session.update", session={"model": MODEL})
            refused = await caller.hear_until("error")
    assert json.dumps(refused).count("resource_exhausted") == 1
