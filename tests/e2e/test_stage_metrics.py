"""What a model tells of its own stages reaches the client that asks for it, and nobody else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from duplex_es.client import DuplexClient, EventCollector, SessionConfig
from duplex_es.tools import cli
from tests.support.services import Deployment
from tests.support.talking import calling, conversing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

WORDS = {"num_tokens_in": 31, "num_tokens_out": 3, "vllm_ttft_ms": 80.5, "vllm_tpot_ms": 20, "vllm_itls_ms": [19, 21]}
FIRST = {"0": WORDS}
SECOND = {"0": {"num_tokens_out": 2, "vllm_tpot_ms": 50, "vllm_itls_ms": [50]}, "1": {"audio_generated_frames": 9_600}}
SCRIPT = [
    {
        "on": "generate",
        "every": True,
        "do": [
            {"measure": FIRST},
            {"audio_ms": 400, "text": "One. Two.", "pace": "fast"},
            {"measure": SECOND},
            {"finish": True},
        ],
    }
]
TOLD = {
    "0": {
        "num_tokens_in": 31,
        "num_tokens_out": 5,
        "vllm_ttft_ms": 80.5,
        "vllm_tpot_ms": 30.0,
        "vllm_itls_ms": [19.0, 21.0, 50.0],
        "vllm_itl_ms": 30.0,
    },
    "1": {"audio_generated_frames": 9_600},
}
"""Both added up: amounts, the first time to a token, and the time for each token by tokens."""


async def answered(
    deployment: Deployment, model: str = "scripted", question: str = "Well?", **extra_body: Any
) -> tuple[str, EventCollector]:
    """The session, and everything that it is told, of one call with one answer."""
    config = SessionConfig(auto_response=False, extra_body=extra_body)
    collector = EventCollector()
    async with DuplexClient(deployment.urls, model=model, config=config) as client:
        listening = asyncio.create_task(collector.consume(client))
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": question}]}
        await client.send({"type": "conversation.item.create", "item": item})
        await client.send({"type": "response.create"})
        async with asyncio.timeout(30):
            while not collector.count("rate_limits.updated"):
                await asyncio.sleep(0.01)
        listening.cancel()
        await asyncio.wait([listening])
        return str(client.session_id), collector


@pytest.mark.shows("response.done")
async def test_the_stages_are_summed_up_with_the_answers_end_for_whoever_asks(scripted: Deployment) -> None:
    _, collector = await answered(scripted, script=SCRIPT, return_stage_metrics=True)
    (done,) = (event for event in collector.events if event["type"] == "response.done")
    assert done["response"]["metadata"]["vllm_omni"] == {"stage_metrics": TOLD}
    summary = collector.timing_summary(after_s=0.0)
    assert summary["stage_metrics"] == TOLD
    assert summary["stage0_tokens"] == {
        "source": "engine_stage_metrics",
        "output_token_count": 5,
        "ttft_ms": 80.5,
        "tpot_ms": 30.0,
        "itls_ms": [19.0, 21.0, 50.0],
        "inter_token_interval_ms": {"count": 3, "mean": 30.0, "p50": 21.0, "p95": 50.0, "max": 50.0},
    }
    assert summary["request_metrics"]["tpot_ms"] == 30.0


async def test_whoever_does_not_ask_hears_nothing_of_them(scripted: Deployment) -> None:
    for wish in ({}, {"return_stage_metrics": False}):
        _, collector = await answered(scripted, script=SCRIPT, **wish)
        heard = [event for event in collector.events if event["type"] != "session.created"]
        about = [event["type"] for event in heard if "stage_metrics" in json.dumps(event)]
        assert set(about) <= {"session.updated"}  # which shows the settings as they were written
        assert "stage_metrics" not in collector.timing_summary(after_s=0.0)


async def test_they_are_the_same_bytes_when_they_are_sent_again_by_another_gateway(scripted: Deployment) -> None:
    wish = {"auto_response": False, "script": SCRIPT, "return_stage_metrics": True}
    async with conversing(scripted.urls[0], model="scripted", extra_body=wish) as first:
        created = first.heard[0]
        await first.say(type="response.create")
        await first.hear_until("rate_limits.updated")
        first.socket.transport.abort()

    async with calling(scripted.urls[1], query="?duplex=1&autostart=0") as second:
        await second.say(
            type="session.resume",
            session_id=created["session"]["id"],
            incarnation=created["incarnation"],
            resume_token=created["resume_token"],
            last_received_server_event_seq=0,
        )
        await second.hear_until("rate_limits.updated")
        await second.say(type="session.close")

    told, again = (
        [json.dumps(event, sort_keys=True) for event in caller.heard if "server_event_seq" in event]
        for caller in (first, second)
    )
    assert again == told
    assert any('"vllm_tpot_ms": 30.0' in event for event in told)


def test_the_default_model_tells_of_its_words_and_its_voice_and_its_call_can_be_carried_out_again(
    cascade: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "What is 7 plus 5? And what is 3 times 4?"
    session_id, collector = asyncio.run(answered(cascade, "cascade", question, return_stage_metrics=True))
    words, voice = (collector.timing_summary(after_s=0.0)["stage_metrics"][stage] for stage in "01")
    assert 0 < words["vllm_ttft_ms"] <= words["stage_gen_time_ms"]
    assert voice["output_unit_count"] == words["output_unit_count"] and voice["stage_gen_time_ms"] > 0
    sound = collector.audio_bytes()
    assert (voice["audio_generated_frames"], voice["audio_duration_s"]) == (len(sound) // 2, len(sound) / 48_000)

    recording = tmp_path / "call.dxlog"
    wanted = ["log", "export", session_id, "-o", str(recording), "--redis-url", cascade.redis_url]
    assert cli.main(wanted) == 0
    assert cli.main(["log", "replay", "--check", "--file", str(recording)]) == 0
    capsys.readouterr()
    again = ["log", "replay", "--model", "cascade", "--check", "--json", "--file", str(recording)]
    assert cli.main(again) == 0
    assert json.loads(capsys.readouterr().out)["alike"]
