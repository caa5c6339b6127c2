"""Asking a recorded question and keeping the answer."""

from __future__ import annotations

import argparse
import json
from array import array
from pathlib import Path

import pytest

from duplex_es.client import read_pcm16_wav, write_pcm16_wav
from duplex_es.client.events import view
from duplex_es.tools import talk
from duplex_es.tools.conversation import Conversation, Heard
from duplex_es.tools.errors import ToolError
from duplex_es.tools.probe import free_port
from tests.support.voice_server import ANSWER_PCM, ANSWER_RATE_HZ, voice_server

pytestmark = pytest.mark.unit


@pytest.fixture
def question(tmp_path: Path) -> Path:
    write_pcm16_wav(tmp_path / "question.wav", array("h", [6_000, -6_000] * 1_600).tobytes(), sample_rate_hz=16_000)
    return tmp_path / "question.wav"


def arguments(url: str, question: Path, out: Path) -> argparse.Namespace:
    return argparse.Namespace(
        url=[url], wav=question, out=out, model="m", instructions=None, commit=False, timeout_s=10.0
    )


async def test_the_answer_the_words_and_the_events_are_kept(
    question: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    async with voice_server() as server:
        assert await talk.run(arguments(server.url, question, out)) == 0
    assert read_pcm16_wav(out / "answer.wav", sample_rate_hz=ANSWER_RATE_HZ) == ANSWER_PCM
    assert (out / "transcript.txt").read_text() == "caller: What time is it?\nassistant: It is noon.\n"
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    assert "response.done" in [event["type"] for event in events]
    assert all(event["received_at_s"] > 0 for event in events)
    printed = capsys.readouterr().out
    for words in ("What time is it?", "It is noon.", "caller's last word -> first sound", str(out / "answer.wav")):
        assert words in printed


async def test_sound_is_kept_once_and_only_counted_among_the_events(tmp_path: Path) -> None:
    conversation = Conversation()
    conversation.take(
        Heard(1.0, view({"type": "response.output_audio.delta", "response_id": "r", "delta": "AAECAw=="}))
    )
    talk.save(conversation, tmp_path)
    [event] = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert event["delta"] == "(4 bytes)"


def test_a_conversation_without_sound_leaves_no_wav(tmp_path: Path) -> None:
    written = talk.save(Conversation(), tmp_path)
    assert sorted(path.name for path in written) == ["events.jsonl", "transcript.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.jsonl", "transcript.txt"]


async def test_a_service_that_is_not_there_is_trouble_in_words(question: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no gateway answers at"):
        await talk.run(arguments(f"ws://127.0.0.1:{free_port()}", question, tmp_path))
