"""A worker is killed in the middle of an answer, and the caller hears every sample of it, once."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from tests.support.ordering import check_order
from tests.support.processes import StoreProcess
from tests.support.services import Deployment
from tests.support.talking import Caller, conversing
from tests.support.voices import spoken

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Talk = Callable[[Caller], Awaitable[None]]
VOICE = np.random.default_rng(5).integers(-9_000, 9_000, 4 * 16_000, dtype="<i2").tobytes()
QUESTION = np.rint(spoken("Can you tell me a story?") * 32_767).astype("<i2").tobytes()


async def speak_and_commit(caller: Caller) -> None:
    await caller.play(VOICE, realtime=False)
    await caller.say(type="input_audio_buffer.commit")


async def speak_and_pause(caller: Caller) -> None:
    await caller.play(QUESTION, silence_ms=1_000, realtime=False)


async def heard_whole(deployment: Deployment, talk: Talk) -> Caller:
    """The answer as it is when nobody dies."""
    async with conversing(deployment.urls[0], model=deployment.model) as caller:
        await talk(caller)
        await caller.hear_until("rate_limits.updated")
        await caller.say(type="session.close")
        await caller.hear_until("session.closed")
    return caller


def answer_of(caller: Caller) -> tuple[str, str]:
    (done,) = [frame for frame in caller.heard if frame["type"] == "response.done"]
    (item,) = done["response"]["output"]
    return done["response"]["status"], item["content"][0].get("transcript", "")


@pytest.mark.parametrize(
    ("model", "talk"),
    [("echo", speak_and_commit), ("echo", speak_and_pause), ("cascade", speak_and_pause)],
    ids=["echo-committed", "echo-paused", "cascade-spoken"],
)
async def test_an_answer_whose_worker_is_killed_goes_on_to_its_last_sample(
    own_valkey: StoreProcess, model: str, talk: Talk
):
    with Deployment(own_valkey.url, model=model) as deployment:
        whole = await heard_whole(deployment, talk)
        async with conversing(deployment.urls[0], model=model) as caller:
            deployment.add_worker().wait_until_ready()
            await talk(caller)
            for _ in range(4):
                await caller.hear_until("response.output_audio.delta")
            deployment.workers[0].process.kill()
            before = len(caller.answer_pcm)
            await caller.hear_until("rate_limits.updated")
            went_on = deployment.workers[1].words

            await talk(caller)  # The call goes on, too.
            await caller.hear_until("rate_limits.updated")
            await caller.say(type="session.close")
            await caller.hear_until("session.closed")

    first = caller.heard[: [frame["type"] for frame in caller.heard].index("rate_limits.updated") + 1]
    pcm = b"".join(base64.b64decode(f["delta"]) for f in first if f["type"] == "response.output_audio.delta")
    assert 0 < before < len(whole.answer_pcm)
    assert pcm == whole.answer_pcm
    (done,) = [frame for frame in first if frame["type"] == "response.done"]
    assert (done["response"]["status"], done["response"]["output"][0]["content"][0]["transcript"]) == answer_of(whole)
    assert "goes on with response=" in went_on
    assert caller.seqs == list(range(1, len(caller.seqs) + 1))
    assert not [frame for frame in caller.heard if frame["type"] == "error"]
    check_order(caller.heard)
